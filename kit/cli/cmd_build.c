/*
 * cmd_build.c: `anyflash build`: builds a wheel of flash-attn, or checks whether it
 * can be built (--check), or removes kept builds (--clean).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kit/base/text.h"
#include "kit/cli/build_view.h"
#include "kit/cli/command_inputs.h"
#include "kit/cli/environment_change.h"
#include "kit/compile/build.h"
#include "kit/compile/offer/offer.h"
#include "kit/system/file.h"
#include "kit/system/output.h"

struct build {
    struct af_change change;
    struct af_build build;
    struct af_build_place place;
    struct af_build_result result;
    struct af_cli_build_progress progress;
    struct af_build_estimate estimate;
};

/* Parses "8G" or "512M" as bytes. */
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
        return af_fail(err, ANYFLASH_E_ARGUMENT, "--memory takes a size, such as 8G or 6000M");
    *bytes_out = (uint64_t)(number * unit);
    return ANYFLASH_OK;
}

/* --arch, or the GPUs of this machine. */
static enum anyflash_status read_archs(struct af_cli *cli, const struct af_machine *machine,
                                       bool must, struct af_selection *selection,
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
        if (!af_parse_i64(word, 10, 999, &sm) || !af_selection_add_arch(selection, (int)sm))
            return af_fail(
                err, ANYFLASH_E_ARGUMENT,
                "--arch %s: flash-attn 2 needs compute capability 8.0 or newer, such as "
                "9.0 or 80,90",
                word);
        if (at[strcspn(at, ",")] == '\0')
            break;
    }
    for (size_t i = 0; list == NULL && i < machine->gpus.count; i++) {
        double sm = strtod(af_fact_text_or(&machine->gpus.rows[i].sm, "0"), NULL);
        af_selection_add_arch(selection, (int)(sm * 10 + 0.5));
    }
    if (selection->arch_count > 0 || !must)
        return ANYFLASH_OK;
    cli->hint = "--arch 8.0 is for A100, 8.9 for RTX 3090 and 4090, 9.0 for H100, 10.0 and "
                "12.0 for Blackwell";
    return af_fail(err, ANYFLASH_E_ARGUMENT,
                   "no supported GPU was found: give the target with --arch");
}

/* --toolkit and --jobs. */
static enum anyflash_status read_toolkit_and_jobs(const struct af_cli *cli,
                                                  struct af_build *build,
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

/* Compilers at a time: the requested number, else the number of cores. */
static int slots_of(const struct build *build)
{
    return build->build.slots > 0
               ? (int)build->build.slots
               : (int)af_fact_int_or(&build->change.machine.resources.cores, 1);
}

/* Reads the options. --check works without a selection and without a GPU. */
static enum anyflash_status read_options(struct af_cli *cli, struct build *build, bool checks,
                                         struct anyflash_error *err)
{
    const struct af_machine *machine = &build->change.machine;
    build->build = (struct af_build){.machine = machine,
                                     .progress = build->change.run.progress,
                                     .arena = &cli->arena,
                                     .version = AF_RUNG_BUILD_FLASH_ATTN,
                                     .offline = build->change.run.offline};
    enum anyflash_status status = read_toolkit_and_jobs(cli, &build->build, err);
    if (status == ANYFLASH_OK)
        status = read_memory(cli, &build->build.memory_bytes, err);
    if (status == ANYFLASH_OK)
        status = af_cli_read_selection(cli, !checks, &build->build.selection, err);
    if (status == ANYFLASH_OK)
        status = read_archs(cli, machine, !checks, &build->build.selection, err);
    build->build.selection.joins = slots_of(build) <= AF_SELECTION_JOIN_CORES;
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

/* --output: also copies the wheel there, and shows that path. */
static enum anyflash_status put_output(struct af_cli *cli, struct build *build,
                                       struct anyflash_error *err)
{
    const char *folder = cli->options.values[AF_OPTION_OUTPUT];
    if (folder == NULL || build->result.wheel == NULL)
        return ANYFLASH_OK;
    const char *to = af_path_join(&cli->arena, folder, af_path_name(build->result.wheel));
    if (to == NULL)
        return af_fail_memory(err);
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

static enum anyflash_status make(struct af_cli *cli, struct build *build,
                                 enum af_exit *exit_out, struct anyflash_error *err)
{
    bool dry = af_option_given(&cli->options, AF_OPTION_DRY_RUN);
    bool json = af_option_given(&cli->options, AF_OPTION_JSON);
    build->progress = (struct af_cli_build_progress){.cli = cli};
    build->build.event = af_cli_build_view_event;
    build->build.context = &build->progress;
    if (!dry)
        af_govern_enter_scope(build->build.memory_bytes, NULL);
    enum anyflash_status status = estimate(build, err);
    if (status == ANYFLASH_OK && !json)
        af_cli_build_view_estimate(cli, &build->build, &build->place, &build->estimate);
    if (status == ANYFLASH_OK && !dry && !json &&
        !cli->out.failed) { /* show it before the build */
        fwrite(af_text_get(&cli->out), 1, cli->out.len, stdout);
        fflush(stdout);
        af_text_release(&cli->out);
        cli->out = (struct af_text){0};
    }
    if (status == ANYFLASH_OK && !dry)
        status = af_build_run(&build->build, &build->place, &build->result, err);
    af_cli_build_view_end(&build->progress);
    if (status == ANYFLASH_OK)
        status = put_output(cli, build, err);
    if (status != ANYFLASH_OK)
        return status;
    if (!dry && build->result.wheel == NULL)
        *exit_out = AF_EXIT_NO;
    if (json)
        return af_cli_build_result_json(cli, &build->build, &build->place, &build->estimate,
                                        &build->result, err);
    if (!dry)
        af_cli_build_view_result(cli, &build->place, &build->result);
    return af_cli_finish(cli, err);
}

static struct af_build_resources resources_of(const struct af_build *build, int64_t cores)
{
    struct af_offer_build_needs needs = af_offer_build_needs_of(
        &build->selection, cores, 0, build->toolkit != AF_FIT_TOOLKIT_SYSTEM);
    return (struct af_build_resources){(int64_t)needs.peak_bytes, (int64_t)needs.disk_bytes};
}

/* --check: prints the prerequisites; the exit code is NO if one is missing. */
static enum anyflash_status print_check(struct af_cli *cli, struct af_build *build,
                                        struct af_build_resources resources,
                                        enum af_exit *exit_out, struct anyflash_error *err)
{
    struct af_build_check check;
    enum anyflash_status status = af_build_check(build, resources, &check, err);
    if (status != ANYFLASH_OK)
        return status;
    *exit_out = check.can_start ? AF_EXIT_YES : AF_EXIT_NO;
    if (af_option_given(&cli->options, AF_OPTION_JSON))
        return af_cli_build_check_json(cli, build, &check, err);
    af_cli_build_view_check(cli, build, &check);
    return af_cli_finish(cli, err);
}

/*
 * Before a build: fails if a prerequisite is missing without which no build is
 * possible; warns about the others.
 */
static enum anyflash_status refuse(struct af_cli *cli, struct af_build *build,
                                   struct af_build_resources resources,
                                   struct anyflash_error *err)
{
    struct af_build_check check;
    enum anyflash_status status = af_build_check(build, resources, &check, err);
    if (status != ANYFLASH_OK)
        return status;
    if (check.obstacle != NULL) {
        cli->hint = check.obstacle->fix;
        return af_fail(err, ANYFLASH_E_UNSUPPORTED, "cannot start the build: %s: %s",
                       check.obstacle->name,
                       af_cli_build_row_text(&cli->arena, check.obstacle));
    }
    for (size_t i = 0; i < check.row_count; i++)
        if (check.rows[i].answer == AF_NO)
            af_cli_remark(cli, "%s: %s", check.rows[i].name,
                          af_cli_build_row_text(&cli->arena, &check.rows[i]));
    return ANYFLASH_OK;
}

static void remove_one(struct af_cli *cli, struct af_cli_build_kept *row)
{
    struct anyflash_error err = {0};
    if (af_build_remove(row->kept, &err) == ANYFLASH_OK) {
        row->done = "removed";
        return;
    }
    row->done = "stays";
    row->why = af_arena_text(&cli->arena, err.message);
}

/* --clean: shows what builds keep and removes it; with --dry-run only shows it. */
static enum anyflash_status clean(struct af_cli *cli, enum af_exit *exit_out,
                                  struct anyflash_error *err)
{
    struct af_build_kept *kept;
    size_t count;
    bool dry = af_option_given(&cli->options, AF_OPTION_DRY_RUN);
    enum anyflash_status status = af_build_list(&cli->arena, &kept, &count, err);
    if (status != ANYFLASH_OK)
        return status;
    struct af_cli_build_kept *rows = af_arena_array(&cli->arena, count + 1, sizeof *rows);
    if (rows == NULL)
        return af_fail_memory(err);
    for (size_t i = 0; i < count; i++) {
        rows[i] = (struct af_cli_build_kept){&kept[i], "kept", NULL};
        if (!dry)
            remove_one(cli, &rows[i]);
        if (rows[i].why != NULL)
            *exit_out = AF_EXIT_NO;
    }
    if (af_option_given(&cli->options, AF_OPTION_JSON))
        return af_cli_build_kept_json(cli, rows, count, err);
    af_cli_build_view_kept(cli, rows, count, dry);
    return af_cli_finish(cli, err);
}

/* --check and --clean replace the build. */
static enum anyflash_status check_words(const struct af_options *options,
                                        struct anyflash_error *err)
{
    bool checks = af_option_given(options, AF_OPTION_CHECK);
    if (checks && af_option_given(options, AF_OPTION_CLEAN))
        return af_fail(err, ANYFLASH_E_ARGUMENT, "--check cannot be used with --clean");
    if (options->words.count > 0)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "'build' takes no arguments");
    return ANYFLASH_OK;
}

static enum anyflash_status work(struct af_cli *cli, struct build *build,
                                 enum af_exit *exit_out, struct anyflash_error *err)
{
    bool checks = af_option_given(&cli->options, AF_OPTION_CHECK);
    enum anyflash_status status = read_options(cli, build, checks, err);
    struct af_build_resources resources = {0};
    if (status == ANYFLASH_OK)
        resources = resources_of(&build->build, slots_of(build));
    if (status == ANYFLASH_OK && checks)
        return print_check(cli, &build->build, resources, exit_out, err);
    if (status == ANYFLASH_OK && !af_option_given(&cli->options, AF_OPTION_DRY_RUN))
        status = check_output(cli, err);
    if (status == ANYFLASH_OK && !af_option_given(&cli->options, AF_OPTION_DRY_RUN))
        status = refuse(cli, &build->build, resources, err);
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
    if (af_option_given(&cli->options, AF_OPTION_CLEAN))
        return clean(cli, exit_out, err);
    struct build *build = af_arena_alloc(&cli->arena, sizeof *build);
    if (build == NULL)
        return af_fail_memory(err);
    status = af_change_open(&build->change, cli, err);
    if (status == ANYFLASH_OK)
        status = work(cli, build, exit_out, err);
    af_change_end(&build->change);
    return status;
}
