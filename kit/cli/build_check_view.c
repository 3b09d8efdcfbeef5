/*
 * build_check_view.c: prints what a build needs, and what of it is missing.
 */
#include "kit/cli/build_check_view.h"

#include <stdio.h>

#include "kit/cli/screen.h"
#include "kit/fit/rung.h"

#define NAME_COLUMNS 19
#define EVIDENCE_COLUMNS 28

/* "torch is a build without CUDA: 2.11.0" */
static const char *row_text(struct af_arena *arena, const struct af_prerequisite *row)
{
    if (row->why == NULL)
        return row->evidence;
    const char *text = row->evidence[0] == '\0'
                           ? row->why
                           : af_arena_format(arena, "%s: %s", row->why, row->evidence);
    return text == NULL ? "" : text;
}

static void view_row(struct af_screen *screen, const struct af_prerequisite *row,
                     struct af_arena *arena)
{
    char lead[64];
    snprintf(lead, sizeof lead, "%-*s%s", NAME_COLUMNS, row->name, af_answer_text(row->answer));
    af_screen_format(screen, EVIDENCE_COLUMNS, lead,
                     row->answer == AF_NO ? AF_TONE_BAD : AF_TONE_PLAIN, "%s%s%s",
                     row_text(arena, row), row->fix != NULL ? "\nto do: " : "",
                     row->fix != NULL ? row->fix : "");
}

/* The answer, then each prerequisite; below those of flash-attn's own build. */
static void view_check(struct af_cli *cli, const struct af_build *build,
                       const struct af_build_check checks[2])
{
    struct af_screen screen = {&cli->out, af_screen_columns(), af_cli_color(cli)};
    const struct af_build_check *check = &checks[0];
    if (check->can_start)
        af_screen_add(&screen, 0, "", AF_TONE_GOOD, "ready to build");
    else
        af_screen_format(&screen, 0, "", AF_TONE_BAD, "not ready to build: %zu %s missing",
                         check->missing_count,
                         check->missing_count == 1 ? "prerequisite is" : "prerequisites are");
    if (af_option_given(&cli->options, AF_OPTION_QUIET))
        return;
    af_screen_gap(&screen);
    af_screen_format(&screen, 0, "", AF_TONE_STRONG, "`anyflash build` (flash-attn %s) needs",
                     build->version);
    for (size_t i = 0; i < check->row_count; i++)
        view_row(&screen, &check->rows[i], &cli->arena);
    af_screen_gap(&screen);
    af_screen_add(&screen, 0, "", AF_TONE_STRONG,
                  "flash-attn's own source build (`pip install flash-attn`) needs");
    for (size_t i = 0; i < checks[1].row_count; i++)
        view_row(&screen, &checks[1].rows[i], &cli->arena);
    int targets = 1;
    for (const char *at = checks[1].arch_list; at != NULL && *at != '\0'; at++)
        targets += *at == ';';
    if (checks[1].jobs > 0)
        af_screen_format(&screen, EVIDENCE_COLUMNS, "", AF_TONE_PLAIN,
                         "and MAX_JOBS=%d NVCC_THREADS=1 FLASH_ATTN_CUDA_ARCHS=\"%s\", about "
                         "%.1f hours",
                         checks[1].jobs, checks[1].arch_list,
                         AF_RUNG_UPSTREAM_CPU_SECONDS * targets / 3600 / checks[1].jobs);
}

static json_t *rows_json(const struct af_build_check *check)
{
    json_t *list = json_array();
    for (size_t i = 0; i < check->row_count; i++) {
        const struct af_prerequisite *row = &check->rows[i];
        list = af_json_append(list, json_pack("{s:s, s:o, s:o, s:o}", "name", row->name,
                                              "verdict", af_json_answer(row->answer),
                                              "evidence", af_json_text(row->evidence), "fix",
                                              af_json_text(row->fix)));
    }
    return list;
}

static enum anyflash_status check_json(struct af_cli *cli, const struct af_build *build,
                                       const struct af_build_check checks[2],
                                       struct anyflash_error *err)
{
    return af_cli_json_take(
        cli,
        json_pack("{s:s, s:s, s:b, s:o, s:{s:b, s:o}}", "schema", "anyflash-build-check/1",
                  "version", build->version, "can_start", checks[0].can_start, "prerequisites",
                  rows_json(&checks[0]), "upstream", "can_start", checks[1].can_start,
                  "prerequisites", rows_json(&checks[1])),
        err);
}

enum anyflash_status af_cli_build_check(struct af_cli *cli, struct af_build *build,
                                        const int *targets, size_t target_count,
                                        enum af_exit *exit_out, struct anyflash_error *err)
{
    struct af_build_check checks[2];
    enum anyflash_status status = ANYFLASH_OK;
    for (size_t i = 0; i < AF_COUNT(checks) && status == ANYFLASH_OK; i++)
        status = af_build_check(build, i == 1, targets, target_count, &checks[i], err);
    if (status != ANYFLASH_OK)
        return status;
    *exit_out = checks[0].can_start ? AF_EXIT_YES : AF_EXIT_NO;
    if (af_option_given(&cli->options, AF_OPTION_JSON))
        return check_json(cli, build, checks, err);
    view_check(cli, build, checks);
    return ANYFLASH_OK;
}

enum anyflash_status af_cli_build_refuse(struct af_cli *cli, const struct af_build_check *check,
                                         struct anyflash_error *err)
{
    if (check->obstacle != NULL) {
        cli->hint = check->obstacle->fix;
        return af_fail(err, ANYFLASH_E_UNSUPPORTED, "cannot start the build: %s: %s",
                       check->obstacle->name, row_text(&cli->arena, check->obstacle));
    }
    for (size_t i = 0; i < check->row_count; i++)
        if (check->rows[i].answer == AF_NO)
            af_cli_remark(cli, "%s: %s", check->rows[i].name,
                          row_text(&cli->arena, &check->rows[i]));
    return ANYFLASH_OK;
}
