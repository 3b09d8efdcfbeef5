/*
 * check_scope.c: the words of `anyflash check`, and [tool.anyflash] of the project: which
 * findings it ignores, and which files it excludes.
 */
#include "kit/cli/check_scope.h"

#include <string.h>

#include "kit/formats/toml.h"
#include "kit/system/file.h"

#define SETTINGS_MAX 100u /* strings of one setting */

/* The strings of [tool.anyflash] KEY. Fails with ARGUMENT if it is no array of strings. */
static enum anyflash_status read_strings(struct af_cli_project *project,
                                         const struct af_toml_item *own, const char *key,
                                         const char *const **list_out, size_t *count_out,
                                         struct anyflash_error *err)
{
    const struct af_toml_item *array = af_toml_get(own, key);
    const char **list = af_arena_array(&project->cli->arena, SETTINGS_MAX, sizeof *list);
    *count_out = 0;
    if (array != NULL && array->kind != AF_TOML_ARRAY)
        return af_fail(err, ANYFLASH_E_ARGUMENT,
                       "pyproject.toml: [tool.anyflash] %s is not an array of strings", key);
    for (const struct af_toml_item *at = array == NULL ? NULL : array->first;
         at != NULL && *count_out < SETTINGS_MAX; at = at->next) {
        if (at->text == NULL)
            return af_fail(err, ANYFLASH_E_ARGUMENT,
                           "pyproject.toml: [tool.anyflash] %s is not an array of strings",
                           key);
        list[(*count_out)++] = at->text;
    }
    *list_out = list;
    return ANYFLASH_OK;
}

static bool is_finding(const char *name)
{
    for (int i = 0; i < AF_PROJECT_FINDING_COUNT; i++)
        if (strcmp(af_project_finding_rows[i].name, name) == 0)
            return true;
    return false;
}

enum anyflash_status af_cli_project_read_settings(struct af_cli_project *project,
                                                  struct anyflash_error *err)
{
    struct af_arena *arena = &project->cli->arena;
    const char *path = af_path_join(arena, project->root, "pyproject.toml");
    struct af_span text;
    struct af_toml toml;
    if (!af_file_is_regular(path) ||
        af_file_read(arena, path, AF_CLI_PROJECT_FILE_BYTES_MAX, &text, NULL) != ANYFLASH_OK ||
        af_toml_parse(&toml, arena, text, "pyproject.toml", NULL) != ANYFLASH_OK)
        return ANYFLASH_OK;
    const struct af_toml_item *own = af_toml_find(&toml, AF_TOML_PATH("tool", "anyflash"));
    enum anyflash_status status =
        read_strings(project, own, "ignore", &project->options.ignored,
                     &project->options.ignored_count, err);
    if (status == ANYFLASH_OK)
        status = read_strings(project, own, "exclude", &project->excluded,
                              &project->excluded_count, err);
    for (size_t i = 0; i < project->options.ignored_count && status == ANYFLASH_OK; i++)
        if (!is_finding(project->options.ignored[i]))
            return af_fail(err, ANYFLASH_E_ARGUMENT,
                           "pyproject.toml: [tool.anyflash] ignore: there is no finding '%s'",
                           af_text_scrub(arena, project->options.ignored[i], 80));
    return status;
}

enum anyflash_status af_cli_project_read_words(struct af_cli_project *project,
                                               struct anyflash_error *err)
{
    struct af_cli *cli = project->cli;
    const struct af_word_list *words = &cli->options.words;
    const char **files = af_arena_array(&cli->arena, words->count + 1, sizeof *files);
    project->root = words->count == 1 ? words->items[0] : ".";
    if (af_file_is_folder(project->root) != (words->count <= 1))
        project->root = ".";
    for (size_t i = 0; i < words->count; i++) {
        const char *word = words->items[i];
        if (words->count == 1 && af_file_is_folder(word))
            return ANYFLASH_OK;
        if (af_file_is_folder(word))
            return af_fail(err, ANYFLASH_E_ARGUMENT, "'check' takes one folder, or files");
        if (!af_file_is_regular(word))
            return af_fail(err, ANYFLASH_E_NOT_FOUND, "'%s' does not exist",
                           af_text_scrub(&cli->arena, word, 160));
        if (word[0] == '/' || af_starts_with(word, "../"))
            return af_fail(err, ANYFLASH_E_ARGUMENT,
                           "'%s' is not below the current folder: start 'check' in the "
                           "project",
                           af_text_scrub(&cli->arena, word, 160));
        files[project->options.only_count++] = af_starts_with(word, "./") ? word + 2 : word;
        project->root = ".";
    }
    project->options.only = files;
    return ANYFLASH_OK;
}
