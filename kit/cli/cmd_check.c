/*
 * cmd_check.c: `anyflash check [PATH...]`: whether a stranger can install the project in that
 * folder. Shows what kit/project finds: as text with the changes, as the
 * changes alone, as JSON, or as annotations of GitHub.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kit/base/product.h"
#include "kit/cli/check_files.h"
#include "kit/cli/command_inputs.h"
#include "kit/cli/screen.h"
#include "kit/system/file.h"
#include "kit/system/output.h"

#define SHOWN_MAX 6 /* lines of one kind of remark */
#define PATCHES_MAX 100
#define GIT_INDEX_BYTES_MAX (64u << 20)

struct check {
    struct af_cli *cli;
    struct af_cli_project project;
    struct af_project_findings findings;
    size_t written_count;
    const char *patch; /* the file that takes the changes back, or NULL */
};

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

static enum anyflash_status find(struct check *check, struct anyflash_error *err)
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

/* ---- answers ---- */

/* Text of the project on one line. */
static const char *shown(struct check *check, const char *text, size_t len_max)
{
    return af_text_scrub(&check->cli->arena, text, len_max);
}

static const char *advice_of(const struct af_project_finding *finding)
{
    return finding->advice != NULL ? finding->advice : af_project_finding_rows[finding->id].fix;
}

/* "title: detail" */
static const char *sentence_of(struct check *check, const struct af_project_finding *finding)
{
    const char *title = af_project_finding_rows[finding->id].title;
    return finding->detail == NULL
               ? title
               : af_arena_format(&check->cli->arena, "%s: %s", title, finding->detail);
}

/* Control characters of the project's lines must not reach a terminal; line ends stay. */
static void add_scrubbed(struct check *check, const char *text)
{
    struct af_span rest = {text, strlen(text)}, line;
    while (af_text_line(&rest, &line)) {
        struct af_arena arena;
        af_arena_init(&arena);
        const char *copy = af_arena_text_n(&arena, line.data, line.len);
        af_text_add(&check->cli->out,
                    af_text_scrub(&arena, copy, AF_CLI_PROJECT_FILE_BYTES_MAX));
        af_text_add(&check->cli->out, "\n");
        af_arena_release(&arena);
    }
}

/* The changes of all files; `is_raw`: with all bytes, for programs. */
static void add_diff(struct check *check, bool is_raw)
{
    struct af_text diff = {0};
    for (size_t i = 0; i < check->project.count; i++) {
        const struct af_project_source *source = &check->project.sources[i];
        const struct af_project_edit *edits;
        size_t count =
            af_project_findings_edits(&check->findings, source, &check->cli->arena, &edits);
        af_project_diff(source->path, source->text, edits, count, &diff);
    }
    if (is_raw)
        af_text_add(&check->cli->out, af_text_get(&diff));
    else
        add_scrubbed(check, af_text_get(&diff));
    af_text_release(&diff);
}

/* Findings of one kind: what is wrong once, then the lines, with what differs. */
static void view_kind(struct check *check, struct af_screen *screen,
                      const struct af_project_finding *first)
{
    const struct af_project_finding_row *row = &af_project_finding_rows[first->id];
    const char *advice = NULL;
    size_t count = 0;
    af_screen_gap(screen);
    af_screen_format(screen, 0, "", row->weight > 1 ? AF_TONE_BAD : AF_TONE_STRONG, "%s%s: %s",
                     row->weight > 1 ? "" : "remark: ", row->name, row->title);
    af_screen_format(screen, 7, "  Why: ", AF_TONE_PLAIN, "%s", row->why);
    for (const struct af_project_finding *at = first; at != NULL; at = at->next) {
        if (at->id != first->id || (row->weight == 1 && ++count > SHOWN_MAX))
            continue;
        af_screen_format(screen, 2, "", AF_TONE_STRONG, "%s:%zu: %s",
                         shown(check, at->source->path, 400), at->line,
                         shown(check, at->subject, 160));
        if (at->detail != NULL)
            af_screen_format(screen, 4, "", AF_TONE_PLAIN, "%s", at->detail);
        if (!af_equal(advice, advice_of(at)))
            af_screen_format(screen, 9, "    Fix: ", AF_TONE_PLAIN, "%s", advice_of(at));
        advice = advice_of(at);
    }
    if (count > SHOWN_MAX)
        af_screen_format(screen, 2, "", AF_TONE_PLAIN, "and %zu more: --json has all",
                         count - SHOWN_MAX);
}

/* "2 findings and 1 remark" */
static const char *counts_of(struct check *check)
{
    const size_t errors = check->findings.error_count;
    const size_t remarks = check->findings.count - errors;
    struct af_text text = {0};
    if (errors > 0)
        af_text_format(&text, "%zu finding%s", errors, errors == 1 ? "" : "s");
    if (remarks > 0)
        af_text_format(&text, "%s%zu remark%s", errors > 0 ? " and " : "", remarks,
                       remarks == 1 ? "" : "s");
    return af_text_take(&text, &check->cli->arena);
}

static void view_verdict(struct check *check, struct af_screen *screen)
{
    const struct af_project_findings *findings = &check->findings;
    if (findings->count == 0)
        af_screen_add(screen, 0, "", AF_TONE_GOOD,
                      findings->mention_count == 0
                          ? "This project does not name flash-attn"
                          : "Nothing was found that keeps others from installing this project");
    else
        af_screen_format(screen, 0, "", AF_TONE_STRONG, "%s: %s", counts_of(check),
                         findings->error_count > 0
                             ? "installing this project may fail for others"
                         : check->project.options.only_count > 0
                             ? "nothing in these files keeps others from installing the project"
                             : "nothing keeps others from installing this project");
    if (findings->ignored_count > 0)
        af_screen_format(screen, 0, "", AF_TONE_PLAIN, "%zu ignored, as the project says",
                         findings->ignored_count);
    for (size_t i = 0; i < check->project.limit_count; i++)
        af_screen_add(screen, 0, "", AF_TONE_BAD, check->project.limits[i]);
}

/* --quiet: a line for each finding, as compilers print them. */
static void list(struct check *check)
{
    for (const struct af_project_finding *at = check->findings.first; at != NULL; at = at->next)
        af_text_format(&check->cli->out, "%s:%zu: %s: %s\n",
                       shown(check, at->source->path, 400), at->line,
                       af_project_finding_rows[at->id].name, sentence_of(check, at));
}

static void view(struct check *check)
{
    struct af_cli *cli = check->cli;
    struct af_screen screen = {&cli->out, af_screen_columns(), af_cli_color(cli)};
    bool is_shown[AF_PROJECT_FINDING_COUNT] = {false};
    view_verdict(check, &screen);
    for (const struct af_project_finding *at = check->findings.first; at != NULL; at = at->next)
        if (!is_shown[at->id]) {
            is_shown[at->id] = true;
            view_kind(check, &screen, at);
        }
    if (check->written_count > 0) {
        af_screen_gap(&screen);
        af_screen_format(&screen, 0, "", AF_TONE_GOOD, "wrote %zu file%s", check->written_count,
                         check->written_count == 1 ? "" : "s");
        af_screen_format(&screen, 0, "", AF_TONE_PLAIN,
                         check->patch == NULL ? "`git diff` shows what changed"
                                              : "`patch -R -p1 < %s` undoes the changes",
                         check->patch);
    } else if (check->findings.count > 0) {
        af_screen_gap(&screen);
        add_diff(check, false);
    }
}

/* A value of a workflow command of GitHub ("Workflow commands", escapeData). */
static void add_escaped(struct af_text *out, const char *text, bool is_property)
{
    for (; *text != '\0'; text++) {
        if (strchr("%\r\n", *text) != NULL || (is_property && (*text == ',' || *text == ':')))
            af_text_format(out, "%%%02X", (unsigned)*text);
        else
            af_text_add_n(out, text, 1);
    }
}

static void annotate(struct check *check)
{
    struct af_text *out = &check->cli->out;
    for (size_t i = 0; i < check->project.limit_count; i++)
        af_text_format(out, "::notice::%s\n", check->project.limits[i]);
    for (const struct af_project_finding *at = check->findings.first; at != NULL;
         at = at->next) {
        af_text_add(out, af_project_finding_rows[at->id].weight > 1 ? "::warning file="
                                                                    : "::notice file=");
        add_escaped(out, shown(check, at->source->path, 400), true);
        af_text_format(out, ",line=%zu,title=%s::", at->line,
                       af_project_finding_rows[at->id].name);
        add_escaped(out, sentence_of(check, at), false);
        af_text_add(out, ". ");
        add_escaped(out, advice_of(at), false);
        af_text_add(out, "\n");
    }
}

static json_t *findings_json(struct check *check)
{
    json_t *list = json_array();
    for (const struct af_project_finding *at = check->findings.first; at != NULL;
         at = at->next) {
        const struct af_project_finding_row *row = &af_project_finding_rows[at->id];
        list = af_json_append(
            list, json_pack("{s:s, s:s, s:s, s:I, s:s, s:s, s:o, s:s, s:s, s:b}", "id",
                            row->name, "severity", row->weight > 1 ? "error" : "remark", "file",
                            shown(check, at->source->path, 4096), "line", (json_int_t)at->line,
                            "subject", shown(check, at->subject, 400), "title", row->title,
                            "detail", af_json_text(at->detail), "why", row->why, "fix",
                            advice_of(at), "has_change", at->edit_count > 0));
    }
    return list;
}

static enum anyflash_status write_json(struct check *check, struct anyflash_error *err)
{
    struct af_cli *cli = check->cli;
    json_t *limits = json_array();
    for (size_t i = 0; i < check->project.limit_count; i++)
        limits = af_json_append(limits, json_string(check->project.limits[i]));
    add_diff(check, false);
    json_t *json =
        json_pack("{s:s, s:b, s:i, s:o, s:b, s:o, s:s, s:i}", "schema", "anyflash-check/1",
                  "is_complete", check->project.limit_count == 0, "ignored",
                  (int)check->findings.ignored_count, "limits", limits, "names_flash_attn",
                  check->findings.mention_count > 0, "findings", findings_json(check), "diff",
                  af_text_get(&cli->out), "written", (int)check->written_count);
    cli->out.len = 0;
    return af_cli_json_take(cli, json, err);
}

/* The folder of git that the project's files are in, or NULL: .git is in it. */
static const char *git_folder(struct check *check)
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
static bool is_in_git(struct check *check)
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
static const char *patch_name(struct check *check)
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
static enum anyflash_status write_patch(struct check *check, struct anyflash_error *err)
{
    struct af_cli *cli = check->cli;
    if (is_in_git(check))
        return ANYFLASH_OK;
    add_diff(check, true);
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
static enum anyflash_status check_folders(struct check *check, struct anyflash_error *err)
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
                           shown(check, check->project.sources[i].path, 400));
    }
    return ANYFLASH_OK;
}

/* --write: each file as a whole or not at all, with its permissions. */
static enum anyflash_status write_files(struct check *check, struct anyflash_error *err)
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

static enum anyflash_status answer(struct check *check, struct anyflash_error *err)
{
    struct af_cli *cli = check->cli;
    if (af_option_given(&cli->options, AF_OPTION_JSON))
        return write_json(check, err);
    if (af_option_given(&cli->options, AF_OPTION_GITHUB))
        annotate(check);
    else if (af_option_given(&cli->options, AF_OPTION_DIFF))
        add_diff(check, true);
    else if (af_option_given(&cli->options, AF_OPTION_QUIET))
        list(check);
    else
        view(check);
    return ANYFLASH_OK;
}

/* ---- in a workflow of GitHub ---- */

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
static void break_commands(struct check *check)
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
    struct check check = {.cli = cli, .project = {.cli = cli}};
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
        status = answer(&check, err);
    if (getenv("GITHUB_ACTIONS") != NULL) {
        break_commands(&check);
        break_message(err);
    }
    *exit_out = check.findings.error_count == 0 ? AF_EXIT_YES : AF_EXIT_NO;
    return status;
}
