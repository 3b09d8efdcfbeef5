/*
 * module_use.c: which modules of the project are used, as the imports of the others show, and
 * whether its code needs flash-attn.
 */
#include "kit/project/checker.h"

#include <string.h>

#include "kit/base/text.h"
#include "kit/project/python_tokens.h"

#define USES_MAX 64u /* modules whose importers are looked for; others count as used */

bool af_project_is_aside(const char *path)
{
    static const char *const folders[] = {"test",    "tests",      "example", "examples",
                                          "bench",   "benchmark",  "docs",    "benchmarks",
                                          "profile", "experiments"};
    const char *name = af_path_name(path);
    if (af_starts_with(name, "test_") || af_ends_with(name, "_test.py") ||
        strcmp(name, "conftest.py") == 0 || strstr(name, "bench") != NULL)
        return true;
    for (const char *at = path; at < name; at += strcspn(at, "/") + 1)
        for (size_t i = 0; i < AF_COUNT(folders); i++)
            if (af_text_span_equal((struct af_span){at, strcspn(at, "/")}, folders[i]))
                return true;
    return false;
}

const char *af_project_module_name(struct af_arena *arena, const char *path)
{
    const char *name = af_path_name(path);
    if (strcmp(name, "__init__.py") != 0)
        return af_arena_text_n(arena, name, strcspn(name, "."));
    const char *end = name > path ? name - 1 : path, *start = end;
    while (start > path && start[-1] != '/')
        start--;
    return af_arena_text_n(arena, start, (size_t)(end - start));
}

/* Whether it is run by itself, or imported by its package's name. */
static bool is_entry(const struct af_project_source *source)
{
    return strchr(source->path, '/') == NULL || af_ends_with(source->path, "/__init__.py") ||
           memmem(source->text.data, source->text.len, "__main__", 8) != NULL;
}

bool af_project_module_is_used(struct af_project_checker *checker, size_t at)
{
    const struct af_project_source *source = &checker->sources[at];
    struct af_arena arena;
    bool is_imported = false, is_needed = false;
    if (af_project_is_aside(source->path))
        return false;
    if (checker->use_count++ >= USES_MAX)
        return true;
    af_arena_init(&arena);
    const char *name = af_project_module_name(&arena, source->path);
    for (size_t i = 0; i < checker->count && name[0] != '\0'; i++) {
        const struct af_project_source *other = &checker->sources[i];
        const struct af_import_statement *import =
            i == at ? NULL : checker->asks.stated[i].python.imports;
        for (; import != NULL; import = import->next) {
            const size_t len = import->end - import->start;
            struct af_span text = {
                other->text.data + import->start,
                len < AF_PROJECT_STATEMENT_BYTES_MAX ? len : AF_PROJECT_STATEMENT_BYTES_MAX};
            if (import->is_flash_attn || af_project_token_find(text, 0, name) == NULL)
                continue;
            is_imported = true;
            is_needed |= import->guard == AF_IMPORT_FATAL && !af_project_is_aside(other->path);
        }
    }
    af_arena_release(&arena);
    return is_needed || (!is_imported && is_entry(source));
}

/* Whether the file says that flash-attn may be missing, and nothing in it needs it. */
static enum af_answer can_miss(const struct af_project_checker *checker, size_t at)
{
    const struct af_project_source *source = &checker->sources[at];
    const struct af_import_statement *import = checker->asks.stated[at].python.imports;
    enum af_answer answer = AF_UNKNOWN;
    bool has_import = false;
    if (source->kind != AF_PROJECT_PYTHON || af_project_is_aside(source->path))
        return AF_UNKNOWN;
    for (; import != NULL; import = import->next) {
        if (!import->is_flash_attn)
            continue;
        has_import = true;
        if (!import->is_handled)
            return AF_NO;
        answer = AF_YES;
    }
    /* "assert FLASH_ATTN_2_AVAILABLE", attn_implementation="flash_attention_2" */
    return checker->asks.stated[at].python.mentions && !has_import ? AF_NO : answer;
}

bool af_project_code_needs(const struct af_project_checker *checker)
{
    bool is_handled = false;
    for (size_t i = 0; i < checker->count; i++) {
        const enum af_answer answer = can_miss(checker, i);
        if (answer == AF_NO)
            return true;
        is_handled |= answer == AF_YES;
    }
    return !is_handled || checker->options->is_partial;
}
