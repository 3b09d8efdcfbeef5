/*
 * check_files.c: reads the files of a folder before those of its subfolders. If there are too
 * many files, those of the subfolders are left out.
 */
#include "kit/cli/check_files.h"

#include <fnmatch.h>
#include <string.h>

#include "kit/cli/check_scope.h"
#include "kit/system/file.h"

#define FILES_MAX 10000u
#define READ_BYTES_MAX (256u << 20)   /* of all files that are opened */
#define CHECKED_BYTES_MAX (32u << 20) /* of those that the checks look at */
#define NAMES_MAX 64                  /* of modules whose importers are looked for */

/* The same limit counts once. */
void af_cli_project_note_limit(struct af_cli_project *project, const char *sentence)
{
    for (size_t i = 0; i < project->limit_count; i++)
        if (project->limits[i] == sentence)
            return;
    if (project->limit_count < AF_CLI_PROJECT_LIMITS_MAX)
        project->limits[project->limit_count++] = sentence;
}

static const char too_many_files[] =
    "There are more than 10000 files: some in subfolders were not read";
static const char too_much_text[] =
    "There is more than 32 MiB of text to check: some files were not read";
static const char too_much_read[] =
    "There is more than 256 MiB of text: some files were not read";

/*
 * Folders that are not the project's own: made by tools, copied from elsewhere, hidden, or a
 * virtual environment.
 */
static bool is_skipped(struct af_cli_project *project, const char *name, const char *path)
{
    static const char *const names[] = {
        "build",       "dist",        "node_modules", "site-packages",
        "__pycache__", "third_party", "third-party",  "vendor",
        "vendored",    "vendors",     "_vendor",      "thirdparty",
        "external",    "externals",   "extern",       "submodules"};
    for (size_t i = 0; i < AF_COUNT(names); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    const char *marker = af_path_join(&project->cli->arena, path, "pyvenv.cfg");
    bool is_hidden = name[0] == '.' && strcmp(name, ".github") != 0;
    return is_hidden || af_ends_with(name, ".egg-info") || af_file_is_regular(marker);
}

/* Whether [tool.anyflash] excludes the path: a pattern is it, or a folder above it. */
static bool is_excluded(const struct af_cli_project *project, const char *path)
{
    for (size_t i = 0; i < project->excluded_count; i++)
        if (fnmatch(project->excluded[i], path, FNM_LEADING_DIR) == 0)
            return true;
    return false;
}

/* Whether a Python file has something to look at. */
static bool names_flash(struct af_span text)
{
    return memmem(text.data, text.len, "flash_att", strlen("flash_att")) != NULL ||
           memmem(text.data, text.len, "flash-att", strlen("flash-att")) != NULL ||
           memmem(text.data, text.len, "FLASH_ATT", strlen("FLASH_ATT")) != NULL;
}

/* Whether a YAML file is an environment of conda; its name may be any. */
static bool is_conda(const char *path, struct af_span text)
{
    const bool is_yaml = af_ends_with(path, ".yml") || af_ends_with(path, ".yaml");
    return is_yaml && memmem(text.data, text.len, "\ndependencies:", 14) != NULL &&
           memmem(text.data, text.len, "- pip:", 6) != NULL;
}

static void keep_source(struct af_cli_project *project, const char *relative,
                        enum af_project_kind kind, struct af_span text)
{
    struct af_arena *kept = &project->cli->arena;
    if (project->checked_bytes + text.len > CHECKED_BYTES_MAX) {
        af_cli_project_note_limit(project, too_much_text);
        return;
    }
    struct af_project_source *source = &project->sources[project->count++];
    source->path = af_arena_text(kept, relative);
    source->text = (struct af_span){af_arena_text_n(kept, text.data, text.len), text.len};
    source->kind = kind;
    project->checked_bytes += text.len;
}

/* Remembers the Python files that do not name flash-attn: some import a module that does. */
static void read_source(struct af_cli_project *project, const char *path, const char *relative)
{
    enum af_project_kind kind = af_project_kind_of(relative);
    const bool may_be_conda = kind == AF_PROJECT_OTHER && (af_ends_with(relative, ".yml") ||
                                                           af_ends_with(relative, ".yaml"));
    struct af_arena arena;
    struct af_span text;
    if ((kind == AF_PROJECT_OTHER && !may_be_conda) || is_excluded(project, relative))
        return;
    if (project->read_bytes > READ_BYTES_MAX) {
        af_cli_project_note_limit(project, too_much_read);
        return;
    }
    af_arena_init(&arena);
    bool is_read =
        af_file_read(&arena, path, AF_CLI_PROJECT_FILE_BYTES_MAX, &text, NULL) == ANYFLASH_OK &&
        (text.len == 0 || memchr(text.data, '\0', text.len) == NULL);
    project->unread_count += !is_read && !may_be_conda;
    project->read_bytes += is_read ? text.len : 0;
    if (is_read && may_be_conda && is_conda(relative, text))
        kind = AF_PROJECT_CONDA;
    if (is_read && kind == AF_PROJECT_PYTHON && !names_flash(text))
        project->others[project->other_count++] = af_arena_text(&project->cli->arena, relative);
    else if (is_read && kind != AF_PROJECT_OTHER)
        keep_source(project, relative, kind, text);
    af_arena_release(&arena);
}

/* Finds the modules that import flash-attn without a guard, and returns how many there are. */
static size_t read_names(struct af_cli_project *project, const char *names[NAMES_MAX])
{
    struct af_arena *kept = &project->cli->arena;
    size_t count = 0;
    for (size_t i = 0; i < project->count && count < NAMES_MAX; i++) {
        const struct af_project_source *source = &project->sources[i];
        struct af_arena arena;
        struct af_import_facts facts;
        if (source->kind != AF_PROJECT_PYTHON)
            continue;
        af_arena_init(&arena);
        af_imports_of_python(&arena, source->text, &facts);
        const struct af_import_statement *import = facts.imports;
        while (import != NULL && !(import->is_flash_attn && import->guard == AF_IMPORT_FATAL))
            import = import->next;
        if (import != NULL)
            names[count++] = af_project_module_name(kept, source->path);
        af_arena_release(&arena);
    }
    return count;
}

/* Reads those of the other Python files that name such a module. */
static void read_importers(struct af_cli_project *project)
{
    const char *names[NAMES_MAX];
    const size_t count = read_names(project, names);
    for (size_t i = 0; i < project->other_count && count > 0; i++) {
        const char *path =
            af_path_join(&project->cli->arena, project->root, project->others[i]);
        struct af_arena arena;
        struct af_span text;
        bool is_one = false;
        af_arena_init(&arena);
        if (path != NULL && af_file_read(&arena, path, AF_CLI_PROJECT_FILE_BYTES_MAX, &text,
                                         NULL) == ANYFLASH_OK)
            for (size_t at = 0; at < count && !is_one; at++)
                is_one = names[at] != NULL && names[at][0] != '\0' &&
                         memmem(text.data, text.len, names[at], strlen(names[at])) != NULL;
        if (is_one)
            keep_source(project, project->others[i], AF_PROJECT_PYTHON, text);
        af_arena_release(&arena);
    }
    if (count == 0 && project->other_count > 0) /* it says that the project has a source */
        keep_source(project, project->others[0], AF_PROJECT_PYTHON, (struct af_span){"", 0});
}

/*
 * Reads the files of a folder, then those below it: if there are too many, the top counts.
 * `relative` is "" for the project's folder.
 */
static void read_folder(struct af_cli_project *project, const char *folder,
                        const char *relative)
{
    struct af_arena *arena = &project->cli->arena;
    const char **names;
    size_t count;
    bool is_cut = false;
    if (af_folder_list(arena, folder, FILES_MAX, &names, &count, &is_cut, NULL) !=
        ANYFLASH_OK) {
        project->unread_count++;
        return;
    }
    if (is_cut)
        af_cli_project_note_limit(project, too_many_files);
    for (size_t i = 0; i < 2 * count; i++) {
        const char *name = names[i % count];
        const char *path = af_path_join(arena, folder, name);
        const char *below = relative[0] == '\0' ? name : af_path_join(arena, relative, name);
        bool is_folder = af_file_is_folder(path);
        if (af_file_is_link(path) || is_folder != (i >= count))
            continue;
        if (project->entry_count++ >= FILES_MAX) {
            af_cli_project_note_limit(project, too_many_files);
            return;
        }
        if (!is_folder)
            read_source(project, path, below);
        else if (!is_skipped(project, name, path) && !is_excluded(project, below))
            read_folder(project, path, below);
    }
}

enum anyflash_status af_cli_project_read(struct af_cli_project *project,
                                         struct anyflash_error *err)
{
    struct af_cli *cli = project->cli;
    enum anyflash_status status = af_cli_project_read_words(project, err);
    if (status == ANYFLASH_OK)
        status = af_cli_project_read_settings(project, err);
    if (status != ANYFLASH_OK)
        return status;
    project->sources = af_arena_array(&cli->arena, FILES_MAX + 1, sizeof *project->sources);
    project->others = af_arena_array(&cli->arena, FILES_MAX + 1, sizeof *project->others);
    read_folder(project, project->root, "");
    read_importers(project);
    project->options.is_partial = project->unread_count > 0 || project->limit_count > 0;
    if (project->unread_count > 0)
        af_cli_remark(cli,
                      "some files could not be read, are not text, or are larger than 2 MiB");
    return ANYFLASH_OK;
}
