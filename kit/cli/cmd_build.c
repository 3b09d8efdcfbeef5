/*
 * cmd_build.c: `anyflash build`: a wheel of flash-attn from its sources, whole
 * or the part that a model needs.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kit/base/text.h"
#include "kit/build/build.h"
#include "kit/build/offer/offer.h"
#include "kit/cli/build_check.h"
#include "kit/cli/build_clean.h"
#include "kit/cli/build_matrix.h"
#include "kit/cli/build_view.h"
#include "kit/cli/environment_change.h"
#include "kit/cli/facts_view.h"
#include "kit/cli/json_parts.h"
#include "kit/cli/load.h"
#include "kit/cli/page.h"
#include "kit/system/file.h"
#include "kit/system/output.h"

#define LABEL_COLUMNS 14
#define GIB 1073741824.0

struct build {
    struct af_change change;
    struct af_build build;
    struct af_build_place place;
    struct af_build_result result;
    struct af_cli_build_view view;
    struct af_build_estimate estimate;
};

/* "8G", "512M": bytes. */
static enum anyflash_status read_memory(const struct af_cli *cli, uint64_t *bytes_out,
                                        struct anyflash_error *err)
{
    const char *text = cli->options.values[AF_OPTION_MEMORY];
    char *end;
    if (text == NULL)
        return ANYFLASH_OK;
    double number = strtod(text, &end);
    double unit = *end == 'G' || *end == 'g'   ? 1073741824.0
                  : *end == 'M' || *end == 'm' ? 1048576.0
                                               : 0;
    if (end == text || unit == 0 || !(number * unit >= 1048576.0 && number * unit <= 1e15) ||
        (end[1] != '\0' && strcmp(end + 1, "iB") != 0 && strcmp(end + 1, "B") != 0))
        return af_fail(err, ANYFLASH_E_ARGUMENT, "--memory takes a size, as 8G or 6000M");
    *bytes_out = (uint64_t)(number * unit);
    return ANYFLASH_OK;
}

/* --arch, or the GPUs that are here. */
static enum anyflash_status read_archs(struct af_cli *cli, const struct af_machine *machine,
                                       bool must, struct af_slim *slim,
                                       struct anyflash_error *err)
{
    const char *list = cli->options.values[AF_OPTION_ARCH];
    for (const char *at = list; at != NULL && *at != '\0'; at += strcspn(at, ",") + 1) {
        char word[16];
        int64_t sm;
        snprintf(word, sizeof word, "%.*s", (int)strcspn(at, ","), at);
        char *dot = strchr(word, '.');
        if (dot != NULL)
            memmove(dot, dot + 1, strlen(dot));
        if (!af_parse_i64(word, 10, 999, &sm) || !af_slim_add_arch(slim, (int)sm))
            return af_fail(
                err, ANYFLASH_E_ARGUMENT,
                "--arch %s: flash-attn 2 is for compute capability 8.0 and newer, as "
                "9.0 or 80,90",
                word);
        if (at[strcspn(at, ",")] == '\0')
            break;
    }
    for (size_t i = 0; list == NULL && i < machine->gpus.count; i++) {
        double sm = strtod(af_fact_text_or(&machine->gpus.rows[i].sm, "0"), NULL);
        af_slim_add_arch(slim, (int)(sm * 10 + 0.5));
    }
    if (slim->arch_count > 0 || !must)
        return ANYFLASH_OK;
    cli->hint = "--arch 8.0 is for A100, 8.9 for RTX 3090 and 4090, 9.0 for H100, 10.0 and "
                "12.0 for Blackwell";
    return af_fail(err, ANYFLASH_E_ARGUMENT,
                   "no GPU that flash-attn serves was seen: say for which to build, by --arch");
}

/* --toolkit and --jobs. */
static enum anyflash_status read_manner(const struct af_cli *cli, struct af_build *build,
                                        struct anyflash_error *err)
{
    const char *toolkit = cli->options.values[AF_OPTION_TOOLKIT];
    const char *jobs = cli->options.values[AF_OPTION_JOBS];
    int64_t count = 0;
    if (toolkit != NULL && strcmp(toolkit, "auto") != 0 && strcmp(toolkit, "system") != 0 &&
        strcmp(toolkit, "index") != 0)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "--toolkit takes auto, system or index");
    if (jobs != NULL && !af_parse_i64(jobs, 1, AF_GOVERN_JOBS_MAX, &count))
        return af_fail(err, ANYFLASH_E_ARGUMENT, "--jobs takes a number from 1 to %d",
                       AF_GOVERN_JOBS_MAX);
    build->slots = (unsigned)count;
    build->toolkit = af_equal(toolkit, "system")  ? AF_FIT_TOOLKIT_SYSTEM
                     : af_equal(toolkit, "index") ? AF_FIT_TOOLKIT_INDEX
                                                  : AF_FIT_TOOLKIT_AUTO;
    return ANYFLASH_OK;
}

/* Compilers at a time: what was asked for, else the cores. */
static int slots_of(const struct build *build)
{
    return build->build.slots > 0
               ? (int)build->build.slots
               : (int)af_fact_int_or(&build->change.machine.resources.cores, 1);
}

/* --check needs no selection, no GPU and no place: it says what of them is missing. */
static enum anyflash_status ask(struct af_cli *cli, struct build *build, bool checks,
                                struct anyflash_error *err)
{
    const struct af_machine *machine = &build->change.machine;
    build->build = (struct af_build){.machine = machine,
                                     .progress = build->change.run.progress,
                                     .arena = &cli->arena,
                                     .version = AF_OFFER_BUILD_FLASH_ATTN,
                                     .offline = build->change.run.offline};
    enum anyflash_status status = read_manner(cli, &build->build, err);
    if (status == ANYFLASH_OK)
        status = read_memory(cli, &build->build.memory_bytes, err);
    if (status == ANYFLASH_OK)
        status = af_cli_read_selection(cli, !checks, &build->build.slim, err);
    if (status == ANYFLASH_OK)
        status = read_archs(cli, machine, !checks, &build->build.slim, err);
    build->build.slim.joins = slots_of(build) <= AF_SLIM_JOIN_CORES;
    return status;
}

static enum anyflash_status estimate(struct build *build, struct anyflash_error *err)
{
    const struct af_resources *resources = &build->change.machine.resources;
    int64_t memory = af_fact_int_or(&resources->memory_available_bytes, INT64_MAX);
    if (build->build.memory_bytes > 0 && (int64_t)build->build.memory_bytes < memory)
        memory = (int64_t)build->build.memory_bytes;
    return af_build_find_estimate(&build->build, &build->place, slots_of(build),
                                  (uint64_t)(memory > 0 ? memory : 0), &build->estimate, err);
}

/* "about 3 minutes here (8 files, 4 CPU minutes), at most 3.6 GiB a compiler". */
static void view_time(struct af_cli *cli, struct af_page *page,
                      const struct af_build_estimate *estimate)
{
    double peak = (double)estimate->peak_bytes / GIB;
    const char *done = estimate->done_count > 0
                           ? af_arena_format(&cli->arena, " of %zu",
                                             estimate->call_count + estimate->done_count)
                           : "";
    if (estimate->call_count == 0)
        af_page_add(page, LABEL_COLUMNS, "  takes", AF_TONE_PLAIN,
                    "seconds: all files were compiled before");
    else if (estimate->wall_seconds > 0 && done != NULL)
        af_page_format(page, LABEL_COLUMNS, "  takes", AF_TONE_PLAIN,
                       "about %.1f minutes here (%zu%s files, %.1f CPU minutes), at most "
                       "%.1f GiB a compiler",
                       estimate->wall_seconds / 60, estimate->call_count, done,
                       estimate->cpu_seconds / 60, peak);
    else
        af_page_format(page, LABEL_COLUMNS, "  takes", AF_TONE_BAD,
                       "one compiler needs %.1f GiB, which is more than there is: it may be "
                       "killed",
                       peak);
}

static void view_estimate(struct af_cli *cli, const struct build *build)
{
    struct af_page page = {&cli->out, af_page_columns(), af_cli_color(cli)};
    const struct af_machine *machine = &build->change.machine;
    af_page_format(&page, 0, "", AF_TONE_STRONG, "flash-attn %s for torch %s, Python %s",
                   build->build.version, af_fact_text_or(&machine->torch.version, "?"),
                   af_fact_text_or(&machine->python.version, "?"));
    af_page_add(&page, LABEL_COLUMNS, "  holds", AF_TONE_PLAIN,
                af_slim_text(&build->build.slim, &cli->arena));
    af_page_format(&page, LABEL_COLUMNS, "  compiler", AF_TONE_PLAIN, "CUDA %s, %s",
                   build->place.cuda_version,
                   build->place.cuda_from_index ? "from the Python package index"
                                                : build->place.cuda_home);
    view_time(cli, &page, &build->estimate);
    af_page_add(&page, LABEL_COLUMNS, "  in", AF_TONE_PLAIN, build->place.folder);
}

static void view_result(struct af_cli *cli, const struct build *build)
{
    struct af_page page = {&cli->out, af_page_columns(), af_cli_color(cli)};
    af_page_gap(&page);
    if (build->result.wheel == NULL) {
        af_page_format(&page, 0, "", AF_TONE_BAD, "not built: %s", build->result.reason);
        af_page_format(&page, 0, "", AF_TONE_PLAIN, "log: %s", build->place.log);
        return;
    }
    const char *command =
        af_arena_format(&cli->arena, "anyflash install %s", build->result.wheel);
    af_page_format(&page, 0, "", AF_TONE_GOOD, "built in %.1f minutes",
                   build->result.seconds / 60);
    if (command != NULL)
        af_page_command(&page, 2, command);
}

static enum anyflash_status write_json(struct af_cli *cli, const struct build *build,
                                       struct anyflash_error *err)
{
    const struct af_build_result *result = &build->result;
    struct af_slim_total total;
    af_slim_total(&build->build.slim, &total);
    return af_cli_json_take(
        cli,
        json_pack("{s:s, s:s, s:s, s:i, s:s, s:I, s:I, s:f, s:f, s:I, s:s?, s:s?, s:f}",
                  "schema", "anyflash-build/1", "version", build->build.version, "holds",
                  af_slim_local(&build->build.slim, &cli->arena), "kernels", total.kernel_count,
                  "folder", build->place.folder, "files",
                  (json_int_t)(build->estimate.call_count + build->estimate.done_count),
                  "compiled", (json_int_t)build->estimate.done_count, "cpu_seconds",
                  build->estimate.cpu_seconds, "estimated_seconds",
                  build->estimate.wall_seconds, "peak_bytes",
                  (json_int_t)build->estimate.peak_bytes, "wheel", result->wheel, "reason",
                  result->reason, "seconds", result->seconds),
        err);
}

/* --output: the wheel is put there too, and that is where it is said to be. */
static enum anyflash_status give(struct af_cli *cli, struct build *build,
                                 struct anyflash_error *err)
{
    const char *folder = cli->options.values[AF_OPTION_OUTPUT];
    if (folder == NULL || build->result.wheel == NULL)
        return ANYFLASH_OK;
    const char *to = af_path_join(&cli->arena, folder, af_path_name(build->result.wheel));
    if (to == NULL)
        return af_fail_memory(err);
    enum anyflash_status status = af_file_place(&cli->arena, build->result.wheel, to, err);
    if (status == ANYFLASH_OK)
        build->result.wheel = to;
    else
        cli->hint = af_arena_format(&cli->arena, "the wheel is built and kept: %s",
                                    build->result.wheel);
    return status;
}

/* Before the minutes, not after them. */
static enum anyflash_status check_output(const struct af_cli *cli, struct anyflash_error *err)
{
    const char *folder = cli->options.values[AF_OPTION_OUTPUT];
    char shown[200];
    if (folder == NULL)
        return ANYFLASH_OK;
    enum anyflash_status status = af_folder_make(folder, 0755, err);
    if (status == ANYFLASH_OK && access(folder, W_OK | X_OK) != 0)
        return af_fail(err, ANYFLASH_E_IO, "cannot write into '%s' of --output: %s",
                       af_text_quote(shown, sizeof shown, folder, strlen(folder)),
                       strerror(errno));
    return status;
}

/* What was learned, and will be; a build does without where that cannot be. */
static void open_state(struct af_cli *cli, struct build *build, bool dry)
{
    struct anyflash_error err = {0};
    const char *remark = NULL;
    if (af_state_open(dry ? AF_STATE_READ : AF_STATE_WRITE, &cli->arena, &build->build.state,
                      &remark, &err) != ANYFLASH_OK) {
        build->build.state = NULL;
        remark = err.status == ANYFLASH_E_NOT_FOUND && dry
                     ? NULL
                     : af_arena_format(&cli->arena, "nothing is learned from this build: %s",
                                       err.message);
    }
    if (remark != NULL)
        af_cli_remark(cli, remark);
}

static enum anyflash_status make(struct af_cli *cli, struct build *build,
                                 enum af_exit *exit_out, struct anyflash_error *err)
{
    bool dry = af_option_given(&cli->options, AF_OPTION_DRY_RUN);
    bool json = af_option_given(&cli->options, AF_OPTION_JSON);
    build->view = (struct af_cli_build_view){.cli = cli};
    build->build.event = af_cli_build_view_event;
    build->build.context = &build->view;
    open_state(cli, build, dry);
    enum anyflash_status status = estimate(build, err);
    if (status == ANYFLASH_OK && !json)
        view_estimate(cli, build);
    if (status == ANYFLASH_OK && !dry && !json &&
        !cli->out.failed) { /* before the minutes, not after them */
        fwrite(af_text_get(&cli->out), 1, cli->out.len, stdout);
        fflush(stdout);
        af_text_release(&cli->out);
        cli->out = (struct af_text){0};
    }
    if (status == ANYFLASH_OK && !dry)
        status = af_build_run(&build->build, &build->place, &build->result, err);
    af_cli_build_view_end(&build->view);
    af_state_close(build->build.state);
    if (status == ANYFLASH_OK)
        status = give(cli, build, err);
    if (status != ANYFLASH_OK)
        return status;
    if (!dry && build->result.wheel == NULL)
        *exit_out = AF_EXIT_NO;
    if (json)
        return write_json(cli, build, err);
    if (!dry)
        view_result(cli, build);
    return af_cli_finish(cli, err);
}

/* --matrix: nothing is built and no machine is looked at. */
static enum anyflash_status print_matrix(struct af_cli *cli, enum af_exit *exit_out,
                                         struct anyflash_error *err)
{
    struct af_build build = {0};
    enum anyflash_status status = read_manner(cli, &build, err);
    if (status == ANYFLASH_OK)
        status = read_memory(cli, &build.memory_bytes, err);
    if (status == ANYFLASH_OK)
        status = af_cli_read_selection(cli, true, &build.slim, err);
    return status == ANYFLASH_OK
               ? af_cli_build_matrix(cli, &build.slim, AF_OFFER_BUILD_FLASH_ATTN,
                                     build.memory_bytes, exit_out, err)
               : status;
}

/* Options that say what to do in place of building, one at most. */
static enum anyflash_status check_words(const struct af_options *options,
                                        struct anyflash_error *err)
{
    static const enum af_option_id ways[] = {AF_OPTION_MATRIX, AF_OPTION_CHECK,
                                             AF_OPTION_CLEAN};
    const char *found = NULL;
    for (size_t i = 0; i < AF_COUNT(ways); i++) {
        const char *name = af_option_rows[ways[i]].name;
        if (!af_option_given(options, ways[i]))
            continue;
        if (found != NULL)
            return af_fail(err, ANYFLASH_E_ARGUMENT, "--%s and --%s exclude each other", found,
                           name);
        found = name;
    }
    if (options->values[AF_OPTION_FORMAT] != NULL &&
        (found == NULL || af_option_given(options, AF_OPTION_CLEAN)))
        return af_fail(err, ANYFLASH_E_ARGUMENT, "--format is for --matrix and --check");
    if (options->words.count > 0 && !af_option_given(options, AF_OPTION_MATRIX))
        return af_fail(err, ANYFLASH_E_ARGUMENT,
                       "'build' takes options only: words as torch=2.9 are for --matrix");
    return ANYFLASH_OK;
}

static enum anyflash_status work(struct af_cli *cli, struct build *build,
                                 enum af_exit *exit_out, struct anyflash_error *err)
{
    bool checks = af_option_given(&cli->options, AF_OPTION_CHECK);
    enum anyflash_status status = ask(cli, build, checks, err);
    struct af_build_resources resources = {0};
    if (status == ANYFLASH_OK)
        resources = af_cli_build_resources(&build->build, slots_of(build));
    if (status == ANYFLASH_OK && checks)
        return af_cli_build_check(cli, &build->build, resources, exit_out, err);
    if (status == ANYFLASH_OK && !af_option_given(&cli->options, AF_OPTION_DRY_RUN))
        status = check_output(cli, err);
    if (status == ANYFLASH_OK && !af_option_given(&cli->options, AF_OPTION_DRY_RUN))
        status = af_cli_build_refuse(cli, &build->build, resources, err);
    if (status == ANYFLASH_OK)
        status = af_build_find_place(&build->build, &build->place, err);
    return status == ANYFLASH_OK ? make(cli, build, exit_out, err) : status;
}

enum anyflash_status af_cmd_build(struct af_cli *cli, enum af_exit *exit_out,
                                  struct anyflash_error *err)
{
    enum anyflash_status status = check_words(&cli->options, err);
    if (status != ANYFLASH_OK)
        return status;
    if (af_option_given(&cli->options, AF_OPTION_MATRIX))
        return print_matrix(cli, exit_out, err);
    if (af_option_given(&cli->options, AF_OPTION_CLEAN))
        return af_cli_build_clean(cli, exit_out, err);
    struct build *build = af_arena_alloc(&cli->arena, sizeof *build);
    if (build == NULL)
        return af_fail_memory(err);
    status = af_change_begin(&build->change, cli, err);
    if (status == ANYFLASH_OK)
        status = work(cli, build, exit_out, err);
    af_change_end(&build->change);
    return status;
}
