/*
 * cmd_check.c: `anyflash check [PATH...]`: whether a stranger can install the project in that
 * folder. Writes the changes, and keeps GitHub from taking lines of the output for commands;
 * check_view.c shows what kit/project finds.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kit/base/product.h"
#include "kit/cli/check_view.h"
#include "kit/cli/command_inputs.h"
#include "kit/system/file.h"
#include "kit/system/output.h"

#define PATCHES_MAX 100
#define GIT_INDEX_BYTES_MAX (64u << 20)

static const char *const limit_sentences[] = {
    [AF_PROJECT_LIMIT_READ] =
        "Requirements files include more than 64 MiB of text: the rest was not read",
    [AF_PROJECT_LIMIT_ASKS] =
        "More than 4000 requirements on torch and flash-attn: the rest was not checked",
    [AF_PROJECT_LIMIT_LOOKUPS] =
        "More than 1000 wheels had to be looked up: the rest of the project was not checked",
    [AF_PROJECT_LIMIT_FINDINGS] =
        "There are more than 1000 findings: the rest of the project was not checked",
};

static enum anyflash_status find(struct af_cli_check *check, struct anyflash_error *err)
{
    struct af_cli *cli = check->cli;
    struct af_cli_project *project = &check->project;
    const char *how = cli->options.values[AF_OPTION_FALLBACK];
    struct af_catalog catalog;
    bool is_anyflash = af_equal(how, "anyflash");
    if (how != NULL && !is_anyflash && strcmp(how, "sdpa") != 0)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "--fallback takes sdpa or anyflash");
    if (is_anyflash && !af_product_is_published())
        return af_fail(err, ANYFLASH_E_ARGUMENT,
                       "--fallback anyflash: others cannot install anyflash yet, because it is "
                       "not on the package index");
    enum anyflash_status status = af_cli_catalog_load(cli, &catalog, err);
    if (status != ANYFLASH_OK)
        return status;
    project->options.fallback = is_anyflash ? AF_FALLBACK_ANYFLASH : AF_FALLBACK_SDPA;
    af_project_findings_make(&cli->arena, project->sources, project->count, &catalog,
                             &project->options, &check->findings);
    af_catalog_release(&catalog);
    if (check->findings.limit != AF_PROJECT_LIMIT_NONE)
        af_cli_project_note_limit(project, limit_sentences[check->findings.limit]);
    return ANYFLASH_OK;
}

/* The folder of git that the project's files are in, or NULL: .git is in it. */
static const char *git_folder(struct af_cli_check *check)
{
    struct af_arena *arena = &check->cli->arena;
    const char *folder = af_file_real_path(arena, check->project.root);
    while (folder != NULL && folder[0] == '/' && folder[1] != '\0') {
        const char *git = af_path_join(arena, folder, ".git");
        if (af_file_is_folder(git))
            return git;
        folder = af_path_folder(arena, folder);
    }
    return NULL;
}

/* Whether git has all files that are changed: its index names them. */
static bool is_in_git(struct af_cli_check *check)
{
    struct af_arena *arena = &check->cli->arena, scratch;
    const char *git = git_folder(check);
    struct af_span index;
    if (git == NULL)
        return false;
    af_arena_init(&scratch);
    bool is_known = af_file_read(&scratch, af_path_join(&scratch, git, "index"),
                                 GIT_INDEX_BYTES_MAX, &index, NULL) == ANYFLASH_OK;
    for (size_t i = 0; i < check->project.count && is_known; i++) {
        const struct af_project_source *source = &check->project.sources[i];
        const struct af_project_edit *edits;
        if (af_project_findings_edits(&check->findings, source, arena, &edits) > 0)
            is_known = memmem(index.data, index.len, source->path, strlen(source->path) + 1) !=
                       NULL; /* with its NUL */
    }
    af_arena_release(&scratch);
    return is_known;
}

/* "anyflash-check.patch", or the first of "anyflash-check.2.patch" ... that does not exist. */
static const char *patch_name(struct af_cli_check *check)
{
    struct af_arena *arena = &check->cli->arena;
    const char *name = "anyflash-check.patch";
    for (int i = 2; i < PATCHES_MAX; i++) {
        if (af_file_is_absent(af_path_join(arena, check->project.root, name)))
            return name;
        name = af_arena_format(arena, "anyflash-check.%d.patch", i);
    }
    return name;
}

/* Without git, the changes are kept in a file that `patch -R` reads. */
static enum anyflash_status write_patch(struct af_cli_check *check, struct anyflash_error *err)
{
    struct af_cli *cli = check->cli;
    if (is_in_git(check))
        return ANYFLASH_OK;
    af_cli_check_add_diff(check, true);
    struct af_span diff = {af_text_get(&cli->out), cli->out.len};
    const char *name = diff.len == 0 ? NULL : patch_name(check);
    const char *path =
        name == NULL ? NULL : af_path_join(&cli->arena, check->project.root, name);
    enum anyflash_status status =
        path == NULL ? ANYFLASH_OK : af_file_write(&cli->arena, path, &diff, 1, err);
    check->patch = name;
    cli->out.len = 0;
    return status;
}

/* Whether each file that is changed can be replaced, before any is. */
static enum anyflash_status check_folders(struct af_cli_check *check,
                                          struct anyflash_error *err)
{
    struct af_arena *arena = &check->cli->arena;
    for (size_t i = 0; i < check->project.count; i++) {
        const struct af_project_edit *edits;
        const char *path =
            af_path_join(arena, check->project.root, check->project.sources[i].path);
        if (af_project_findings_edits(&check->findings, &check->project.sources[i], arena,
                                      &edits) > 0 &&
            (access(path, W_OK) != 0 || access(af_path_folder(arena, path), W_OK) != 0))
            return af_fail(err, ANYFLASH_E_IO, "cannot write '%s': nothing was changed",
                           af_text_scrub(arena, check->project.sources[i].path, 400));
    }
    return ANYFLASH_OK;
}

/* --write: each file as a whole or not at all, with its permissions. */
static enum anyflash_status write_files(struct af_cli_check *check, struct anyflash_error *err)
{
    struct af_arena *arena = &check->cli->arena;
    enum anyflash_status status = ANYFLASH_OK;
    for (size_t i = 0; i < check->project.count && status == ANYFLASH_OK; i++) {
        const struct af_project_edit *edits;
        struct af_text made = {0};
        size_t count = af_project_findings_edits(&check->findings, &check->project.sources[i],
                                                 arena, &edits);
        const char *path =
            af_path_join(arena, check->project.root, check->project.sources[i].path);
        if (count == 0)
            continue;
        af_project_apply(check->project.sources[i].text, edits, count, &made);
        struct af_span whole = {af_text_get(&made), made.len};
        status = af_file_rewrite(arena, path, &whole, err);
        check->written_count += status == ANYFLASH_OK;
        af_text_release(&made);
    }
    return status;
}

/*
 * Whether the line that begins at `at` would be a command: "::name ..." behind blanks, of which
 * Unicode has several. Bytes of other letters count as blanks, too.
 */
static const char *find_command(const char *at)
{
    while (*at != '\0' && strchr("\r\n", *at) == NULL &&
           ((unsigned char)*at <= ' ' || (unsigned char)*at >= 0x80))
        at++;
    return af_starts_with(at, "::") ? at : NULL;
}

/*
 * GitHub takes lines of a log that begin with "::", and "##[" anywhere, for commands. Those in
 * what was printed of the project get a blank; in JSON the bracket is escaped. The output of
 * --github consists of such lines: its texts are on one line each.
 */
static void break_commands(struct af_cli_check *check)
{
    struct af_text *out = &check->cli->out, made = {0};
    bool is_json = af_option_given(&check->cli->options, AF_OPTION_JSON);
    bool has_own = af_option_given(&check->cli->options, AF_OPTION_GITHUB);
    const char *start = af_text_get(out), *kept = start;
    bool is_broken = false;
    for (const char *at = start; *at != '\0'; at++) {
        bool starts = at == start || at[-1] == '\n' || at[-1] == '\r';
        const char *command = starts && !is_json && !has_own ? find_command(at) : NULL;
        const char *cut = command != NULL             ? command + 1
                          : af_starts_with(at, "##[") ? at + 2
                                                      : NULL;
        if (cut == NULL)
            continue;
        is_broken |= !is_json;
        af_text_add_n(&made, kept, (size_t)(cut - kept));
        af_text_add(&made, is_json ? "\\u005b" : " ");
        kept = cut + is_json;
        at = cut - 1;
    }
    af_text_add(&made, kept);
    af_text_release(out);
    *out = made;
    if (is_broken)
        af_cli_remark(check->cli,
                      "broke up what GitHub would take for a workflow command; such "
                      "lines of a diff do not apply");
}

/* The same for the path in a message about a file. */
static void break_message(struct anyflash_error *err)
{
    char *at = err == NULL ? NULL : strstr(err->message, "##[");
    for (; at != NULL; at = strstr(at, "##["))
        at[2] = '(';
}

enum anyflash_status af_cmd_check(struct af_cli *cli, enum af_exit *exit_out,
                                  struct anyflash_error *err)
{
    struct af_cli_check check = {.cli = cli, .project = {.cli = cli}};
    enum anyflash_status status = af_cli_project_read(&check.project, err);
    if (status == ANYFLASH_OK)
        status = find(&check, err);
    const bool writes = af_option_given(&cli->options, AF_OPTION_WRITE);
    if (status == ANYFLASH_OK && writes)
        status = check_folders(&check, err);
    if (status == ANYFLASH_OK && writes)
        status = write_patch(&check, err);
    if (status == ANYFLASH_OK && writes)
        status = write_files(&check, err);
    if (status == ANYFLASH_OK)
        status = af_cli_check_view(&check, err);
    if (getenv("GITHUB_ACTIONS") != NULL) {
        break_commands(&check);
        break_message(err);
    }
    *exit_out = check.findings.error_count == 0 ? AF_EXIT_YES : AF_EXIT_NO;
    return status;
}
