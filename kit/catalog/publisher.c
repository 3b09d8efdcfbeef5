/*
 * publisher.c: publishers of wheels, from the catalog's sources and from addresses; lists of
 * those that a user trusts.
 */
#include "kit/catalog/publisher.h"

#include <string.h>
#include <strings.h>

#include "kit/base/text.h"
#include "kit/formats/toml.h"

#define PUBLISHERS_MAX 4096u
#define OWNER_BYTES_MAX 100u
#define NAMES_MAX 256u
#define NAME_BYTES_MAX 200u

/*
 * Where only the owner of a repository can put files. Other addresses of a repository serve
 * what others have proposed: commits of forks on GitHub, of pull requests on Hugging Face.
 */
static const struct {
    const char *start;
    const char *prefix;
    const char *folder; /* behind the repository's name */
} hosts[] = {{"https://github.com/", "", "releases/download/"},
             {"https://huggingface.co/", "huggingface:", "resolve/main/"}};

size_t af_publisher_len(const char *source)
{
    return strcspn(source, "/");
}

const char *af_publisher_of_url(struct af_arena *arena, const char *url)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789-_.";
    for (size_t i = 0; i < AF_COUNT(hosts); i++) {
        const char *owner = url + strlen(hosts[i].start);
        if (strncasecmp(url, hosts[i].start, strlen(hosts[i].start)) != 0)
            continue;
        size_t len = strspn(owner, letters);
        /* A client resolves "owner/../other" before it asks. */
        if (len == 0 || len > OWNER_BYTES_MAX || owner[len] != '/' ||
            strstr(owner, "..") != NULL || strstr(owner, "%2e") != NULL ||
            strstr(owner, "%2E") != NULL)
            return NULL;
        const char *name = owner + len + 1;
        size_t name_len = strspn(name, letters);
        if (name_len == 0 || name[name_len] != '/' ||
            !af_starts_with(name + name_len + 1, hosts[i].folder))
            return NULL;
        return af_arena_format(arena, "%s%.*s", hosts[i].prefix, (int)len, owner);
    }
    return NULL;
}

bool af_publisher_is(const struct af_catalog_wheel *wheel, const char *name)
{
    size_t len = af_publisher_len(wheel->source);
    return af_equal_fold(wheel->source, name) ||
           (strlen(name) == len && strncasecmp(wheel->source, name, len) == 0) ||
           (wheel->official && af_equal_fold(name, AF_PUBLISHER_OFFICIAL));
}

/* The publisher of the catalog whose name is nearest; NULL: none is near. */
static const char *nearest(const struct af_catalog *catalog, const char *name,
                           struct af_arena *arena)
{
    const char **names = af_arena_array(arena, PUBLISHERS_MAX, sizeof *names);
    size_t count = 0;
    const char *last = NULL; /* equal sources share one text */
    for (size_t i = 0; i < catalog->count && count < PUBLISHERS_MAX; i++) {
        const char *source = catalog->wheels[i].source;
        bool found = source == last;
        last = source;
        for (size_t n = 0; n < count && !found; n++)
            found = strlen(names[n]) == af_publisher_len(source) &&
                    strncmp(names[n], source, af_publisher_len(source)) == 0;
        if (!found)
            names[count++] = af_arena_text_n(arena, source, af_publisher_len(source));
    }
    return af_nearest(name, names, count);
}

/* A list while it is read. */
struct reading {
    const struct af_catalog *catalog;
    const char *from;
    struct af_arena *arena;
    const char **names;
    size_t count;
    const char **hint_out;
    struct anyflash_error *err;
};

static struct reading begin_reading(const struct af_catalog *catalog, const char *from,
                                    struct af_arena *arena, const char **hint_out,
                                    struct anyflash_error *err)
{
    return (struct reading){.catalog = catalog,
                            .from = from,
                            .arena = arena,
                            .names = af_arena_array(arena, NAMES_MAX, sizeof(char *)),
                            .hint_out = hint_out,
                            .err = err};
}

/* Whether a wheel of the catalog is of that publisher. */
static bool is_known(const struct af_catalog *catalog, const char *name)
{
    for (size_t i = 0; i < catalog->count; i++)
        if (af_publisher_is(&catalog->wheels[i], name))
            return true;
    return false;
}

static enum anyflash_status add_name(struct reading *reading, const char *name)
{
    char shown[80];
    const char *near = NULL;
    bool too_long = strlen(name) > NAME_BYTES_MAX;
    if (reading->count == NAMES_MAX)
        return af_fail(reading->err, ANYFLASH_E_LIMIT, "%s: more than %u publishers",
                       reading->from, NAMES_MAX);
    if (!too_long && is_known(reading->catalog, name)) {
        reading->names[reading->count++] = name;
        return ANYFLASH_OK;
    }
    if (!too_long)
        near = nearest(reading->catalog, name, reading->arena);
    *reading->hint_out = near != NULL
                             ? af_arena_format(reading->arena, "did you mean '%s'?", near)
                             : "`anyflash find --json` names the publisher of each wheel";
    return af_fail(reading->err, ANYFLASH_E_ARGUMENT,
                   "%s: the catalog has no wheel published by '%s'", reading->from,
                   af_text_quote(shown, sizeof shown, name, strlen(name)));
}

static enum anyflash_status end(const struct reading *reading, struct af_publishers *list_out)
{
    if (reading->count == 0)
        return af_fail(reading->err, ANYFLASH_E_ARGUMENT,
                       "%s: the list of publishers is empty, so no wheel is allowed",
                       reading->from);
    *list_out = (struct af_publishers){reading->names, reading->count, reading->from};
    return ANYFLASH_OK;
}

enum anyflash_status af_publishers_read(const struct af_catalog *catalog, const char *text,
                                        const char *from, struct af_arena *arena,
                                        struct af_publishers *list_out, const char **hint_out,
                                        struct anyflash_error *err)
{
    struct reading reading = begin_reading(catalog, from, arena, hint_out, err);
    enum anyflash_status status = ANYFLASH_OK;
    for (const char *at = text; status == ANYFLASH_OK && *at != '\0';) {
        size_t len = strcspn(at, ",");
        status = add_name(&reading, af_arena_text_n(arena, at, len));
        at += len;
        at += *at == ',';
    }
    return status == ANYFLASH_OK ? end(&reading, list_out) : status;
}

static enum anyflash_status read_array(struct reading *reading,
                                       const struct af_toml_item *array,
                                       struct af_publishers *list_out)
{
    enum anyflash_status status = ANYFLASH_OK;
    if (array->kind != AF_TOML_ARRAY)
        status =
            af_fail(reading->err, ANYFLASH_E_DATA,
                    "%s: publishers is not a list, such as [\"Dao-AILab\"]", reading->from);
    for (const struct af_toml_item *item = array->first; status == ANYFLASH_OK && item != NULL;
         item = item->next)
        status =
            item->kind == AF_TOML_STRING
                ? add_name(reading, item->text)
                : af_fail(reading->err, ANYFLASH_E_DATA,
                          "%s: publishers has an element that is not a text", reading->from);
    return status == ANYFLASH_OK ? end(reading, list_out) : status;
}

/* Reads a table whose only key is `publishers`; a misspelt key must not go unnoticed. */
static enum anyflash_status read_table(struct reading *reading,
                                       const struct af_toml_item *table,
                                       struct af_publishers *list_out)
{
    char shown[80];
    enum anyflash_status status = ANYFLASH_OK;
    if (table->kind != AF_TOML_TABLE && table->kind != AF_TOML_INLINE)
        return af_fail(reading->err, ANYFLASH_E_DATA, "%s: anyflash is not a table",
                       reading->from);
    for (const struct af_toml_item *item = table->first; status == ANYFLASH_OK && item != NULL;
         item = item->next)
        status =
            strcmp(item->key, "publishers") == 0
                ? read_array(reading, item, list_out)
                : af_fail(reading->err, ANYFLASH_E_DATA,
                          "%s: unknown key '%s'; anyflash reads only publishers", reading->from,
                          af_text_quote(shown, sizeof shown, item->key, strlen(item->key)));
    return status;
}

enum anyflash_status af_publishers_read_toml(const struct af_catalog *catalog,
                                             struct af_span text, bool is_project,
                                             const char *from, struct af_arena *arena,
                                             struct af_publishers *list_out,
                                             const char **hint_out, struct anyflash_error *err)
{
    struct reading reading = begin_reading(catalog, from, arena, hint_out, err);
    struct af_toml toml;
    *list_out = (struct af_publishers){0};
    /* Other files of a project need not be valid for us. */
    if (text.len == 0 ||
        (is_project && memmem(text.data, text.len, "anyflash", strlen("anyflash")) == NULL))
        return ANYFLASH_OK;
    enum anyflash_status status = af_toml_parse(&toml, arena, text, from, err);
    if (status != ANYFLASH_OK)
        return status;
    const struct af_toml_item *table =
        is_project ? af_toml_find(&toml, AF_TOML_PATH("tool", "anyflash")) : toml.root;
    return table == NULL ? ANYFLASH_OK : read_table(&reading, table, list_out);
}
