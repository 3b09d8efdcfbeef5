/*
 * cmd_build.c: `anyflash build`: its options, the build with its progress, and what it made.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kit/base/text.h"
#include "kit/base/url.h"
#include "kit/cli/build_check_view.h"
#include "kit/cli/build_clean.h"
#include "kit/cli/command_inputs.h"
#include "kit/cli/environment_change.h"
#include "kit/cli/screen.h"
#include "kit/compile/build.h"
#include "kit/compile/offer/offer.h"
#include "kit/fit/gpu_generation.h"
#include "kit/system/file.h"
#include "kit/system/output.h"

#define LABEL_COLUMNS 14
#define JOBS_MAX 512
#define TARGETS_MAX 16

struct build {
    struct af_change change;
    struct af_build build;
    struct af_build_place place;
    struct af_build_result result;
    struct af_offer_build_needs needs;
    int targets[TARGETS_MAX]; /* of --arch, for the check of flash-attn's own build */
    size_t target_count;
};

/* --arch: "80,90" or "8.0"; else the variable of flash-attn's own build: "80;90". */
static enum anyflash_status read_targets(const struct af_cli *cli, struct build *build,
                                         bool checks, struct anyflash_error *err)
{
    const char *option = cli->options.values[AF_OPTION_ARCH];
    const char *list = option == NULL && checks ? getenv("FLASH_ATTN_CUDA_ARCHS") : option;
    for (const char *at = list; at != NULL && *at != '\0';) {
        char word[16];
        int64_t sm;
        snprintf(word, sizeof word, "%.*s", (int)strcspn(at, ",;"), at);
        char *dot = strchr(word, '.');
        if (dot != NULL)
            memmove(dot, dot + 1, strlen(dot));
        if (!af_parse_i64(word, 80, 999, &sm) || build->target_count == TARGETS_MAX ||
            (checks && af_sm_generation_of((int)sm).build_target == 0))
            return af_fail(err, ANYFLASH_E_ARGUMENT,
                           "%s %s: takes compute capabilities from 8.0 on for which flash-attn "
                           "2 has code, such as 9.0 or 80,90",
                           option != NULL ? "--arch" : "FLASH_ATTN_CUDA_ARCHS", word);
        build->targets[build->target_count++] = (int)sm;
        at += strcspn(at, ",;");
        at += *at != '\0';
    }
    return ANYFLASH_OK;
}

static enum anyflash_status read_jobs(const struct af_cli *cli, struct af_build *build,
                                      struct anyflash_error *err)
{
    const char *jobs = cli->options.values[AF_OPTION_JOBS];
    int64_t count = 0;
    if (jobs != NULL && !af_parse_i64(jobs, 1, JOBS_MAX, &count))
        return af_fail(err, ANYFLASH_E_ARGUMENT, "--jobs takes a number from 1 to %d",
                       JOBS_MAX);
    build->jobs = (unsigned)count;
    return ANYFLASH_OK;
}

/* A pack is taken as it is. */
static enum anyflash_status check_pack(const struct af_cli *cli, struct af_arena *arena,
                                       struct anyflash_error *err)
{
    static const struct {
        enum af_option_id id;
        const char *name;
    } others[] = {{AF_OPTION_FOR, "for"},
                  {AF_OPTION_HEAD_DIM, "head-dim"},
                  {AF_OPTION_DTYPE, "dtype"},
                  {AF_OPTION_FEATURES, "features"},
                  {AF_OPTION_INFERENCE, "inference"},
                  {AF_OPTION_FULL, "full"},
                  {AF_OPTION_JOBS, "jobs"},
                  {AF_OPTION_CHECK, "check"}};
    const struct af_options *options = &cli->options;
    const char *pack = options->values[AF_OPTION_PACK];
    for (size_t i = 0; pack != NULL && i < AF_COUNT(others); i++)
        if (af_option_given(options, others[i].id))
            return af_fail(err, ANYFLASH_E_ARGUMENT,
                           "--%s cannot be used with --pack, which is taken as it is",
                           others[i].name);
    if (pack != NULL && strstr(pack, "://") == NULL && access(pack, R_OK) != 0)
        return af_fail(err, ANYFLASH_E_NOT_FOUND, "--pack: cannot read '%s': %s",
                       af_text_scrub(arena, pack, 200), strerror(errno));
    return ANYFLASH_OK;
}

/* Reads the options. --check works without a selection. */
static enum anyflash_status read_options(struct af_cli *cli, struct build *build, bool checks,
                                         struct anyflash_error *err)
{
    const struct af_options *options = &cli->options;
    build->build =
        (struct af_build){.machine = &build->change.machine,
                          .progress = build->change.run.progress,
                          .arena = &cli->arena,
                          .pack = options->values[AF_OPTION_PACK],
                          .version = AF_RUNG_BUILD_FLASH_ATTN,
                          .offline = build->change.run.offline,
                          .allow_http = af_option_given(options, AF_OPTION_ALLOW_HTTP)};
    enum anyflash_status status = check_pack(cli, &cli->arena, err);
    if (status == ANYFLASH_OK)
        status = read_jobs(cli, &build->build, err);
    bool must = !checks && build->build.pack == NULL;
    if (status == ANYFLASH_OK)
        status = af_cli_read_selection(cli, must, &build->build.selection, err);
    return status == ANYFLASH_OK ? read_targets(cli, build, checks, err) : status;
}

/* --pack without a password; NULL if it was not given. */
static const char *shown_pack(struct af_cli *cli, const struct build *build)
{
    return build->build.pack == NULL
               ? NULL
               : af_text_scrub(&cli->arena,
                               af_url_without_secrets(&cli->arena, build->build.pack), 300);
}

/* "about 8 min (64 kernels), 6.0 GiB of memory for each compiler". */
static void view_estimate(struct af_cli *cli, const struct build *build)
{
    struct af_screen screen = {&cli->out, af_screen_columns(), af_cli_color(cli)};
    const struct af_offer_build_needs *needs = &build->needs;
    af_screen_format(&screen, 0, "", AF_TONE_STRONG,
                     "flash-attn %s for every torch, Python and GPU since 8.0",
                     build->build.version);
    if (build->build.pack != NULL) {
        af_screen_add(&screen, LABEL_COLUMNS, "  kernels", AF_TONE_PLAIN,
                      shown_pack(cli, build));
    } else {
        af_screen_add(&screen, LABEL_COLUMNS, "  holds", AF_TONE_PLAIN,
                      af_selection_text(&build->build.selection, &cli->arena));
        af_screen_format(&screen, LABEL_COLUMNS, "  takes", AF_TONE_PLAIN,
                         "%s (about %d kernels), less if some are compiled already; up to %s "
                         "of memory for each compiler",
                         af_offer_build_time_text(&cli->arena, needs), needs->kernel_count,
                         af_text_bytes(&cli->arena, (int64_t)needs->peak_bytes));
    }
    af_screen_add(&screen, LABEL_COLUMNS, "  in", AF_TONE_PLAIN, build->place.folder);
}

static void view_result(struct af_cli *cli, const struct build *build)
{
    const struct af_build_result *result = &build->result;
    struct af_screen screen = {&cli->out, af_screen_columns(), af_cli_color(cli)};
    af_screen_gap(&screen);
    if (result->wheel == NULL) {
        af_screen_format(&screen, 0, "", AF_TONE_BAD, "not built: %s", result->reason);
        return;
    }
    const char *words[] = {result->wheel, NULL};
    af_screen_format(&screen, 0, "", AF_TONE_GOOD, "built in %.1f minutes",
                     result->seconds / 60);
    af_screen_command(&screen, 2, AF_SHELL_POSIX,
                      af_cli_next_command(cli, AF_COMMAND_INSTALL, words));
}

static enum anyflash_status result_json(struct af_cli *cli, const struct build *build,
                                        struct anyflash_error *err)
{
    const struct af_build_result *result = &build->result;
    const struct af_offer_build_needs *needs = &build->needs;
    bool packed = build->build.pack != NULL;
    return af_cli_json_take(
        cli,
        json_pack(
            "{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:f}", "schema",
            "anyflash-build/1", "version", build->build.version, "holds",
            packed ? json_null()
                   : af_json_text(af_selection_text(&build->build.selection, &cli->arena)),
            "pack", af_json_text(shown_pack(cli, build)), "folder",
            af_json_text(build->place.folder), "kernels",
            packed ? json_null() : json_integer(needs->kernel_count), "estimated_seconds",
            !packed && needs->wall_seconds > 0 ? json_real(needs->wall_seconds) : json_null(),
            "peak_bytes", packed ? json_null() : json_integer((json_int_t)needs->peak_bytes),
            "wheel", af_json_text(result->wheel), "reason", af_json_text(result->reason),
            "seconds", result->seconds),
        err);
}

static void estimate(struct build *build)
{
    const struct af_resources *resources = &build->change.machine.resources;
    int64_t memory = af_fact_int_or(&resources->memory_available_bytes, 0);
    int64_t cores = af_fact_int_or(&resources->cores, 1);
    build->needs = af_offer_build_needs_of(&build->build.selection,
                                           build->build.jobs > 0 ? build->build.jobs : cores,
                                           memory > 0 ? (uint64_t)memory : 0);
}

/* --output: also copies the wheel there, and shows that path. */
static enum anyflash_status put_output(struct af_cli *cli, struct build *build,
                                       struct anyflash_error *err)
{
    const char *folder = cli->options.values[AF_OPTION_OUTPUT];
    if (folder == NULL || build->result.wheel == NULL)
        return ANYFLASH_OK;
    const char *to = af_path_join(&cli->arena, folder, af_path_name(build->result.wheel));
    enum anyflash_status status =
        af_file_link_or_copy(&cli->arena, build->result.wheel, to, err);
    if (status == ANYFLASH_OK)
        build->result.wheel = to;
    else
        cli->hint =
            af_arena_format(&cli->arena, "the wheel was built: %s", build->result.wheel);
    return status;
}

/* Checks --output before the build rather than after it. */
static enum anyflash_status check_output(const struct af_cli *cli, struct anyflash_error *err)
{
    const char *folder = cli->options.values[AF_OPTION_OUTPUT];
    char shown[200];
    if (folder == NULL)
        return ANYFLASH_OK;
    enum anyflash_status status = af_folder_make(folder, 0755, err);
    if (status == ANYFLASH_OK && access(folder, W_OK | X_OK) != 0)
        return af_fail(err, ANYFLASH_E_IO, "cannot write to '%s' (from --output): %s",
                       af_text_quote(shown, sizeof shown, folder, strlen(folder)),
                       strerror(errno));
    return status;
}

/* Shows the estimate, builds unless --dry-run, and shows what was made. */
static enum anyflash_status make(struct af_cli *cli, struct build *build,
                                 enum af_exit *exit_out, struct anyflash_error *err)
{
    bool dry = af_option_given(&cli->options, AF_OPTION_DRY_RUN);
    bool json = af_option_given(&cli->options, AF_OPTION_JSON);
    estimate(build);
    if (!json && !af_option_given(&cli->options, AF_OPTION_QUIET))
        view_estimate(cli, build);
    enum anyflash_status status = ANYFLASH_OK;
    if (!dry && !json) { /* show it before the build */
        fwrite(af_text_get(&cli->out), 1, cli->out.len, stdout);
        fflush(stdout);
        af_text_release(&cli->out);
        cli->out = (struct af_text){0};
    }
    if (!dry)
        status = af_build_run(&build->build, &build->place, &build->result, err);
    if (status == ANYFLASH_OK)
        status = put_output(cli, build, err);
    if (status != ANYFLASH_OK)
        return status;
    if (!dry && build->result.wheel == NULL)
        *exit_out = AF_EXIT_NO;
    if (json)
        return result_json(cli, build, err);
    if (!dry)
        view_result(cli, build);
    return ANYFLASH_OK;
}

/* --check only checks the machine, --dry-run only estimates; else this builds. */
static enum anyflash_status work(struct af_cli *cli, struct build *build,
                                 enum af_exit *exit_out, struct anyflash_error *err)
{
    bool checks = af_option_given(&cli->options, AF_OPTION_CHECK);
    bool builds = !checks && !af_option_given(&cli->options, AF_OPTION_DRY_RUN);
    struct af_build_check check;
    enum anyflash_status status = read_options(cli, build, checks, err);
    if (status == ANYFLASH_OK && checks)
        return af_cli_build_check(cli, &build->build, build->targets, build->target_count,
                                  exit_out, err);
    if (status == ANYFLASH_OK && builds)
        status = check_output(cli, err);
    if (status == ANYFLASH_OK && builds)
        status = af_build_check(&build->build, false, NULL, 0, &check, err);
    if (status == ANYFLASH_OK && builds)
        status = af_cli_build_refuse(cli, &check, err);
    if (status == ANYFLASH_OK && builds && build->build.jobs == 0)
        build->build.jobs = check.jobs > 0 ? (unsigned)check.jobs : 1;
    if (status == ANYFLASH_OK)
        status = af_build_find_place(&build->build, &build->place, err);
    return status == ANYFLASH_OK ? make(cli, build, exit_out, err) : status;
}

enum anyflash_status af_cmd_build(struct af_cli *cli, enum af_exit *exit_out,
                                  struct anyflash_error *err)
{
    if (af_option_given(&cli->options, AF_OPTION_CLEAN))
        return af_option_given(&cli->options, AF_OPTION_CHECK)
                   ? af_fail(err, ANYFLASH_E_ARGUMENT, "--check cannot be used with --clean")
                   : af_cli_build_clean(cli, exit_out, err);
    struct build *build = af_arena_alloc(&cli->arena, sizeof *build);
    enum anyflash_status status = af_change_open(&build->change, cli, err);
    if (status == ANYFLASH_OK)
        status = work(cli, build, exit_out, err);
    af_change_end(&build->change);
    return status;
}
