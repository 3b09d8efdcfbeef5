/*
 * publishers.c: reads the lists of publishers. A file that cannot be read as it was meant is an
 * error, because ignoring it would trust everybody.
 */
#include "kit/cli/publishers.h"

#include <stdlib.h>
#include <string.h>

#include "kit/base/nearest.h"
#include "kit/catalog/publisher.h"
#include "kit/cli/config_job.h"
#include "kit/formats/toml.h"
#include "kit/system/file.h"

#define LISTS_MAX 3u
#define NAMES_MAX 256u
#define NAME_BYTES_MAX 200u
#define FILE_BYTES_MAX (4u << 20)

struct reading {
    struct af_cli *cli;
    const char *const *known; /* the publishers of the catalog */
    size_t known_count;
    const struct af_catalog *catalog;
    struct af_fit_publishers *lists;
    size_t count;
    struct anyflash_error *err;
};

/* Whether a wheel of the catalog is of that publisher. */
static bool is_known(const struct reading *reading, const char *name)
{
    for (size_t i = 0; i < reading->catalog->count; i++)
        if (af_publisher_is(&reading->catalog->wheels[i], name))
            return true;
    return false;
}

static enum anyflash_status add_name(struct reading *reading, const char *from,
                                     const char *name, const char **names, size_t *count)
{
    char shown[80];
    struct af_cli *cli = reading->cli;
    if (*count == NAMES_MAX)
        return af_fail(reading->err, ANYFLASH_E_LIMIT, "%s: more than %u publishers", from,
                       NAMES_MAX);
    if (strlen(name) <= NAME_BYTES_MAX && is_known(reading, name)) {
        names[(*count)++] = name;
        return ANYFLASH_OK;
    }
    const char *near = strlen(name) <= NAME_BYTES_MAX
                           ? af_nearest(name, reading->known, reading->known_count)
                           : NULL;
    cli->hint = near != NULL ? af_arena_format(&cli->arena, "did you mean '%s'?", near)
                             : "`anyflash find --json` names the publisher of each wheel";
    return af_fail(reading->err, ANYFLASH_E_ARGUMENT,
                   "%s: the catalog has no wheel published by '%s'", from,
                   af_text_quote(shown, sizeof shown, name, strlen(name)));
}

static enum anyflash_status add_list(struct reading *reading, const char *from,
                                     const char *const *names, size_t count)
{
    if (count == 0)
        return af_fail(reading->err, ANYFLASH_E_ARGUMENT,
                       "%s: the list of publishers is empty, so no wheel is allowed", from);
    reading->lists[reading->count++] = (struct af_fit_publishers){names, count, from};
    return ANYFLASH_OK;
}

/* "Dao-AILab,mjun0812" */
static enum anyflash_status read_option(struct reading *reading, const char *text)
{
    struct af_arena *arena = &reading->cli->arena;
    const char **names = af_arena_array(arena, NAMES_MAX, sizeof *names);
    size_t count = 0;
    enum anyflash_status status = ANYFLASH_OK;
    for (const char *at = text; status == ANYFLASH_OK && *at != '\0';) {
        size_t len = strcspn(at, ",");
        const char *name = af_arena_text_n(arena, at, len);
        if (name == NULL || names == NULL)
            return af_fail_memory(reading->err);
        status = add_name(reading, "--publishers", name, names, &count);
        at += len;
        at += *at == ',';
    }
    return status == ANYFLASH_OK ? add_list(reading, "--publishers", names, count) : status;
}

static enum anyflash_status read_array(struct reading *reading, const char *from,
                                       const struct af_toml_item *array)
{
    const char **names = af_arena_array(&reading->cli->arena, NAMES_MAX, sizeof *names);
    size_t count = 0;
    enum anyflash_status status = ANYFLASH_OK;
    if (names == NULL)
        return af_fail_memory(reading->err);
    if (array->kind != AF_TOML_ARRAY)
        return af_fail(reading->err, ANYFLASH_E_DATA,
                       "%s: publishers is not a list, such as [\"Dao-AILab\"]", from);
    for (const struct af_toml_item *item = array->first; status == ANYFLASH_OK && item != NULL;
         item = item->next)
        status = item->kind == AF_TOML_STRING
                     ? add_name(reading, from, item->text, names, &count)
                     : af_fail(reading->err, ANYFLASH_E_DATA,
                               "%s: publishers has an element that is not a text", from);
    return status == ANYFLASH_OK ? add_list(reading, from, names, count) : status;
}

/* Reads a table whose only key is `publishers`; a misspelt key must not go unnoticed. */
static enum anyflash_status read_table(struct reading *reading, const char *from,
                                       const struct af_toml_item *table)
{
    char shown[80];
    enum anyflash_status status = ANYFLASH_OK;
    if (table->kind != AF_TOML_TABLE && table->kind != AF_TOML_INLINE)
        return af_fail(reading->err, ANYFLASH_E_DATA, "%s: anyflash is not a table", from);
    for (const struct af_toml_item *item = table->first; status == ANYFLASH_OK && item != NULL;
         item = item->next)
        status =
            strcmp(item->key, "publishers") == 0
                ? read_array(reading, from, item)
                : af_fail(reading->err, ANYFLASH_E_DATA,
                          "%s: unknown key '%s'; anyflash reads only publishers", from,
                          af_text_quote(shown, sizeof shown, item->key, strlen(item->key)));
    return status;
}

/* Whether the bytes mention anyflash; other files of a project need not be valid for us. */
static bool mentions_anyflash(struct af_span text)
{
    static const char word[] = "anyflash";
    for (size_t i = 0; i + sizeof word - 1 <= text.len; i++)
        if (memcmp(text.data + i, word, sizeof word - 1) == 0)
            return true;
    return false;
}

/* Reads pyproject.toml, where the table is tool.anyflash, or our own file. */
static enum anyflash_status read_file(struct reading *reading, const char *path,
                                      bool is_project)
{
    struct af_cli *cli = reading->cli;
    struct af_span text;
    struct af_toml toml;
    const char *from = af_text_scrub(&cli->arena, path, 300);
    enum anyflash_status status =
        af_file_read(&cli->arena, path, FILE_BYTES_MAX, &text, reading->err);
    if (status != ANYFLASH_OK || (is_project && !mentions_anyflash(text)))
        return status;
    if (from == NULL)
        return af_fail_memory(reading->err);
    status = af_toml_parse(&toml, &cli->arena, text, from, reading->err);
    if (status != ANYFLASH_OK)
        return status;
    const struct af_toml_item *table =
        is_project ? af_toml_find(&toml, AF_TOML_PATH("tool", "anyflash")) : toml.root;
    return table == NULL ? ANYFLASH_OK : read_table(reading, from, table);
}

/* $XDG_CONFIG_HOME/anyflash/config.toml, else below ~/.config; NULL: there is no such file. */
static const char *user_file(struct af_arena *arena)
{
    const char *folder = getenv("XDG_CONFIG_HOME");
    const char *home = getenv("HOME");
    const char *path = NULL;
    if (folder != NULL && folder[0] == '/')
        path = af_arena_format(arena, "%s/anyflash/config.toml", folder);
    else if (home != NULL && home[0] == '/')
        path = af_arena_format(arena, "%s/.config/anyflash/config.toml", home);
    return path != NULL && !af_file_is_absent(path) ? path : NULL;
}

static void tell(const struct reading *reading)
{
    struct af_arena *arena = &reading->cli->arena;
    for (size_t i = 0; i < reading->count; i++) {
        const struct af_fit_publishers *list = &reading->lists[i];
        const char *names = list->names[0];
        for (size_t n = 1; n < list->count && names != NULL; n++)
            names = af_arena_format(arena, "%s, %s", names, list->names[n]);
        const char *remark =
            names == NULL ? NULL
                          : af_arena_format(arena, "only wheels of %s are considered (%s)",
                                            names, list->from);
        if (remark != NULL)
            af_cli_remark(reading->cli, remark);
    }
}

enum anyflash_status af_cli_publishers_load(struct af_cli *cli,
                                            const struct af_catalog *catalog,
                                            const struct af_fit_publishers **lists_out,
                                            size_t *count_out, struct anyflash_error *err)
{
    const char *option = cli->options.values[AF_OPTION_PUBLISHERS];
    struct reading reading = {.cli = cli,
                              .catalog = catalog,
                              .lists =
                                  af_arena_array(&cli->arena, LISTS_MAX, sizeof *reading.lists),
                              .err = err};
    const char *project = af_cli_config_find(cli, "pyproject.toml", true);
    const char *user = user_file(&cli->arena);
    if (cli->arena.failed)
        return af_fail_memory(err);
    enum anyflash_status status =
        af_publisher_list(catalog, &cli->arena, &reading.known, &reading.known_count, err);
    if (status == ANYFLASH_OK && option != NULL)
        status = read_option(&reading, option);
    if (status == ANYFLASH_OK && project != NULL)
        status = read_file(&reading, project, true);
    if (status == ANYFLASH_OK && user != NULL)
        status = read_file(&reading, user, false);
    if (status != ANYFLASH_OK)
        return status;
    if (cli->arena.failed)
        return af_fail_memory(err);
    tell(&reading);
    *lists_out = reading.lists;
    *count_out = reading.count;
    return ANYFLASH_OK;
}
