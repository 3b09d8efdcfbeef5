/*
 * build_check.c: the verdicts of build/check.h for people and programs.
 */
#include "kit/cli/build_check.h"

#include <stdio.h>

#include "kit/base/text.h"
#include "kit/build/offer/offer.h"
#include "kit/cli/json_parts.h"
#include "kit/cli/page.h"

#define NAME_COLUMNS 19
#define EVIDENCE_COLUMNS 28

struct af_build_resources af_cli_build_resources(const struct af_build *build, int64_t cores)
{
    struct af_offer_build_needs needs = af_offer_build_needs_of(
        &build->slim, cores, 0, build->toolkit != AF_FIT_TOOLKIT_SYSTEM);
    return (struct af_build_resources){(int64_t)needs.peak_bytes, (int64_t)needs.disk_bytes};
}

/* "torch is a build without CUDA: 2.11.0" */
static const char *text_of(struct af_arena *arena, const struct af_prerequisite *row)
{
    if (row->why == NULL)
        return row->evidence;
    const char *text = row->evidence[0] == '\0'
                           ? row->why
                           : af_arena_format(arena, "%s: %s", row->why, row->evidence);
    return text == NULL ? "" : text;
}

static void view_row(struct af_page *page, const struct af_prerequisite *row,
                     struct af_arena *arena)
{
    char lead[64];
    snprintf(lead, sizeof lead, "%-*s%s", NAME_COLUMNS, row->name, af_answer_text(row->answer));
    af_page_format(page, EVIDENCE_COLUMNS, lead,
                   row->answer == AF_NO ? AF_TONE_BAD : AF_TONE_PLAIN, "%s%s%s",
                   text_of(arena, row), row->fix != NULL ? "\nto do: " : "",
                   row->fix != NULL ? row->fix : "");
}

static void view(struct af_cli *cli, const struct af_build *build,
                 const struct af_build_check *check)
{
    struct af_page page = {&cli->out, af_page_columns(), af_cli_color(cli)};
    if (!af_option_given(&cli->options, AF_OPTION_QUIET)) {
        af_page_format(&page, 0, "", AF_TONE_STRONG, "flash-attn %s from source: %s",
                       build->version, af_slim_text(&build->slim, &cli->arena));
        for (size_t i = 0; i < check->row_count; i++)
            view_row(&page, &check->rows[i], &cli->arena);
    }
    if (check->can_start)
        af_page_add(&page, 0, "", AF_TONE_GOOD, "a build can start");
    else
        af_page_format(&page, 0, "", AF_TONE_BAD, "a build cannot start: %zu of these %s no",
                       check->missing_count, check->missing_count == 1 ? "says" : "say");
}

static enum anyflash_status write_json(struct af_cli *cli, const struct af_build *build,
                                       const struct af_build_check *check,
                                       struct anyflash_error *err)
{
    json_t *list = json_array();
    for (size_t i = 0; i < check->row_count; i++) {
        const struct af_prerequisite *row = &check->rows[i];
        list = af_cli_json_append(list, json_pack("{s:s, s:o, s:o, s:o}", "name", row->name,
                                                  "verdict", af_cli_json_answer(row->answer),
                                                  "evidence", af_cli_json_text(row->evidence),
                                                  "fix", af_cli_json_text(row->fix)));
    }
    return af_cli_json_take(
        cli,
        json_pack("{s:s, s:s, s:o, s:b, s:o}", "schema", "anyflash-build-check/1", "version",
                  build->version, "holds",
                  af_cli_json_text(af_slim_local(&build->slim, &cli->arena)), "can_start",
                  check->can_start, "prerequisites", list),
        err);
}

enum anyflash_status af_cli_build_check(struct af_cli *cli, struct af_build *build,
                                        struct af_build_resources resources,
                                        enum af_exit *exit_out, struct anyflash_error *err)
{
    const char *format = cli->options.values[AF_OPTION_FORMAT];
    struct af_build_check check;
    bool json = af_option_given(&cli->options, AF_OPTION_JSON) || af_equal(format, "json");
    if (format != NULL && !af_equal(format, "json") && !af_equal(format, "text"))
        return af_fail(err, ANYFLASH_E_ARGUMENT, "--format of --check takes text or json");
    enum anyflash_status status = af_build_check(build, resources, &check, err);
    if (status != ANYFLASH_OK)
        return status;
    *exit_out = check.can_start ? AF_EXIT_YES : AF_EXIT_NO;
    if (json)
        return write_json(cli, build, &check, err);
    view(cli, build, &check);
    return af_cli_finish(cli, err);
}

enum anyflash_status af_cli_build_refuse(struct af_cli *cli, struct af_build *build,
                                         struct af_build_resources resources,
                                         struct anyflash_error *err)
{
    struct af_build_check check;
    enum anyflash_status status = af_build_check(build, resources, &check, err);
    if (status != ANYFLASH_OK)
        return status;
    if (check.obstacle != NULL) {
        cli->hint = check.obstacle->fix;
        return af_fail(err, ANYFLASH_E_UNSUPPORTED, "a build cannot start: %s: %s",
                       check.obstacle->name, text_of(&cli->arena, check.obstacle));
    }
    for (size_t i = 0; i < check.row_count; i++) {
        if (check.rows[i].answer != AF_NO)
            continue;
        const char *remark = af_arena_format(&cli->arena, "%s: %s", check.rows[i].name,
                                             text_of(&cli->arena, &check.rows[i]));
        if (remark != NULL)
            af_cli_remark(cli, remark);
    }
    return ANYFLASH_OK;
}
