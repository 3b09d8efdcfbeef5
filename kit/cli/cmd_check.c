/*
 * cmd_check.c: `anyflash check [PATH]`: whether a stranger can install the project in that
 * folder. Reads its files and shows what kit/project finds: as text with the changes, as the
 * changes alone, as JSON, or as annotations of GitHub. Follows no links and runs nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "kit/base/product.h"
#include "kit/cli/command_inputs.h"
#include "kit/cli/screen.h"
#include "kit/project/findings.h"
#include "kit/system/file.h"
#include "kit/system/output.h"

#define FILES_MAX 10000u
#define FILE_BYTES_MAX (2u << 20)
#define READ_BYTES_MAX (256u << 20)   /* of all files that are opened */
#define CHECKED_BYTES_MAX (32u << 20) /* of those that the checks look at */
#define LIMITS_MAX 3u

struct check {
    struct af_cli *cli;
    const char *root;
    struct af_project_source *sources;
    size_t count;
    size_t entry_count; /* files and folders that were seen */
    size_t read_bytes;
    size_t checked_bytes;
    const char *limits[LIMITS_MAX]; /* those that were reached, as sentences */
    size_t limit_count;
    size_t unread_count;
    bool has_other_python; /* a Python file that does not name flash-attn */
    struct af_project_findings findings;
    size_t written_count;
};

/* The same limit counts once. */
static void note_limit(struct check *check, const char *sentence)
{
    for (size_t i = 0; i < check->limit_count; i++)
        if (check->limits[i] == sentence)
            return;
    if (check->limit_count < LIMITS_MAX)
        check->limits[check->limit_count++] = sentence;
}

static const char too_many_files[] =
    "There are more than 10000 files: some in subfolders were not read";
static const char too_much_text[] =
    "There is more than 32 MiB of text to check: some files were not read";
static const char too_much_read[] =
    "There is more than 256 MiB of text: some files were not read";

/* ---- reading ---- */

/* Folders that are not the project's own: made by tools, hidden, or a virtual environment. */
static bool is_skipped(struct check *check, const char *name, const char *path)
{
    static const char *const names[] = {"build", "dist", "node_modules", "site-packages",
                                        "__pycache__"};
    for (size_t i = 0; i < AF_COUNT(names); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    const char *marker = af_path_join(&check->cli->arena, path, "pyvenv.cfg");
    bool is_hidden = name[0] == '.' && strcmp(name, ".github") != 0;
    return is_hidden || af_ends_with(name, ".egg-info") || marker == NULL ||
           af_file_is_regular(marker);
}

/*
 * Of Python files without any word of flash-attn only one is kept, and nothing of its text: it
 * says that the project has a source.
 */
static bool is_wanted(struct check *check, enum af_project_kind kind, struct af_span *text)
{
    if (kind != AF_PROJECT_PYTHON ||
        memmem(text->data, text->len, "flash_att", strlen("flash_att")) != NULL)
        return true;
    bool is_first = !check->has_other_python;
    check->has_other_python = true;
    text->len = 0;
    return is_first;
}

static void read_source(struct check *check, const char *path, const char *relative)
{
    enum af_project_kind kind = af_project_kind_of(relative);
    struct af_arena *kept = &check->cli->arena;
    struct af_arena arena;
    struct af_span text;
    if (kind == AF_PROJECT_OTHER)
        return;
    if (check->read_bytes > READ_BYTES_MAX) {
        note_limit(check, too_much_read);
        return;
    }
    af_arena_init(&arena);
    bool is_read = af_file_read(&arena, path, FILE_BYTES_MAX, &text, NULL) == ANYFLASH_OK &&
                   (text.len == 0 || memchr(text.data, '\0', text.len) == NULL);
    check->unread_count += !is_read;
    check->read_bytes += is_read ? text.len : 0;
    bool is_wanted_here = is_read && is_wanted(check, kind, &text);
    if (is_wanted_here && check->checked_bytes + text.len > CHECKED_BYTES_MAX) {
        note_limit(check, too_much_text);
    } else if (is_wanted_here) {
        struct af_project_source *source = &check->sources[check->count++];
        source->path = af_arena_text(kept, relative);
        source->text = (struct af_span){af_arena_text_n(kept, text.data, text.len), text.len};
        source->kind = kind;
        check->checked_bytes += text.len;
    }
    af_arena_release(&arena);
}

/*
 * Reads the files of a folder, then those below it: if there are too many, the top counts.
 * `relative` is "" for the project's folder.
 */
static void read_folder(struct check *check, const char *folder, const char *relative)
{
    struct af_arena *arena = &check->cli->arena;
    const char **names;
    size_t count;
    bool is_cut = false;
    if (af_folder_list(arena, folder, FILES_MAX, &names, &count, &is_cut, NULL) !=
        ANYFLASH_OK) {
        check->unread_count++;
        return;
    }
    if (is_cut)
        note_limit(check, too_many_files);
    for (size_t i = 0; i < 2 * count && !arena->failed; i++) {
        const char *name = names[i % count];
        const char *path = af_path_join(arena, folder, name);
        const char *below = relative[0] == '\0' ? name : af_path_join(arena, relative, name);
        bool is_folder = path != NULL && af_file_is_folder(path);
        if (path == NULL || below == NULL || af_file_is_link(path) || is_folder != (i >= count))
            continue;
        if (check->entry_count++ >= FILES_MAX) {
            note_limit(check, too_many_files);
            return;
        }
        if (!is_folder)
            read_source(check, path, below);
        else if (!is_skipped(check, name, path))
            read_folder(check, path, below);
    }
}

static enum anyflash_status read_project(struct check *check, struct anyflash_error *err)
{
    struct af_cli *cli = check->cli;
    const struct af_word_list *words = &cli->options.words;
    if (words->count > 1)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "'check' takes one folder");
    size_t failures = af_mem_failure_count();
    check->root = words->count == 1 ? words->items[0] : ".";
    if (!af_file_is_folder(check->root))
        return af_fail(err, ANYFLASH_E_NOT_FOUND, "folder '%s' does not exist",
                       af_text_scrub(&cli->arena, check->root, 160));
    check->sources = af_arena_array(&cli->arena, FILES_MAX + 1, sizeof *check->sources);
    if (check->sources != NULL)
        read_folder(check, check->root, "");
    if (check->unread_count > 0)
        af_cli_remark(cli, "some files could not be read, or are no text of up to 2 MiB");
    return cli->arena.failed || af_mem_failure_count() != failures ? af_fail_memory(err)
                                                                   : ANYFLASH_OK;
}

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
    status = af_project_findings_make(&cli->arena, check->sources, check->count, &catalog,
                                      is_anyflash ? AF_FALLBACK_ANYFLASH : AF_FALLBACK_SDPA,
                                      &check->findings, err);
    af_catalog_release(&catalog);
    if (check->findings.limit != AF_PROJECT_LIMIT_NONE)
        note_limit(check, limit_sentences[check->findings.limit]);
    return status;
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
        const char *made = copy == NULL ? NULL : af_text_scrub(&arena, copy, FILE_BYTES_MAX);
        af_text_add(&check->cli->out, made == NULL ? "" : made);
        af_text_add(&check->cli->out, "\n");
        check->cli->out.failed |= arena.failed;
        af_arena_release(&arena);
    }
}

/* The changes of all files; `is_raw`: with all bytes, for programs. */
static void add_diff(struct check *check, bool is_raw)
{
    struct af_text diff = {0};
    for (size_t i = 0; i < check->count; i++) {
        const struct af_project_source *source = &check->sources[i];
        const struct af_project_edit *edits;
        size_t count =
            af_project_findings_edits(&check->findings, source, &check->cli->arena, &edits);
        af_project_diff(source->path, source->text, edits, count, &diff);
    }
    check->cli->out.failed |= diff.failed;
    if (is_raw)
        af_text_add(&check->cli->out, af_text_get(&diff));
    else
        add_scrubbed(check, af_text_get(&diff));
    af_text_release(&diff);
}

static void view_finding(struct check *check, struct af_screen *screen,
                         const struct af_project_finding *finding)
{
    const struct af_project_finding_row *row = &af_project_finding_rows[finding->id];
    af_screen_gap(screen);
    af_screen_format(screen, 0, "", AF_TONE_STRONG, "%s:%zu: %s",
                     shown(check, finding->source->path, 400), finding->line,
                     shown(check, finding->subject, 160));
    af_screen_format(screen, 2, "", AF_TONE_BAD, "%s: %s", row->name,
                     sentence_of(check, finding));
    af_screen_format(screen, 7, "  Why: ", AF_TONE_PLAIN, "%s", row->why);
    af_screen_format(screen, 7, "  Fix: ", AF_TONE_PLAIN, "%s", advice_of(finding));
}

static void view(struct check *check)
{
    struct af_cli *cli = check->cli;
    struct af_screen screen = {&cli->out, af_screen_columns(), af_cli_color(cli)};
    size_t count = check->findings.count;
    if (count == 0)
        af_screen_add(&screen, 0, "", AF_TONE_GOOD,
                      check->findings.mention_count == 0
                          ? "This project does not name flash-attn"
                          : "Nothing was found that keeps others from installing this project");
    else
        af_screen_format(&screen, 0, "", AF_TONE_STRONG,
                         "%zu finding%s: installing this project may fail for others", count,
                         count == 1 ? "" : "s");
    for (size_t i = 0; i < check->limit_count; i++)
        af_screen_add(&screen, 0, "", AF_TONE_BAD, check->limits[i]);
    for (const struct af_project_finding *at = check->findings.first; at != NULL; at = at->next)
        view_finding(check, &screen, at);
    if (check->written_count > 0) {
        af_screen_gap(&screen);
        af_screen_format(&screen, 0, "", AF_TONE_GOOD, "wrote %zu file%s; see `git diff`",
                         check->written_count, check->written_count == 1 ? "" : "s");
    } else if (count > 0) {
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
    for (size_t i = 0; i < check->limit_count; i++)
        af_text_format(out, "::notice::%s\n", check->limits[i]);
    for (const struct af_project_finding *at = check->findings.first; at != NULL;
         at = at->next) {
        af_text_add(out, "::warning file=");
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
            list, json_pack("{s:s, s:s, s:I, s:s, s:s, s:o, s:s, s:s, s:b}", "id", row->name,
                            "file", shown(check, at->source->path, 4096), "line",
                            (json_int_t)at->line, "subject", shown(check, at->subject, 400),
                            "title", row->title, "detail", af_json_text(at->detail), "why",
                            row->why, "fix", advice_of(at), "has_change", at->edit_count > 0));
    }
    return list;
}

static enum anyflash_status write_json(struct check *check, struct anyflash_error *err)
{
    struct af_cli *cli = check->cli;
    json_t *limits = json_array();
    for (size_t i = 0; i < check->limit_count; i++)
        limits = af_json_append(limits, json_string(check->limits[i]));
    add_diff(check, false);
    json_t *json =
        json_pack("{s:s, s:b, s:o, s:b, s:o, s:s, s:i}", "schema", "anyflash-check/1",
                  "is_complete", check->limit_count == 0, "limits", limits, "names_flash_attn",
                  check->findings.mention_count > 0, "findings", findings_json(check), "diff",
                  af_text_get(&cli->out), "written", (int)check->written_count);
    cli->out.len = 0;
    return af_cli_json_take(cli, json, err);
}

/* --write: each file as a whole or not at all, with its permissions. */
static enum anyflash_status write_files(struct check *check, struct anyflash_error *err)
{
    struct af_arena *arena = &check->cli->arena;
    enum anyflash_status status = ANYFLASH_OK;
    for (size_t i = 0; i < check->count && status == ANYFLASH_OK; i++) {
        const struct af_project_edit *edits;
        struct af_text made = {0};
        size_t count =
            af_project_findings_edits(&check->findings, &check->sources[i], arena, &edits);
        const char *path = af_path_join(arena, check->root, check->sources[i].path);
        if (count == 0 || path == NULL)
            continue;
        af_project_apply(check->sources[i].text, edits, count, &made);
        struct af_span whole = {af_text_get(&made), made.len};
        status = made.failed ? af_fail_memory(err) : af_file_rewrite(arena, path, &whole, err);
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
    else
        view(check);
    return af_cli_finish(cli, err);
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
    made.failed |= out->failed;
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
    struct check check = {.cli = cli};
    enum anyflash_status status = read_project(&check, err);
    if (status == ANYFLASH_OK)
        status = find(&check, err);
    if (status == ANYFLASH_OK && af_option_given(&cli->options, AF_OPTION_WRITE))
        status = write_files(&check, err);
    if (status == ANYFLASH_OK)
        status = answer(&check, err);
    if (getenv("GITHUB_ACTIONS") != NULL) {
        break_commands(&check);
        break_message(err);
    }
    if (status == ANYFLASH_OK)
        status = af_cli_finish(cli, err);
    *exit_out = check.findings.count == 0 ? AF_EXIT_YES : AF_EXIT_NO;
    return status;
}
