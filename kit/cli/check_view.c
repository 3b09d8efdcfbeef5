/*
 * check_view.c: shows what kit/project finds: as text with the changes, as the changes alone,
 * as JSON, or as annotations of GitHub.
 */
#include "kit/cli/check_view.h"

#include <string.h>

#include "kit/cli/screen.h"

#define SHOWN_MAX 6 /* lines of one kind of remark */

/* Text of the project on one line. */
static const char *shown(struct af_cli_check *check, const char *text, size_t len_max)
{
    return af_text_scrub(&check->cli->arena, text, len_max);
}

static const char *advice_of(const struct af_project_finding *finding)
{
    return finding->advice != NULL ? finding->advice : af_project_finding_rows[finding->id].fix;
}

/* "title: detail" */
static const char *sentence_of(struct af_cli_check *check,
                               const struct af_project_finding *finding)
{
    const char *title = af_project_finding_rows[finding->id].title;
    return finding->detail == NULL
               ? title
               : af_arena_format(&check->cli->arena, "%s: %s", title, finding->detail);
}

/* Control characters of the project's lines must not reach a terminal; line ends stay. */
static void add_scrubbed(struct af_cli_check *check, const char *text)
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
void af_cli_check_add_diff(struct af_cli_check *check, bool is_raw)
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
static void view_kind(struct af_cli_check *check, struct af_screen *screen,
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
static const char *counts_of(struct af_cli_check *check)
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

static void view_verdict(struct af_cli_check *check, struct af_screen *screen)
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
static void list(struct af_cli_check *check)
{
    for (const struct af_project_finding *at = check->findings.first; at != NULL; at = at->next)
        af_text_format(&check->cli->out, "%s:%zu: %s: %s\n",
                       shown(check, at->source->path, 400), at->line,
                       af_project_finding_rows[at->id].name, sentence_of(check, at));
}

static void view(struct af_cli_check *check)
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
        af_cli_check_add_diff(check, false);
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

static void annotate(struct af_cli_check *check)
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

static json_t *findings_json(struct af_cli_check *check)
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

static enum anyflash_status write_json(struct af_cli_check *check, struct anyflash_error *err)
{
    struct af_cli *cli = check->cli;
    json_t *limits = json_array();
    for (size_t i = 0; i < check->project.limit_count; i++)
        limits = af_json_append(limits, json_string(check->project.limits[i]));
    af_cli_check_add_diff(check, false);
    json_t *json =
        json_pack("{s:s, s:b, s:i, s:o, s:b, s:o, s:s, s:i}", "schema", "anyflash-check/1",
                  "is_complete", check->project.limit_count == 0, "ignored",
                  (int)check->findings.ignored_count, "limits", limits, "names_flash_attn",
                  check->findings.mention_count > 0, "findings", findings_json(check), "diff",
                  af_text_get(&cli->out), "written", (int)check->written_count);
    cli->out.len = 0;
    return af_cli_json_take(cli, json, err);
}

enum anyflash_status af_cli_check_view(struct af_cli_check *check, struct anyflash_error *err)
{
    struct af_cli *cli = check->cli;
    if (af_option_given(&cli->options, AF_OPTION_JSON))
        return write_json(check, err);
    if (af_option_given(&cli->options, AF_OPTION_GITHUB))
        annotate(check);
    else if (af_option_given(&cli->options, AF_OPTION_DIFF))
        af_cli_check_add_diff(check, true);
    else if (af_option_given(&cli->options, AF_OPTION_QUIET))
        list(check);
    else
        view(check);
    return ANYFLASH_OK;
}
