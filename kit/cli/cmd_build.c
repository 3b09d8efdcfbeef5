/*
 * cmd_build.c: `anyflash build`: builds a wheel of flash-attn, or checks whether it
 * can be built (--check), or removes kept builds (--clean).
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "kit/base/text.h"
#include "kit/cli/command_inputs.h"
#include "kit/cli/environment_change.h"
#include "kit/cli/screen.h"
#include "kit/compile/build.h"
#include "kit/compile/offer/offer.h"
#include "kit/system/file.h"
#include "kit/system/output.h"

#define GIB 1073741824.0
#define LABEL_COLUMNS 14
#define NAME_COLUMNS 19
#define EVIDENCE_COLUMNS 28
#define PLAIN_SECONDS 30.0
#define TIME_BYTES 32
#define LINE_BYTES 200

/* Progress: one line that is rewritten on a terminal, lines at intervals elsewhere. */
struct progress {
    const struct af_cli *cli;
    size_t done_count;
    double shown_at; /* when the last line was written */
    struct af_build_end_time end_time;
    bool line_shown;
};

struct build {
    struct af_change change;
    struct af_build build;
    struct af_build_place place;
    struct af_build_result result;
    struct progress progress;
    struct af_build_estimate estimate;
};

/* ---- options ---- */

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
    cli->hint = "--arch 8.0 is for A100, 8.6 for RTX 3090, 8.9 for RTX 4090, 9.0 for H100, "
                "10.0 and 12.0 for Blackwell";
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

/* ---- the build ---- */

static const char *why_text(enum af_admit_why why)
{
    return why == AF_ADMIT_MEMORY       ? "for memory"
           : why == AF_ADMIT_SLOTS      ? "for a core"
           : why == AF_ADMIT_ALONE_RUNS ? "for a compiler that must run alone"
           : why == AF_ADMIT_FOR_ALONE  ? "until a compiler can run alone"
                                        : "";
}

/* "3 min", "50 s": rounded up. */
static const char *left_text(double seconds, char text[TIME_BYTES])
{
    if (seconds < 90)
        snprintf(text, TIME_BYTES, "%.0f s", ceil(seconds / 10) * 10);
    else
        snprintf(text, TIME_BYTES, "%.0f min", ceil(seconds / 60));
    return text;
}

static int terminal_columns(void)
{
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80;
}

static void clear(struct progress *progress)
{
    if (progress->line_shown)
        fprintf(stderr, "\r\033[K");
    progress->line_shown = false;
}

static void show_progress(struct progress *progress, const struct af_govern_event *event)
{
    char left[TIME_BYTES];
    char line[LINE_BYTES];
    const char *why = why_text(event->why);
    bool terminal = isatty(STDERR_FILENO) == 1;
    double now = af_govern_now();
    size_t running = 0;
    for (size_t i = 0; i < event->row_count; i++)
        running += event->rows[i].state == AF_JOB_RUNNING;
    size_t waiting = event->row_count - running;
    if (event->row_count == 0 || (!terminal && now - progress->shown_at < PLAIN_SECONDS))
        return;
    snprintf(line, sizeof line,
             "%zu done, %zu running, %zu waiting, %.1f of %.1f GiB, about %s left%s%s",
             progress->done_count, running, waiting, (double)event->used_bytes / GIB,
             (double)event->budget_bytes / GIB,
             left_text(af_build_end_time_left(&progress->end_time, event), left),
             waiting > 0 && why[0] != '\0' ? "; waiting " : "", waiting > 0 ? why : "");
    clear(progress);
    if (terminal)
        fprintf(stderr, "%.*s", terminal_columns() - 1,
                line); /* one line, rewritten in place */
    else
        fprintf(stderr, "%s\n", line);
    fflush(stderr);
    progress->line_shown = terminal;
    progress->shown_at = now;
}

/* A line for a compiler that ended, or with a remark. */
static void show_file(struct progress *progress, const struct af_govern_event *event)
{
    static const char *const words[] = {
        [AF_GOVERN_ENDED] = "done",
        [AF_GOVERN_FAILED] = "failed",
        [AF_GOVERN_KILLED] = "killed for lack of memory; will be repeated",
        [AF_GOVERN_STALLED] = "stopped: too little memory to go on; will be repeated",
        [AF_GOVERN_CRASHED] = "ended by a signal; will be repeated",
        [AF_GOVERN_HUNG] = "stopped, it used no processor time; will be repeated"};
    clear(progress);
    if (event->kind == AF_GOVERN_REMARK) {
        fprintf(stderr, "  %s\n", event->remark);
        return;
    }
    fprintf(stderr, "  %-44s %4.0f s  %4.1f GiB  %s\n", event->file->file, event->seconds,
            (double)event->peak_bytes / GIB, words[event->kind]);
}

/* af_build.event, with the progress as its context. */
static void show_event(void *context, const struct af_govern_event *event)
{
    struct progress *progress = context;
    if (event->kind == AF_GOVERN_ENDED) {
        progress->done_count++;
        af_build_end_time_add(&progress->end_time, event);
    }
    if (af_option_given(&progress->cli->options, AF_OPTION_QUIET))
        return;
    if (event->kind == AF_GOVERN_TICK)
        show_progress(progress, event);
    else if (event->kind != AF_GOVERN_STARTED)
        show_file(progress, event);
}

/* "about 3 minutes (8 files, 4 CPU minutes), up to 3.6 GiB per compiler". */
static void view_time(struct af_cli *cli, struct af_screen *screen,
                      const struct af_build_estimate *estimate)
{
    double peak = (double)estimate->peak_bytes / GIB;
    const char *done = estimate->done_count > 0
                           ? af_arena_format(&cli->arena, " of %zu",
                                             estimate->call_count + estimate->done_count)
                           : "";
    if (estimate->call_count == 0)
        af_screen_add(screen, LABEL_COLUMNS, "  takes", AF_TONE_PLAIN,
                      "seconds: all files are already compiled");
    else if (estimate->wall_seconds > 0 && done != NULL)
        af_screen_format(screen, LABEL_COLUMNS, "  takes", AF_TONE_PLAIN,
                         "about %.1f minutes (%zu%s files, %.1f CPU minutes), up to %.1f GiB "
                         "per compiler",
                         estimate->wall_seconds / 60, estimate->call_count, done,
                         estimate->cpu_seconds / 60, peak);
    else
        af_screen_format(
            screen, LABEL_COLUMNS, "  takes", AF_TONE_BAD,
            "one compiler needs %.1f GiB, which is more than the available memory: "
            "it may be killed",
            peak);
}

static void view_estimate(struct af_cli *cli, const struct build *build)
{
    const struct af_build_place *place = &build->place;
    struct af_screen screen = {&cli->out, af_screen_columns(), af_cli_color(cli)};
    af_screen_format(&screen, 0, "", AF_TONE_STRONG, "flash-attn %s for every torch and Python",
                     build->build.version);
    af_screen_add(&screen, LABEL_COLUMNS, "  holds", AF_TONE_PLAIN,
                  af_selection_text(&build->build.selection, &cli->arena));
    af_screen_format(&screen, LABEL_COLUMNS, "  compiler", AF_TONE_PLAIN, "CUDA %s, %s",
                     place->cuda_version,
                     place->cuda_from_index ? "from PyPI" : place->cuda_home);
    view_time(cli, &screen, &build->estimate);
    af_screen_add(&screen, LABEL_COLUMNS, "  in", AF_TONE_PLAIN, place->folder);
}

static void view_result(struct af_cli *cli, const struct build *build)
{
    const struct af_build_result *result = &build->result;
    struct af_screen screen = {&cli->out, af_screen_columns(), af_cli_color(cli)};
    af_screen_gap(&screen);
    if (result->wheel == NULL) {
        af_screen_format(&screen, 0, "", AF_TONE_BAD, "not built: %s", result->reason);
        af_screen_format(&screen, 0, "", AF_TONE_PLAIN, "log: %s", build->place.log);
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
    const struct af_build_estimate *estimate = &build->estimate;
    const struct af_build_result *result = &build->result;
    struct af_selection_total total;
    af_selection_total(&build->build.selection, &total);
    return af_cli_json_take(
        cli,
        json_pack("{s:s, s:s, s:s, s:i, s:s, s:I, s:I, s:f, s:f, s:I, s:s?, s:s?, s:f}",
                  "schema", "anyflash-build/1", "version", build->build.version, "holds",
                  af_selection_local(&build->build.selection, &cli->arena), "kernels",
                  total.kernel_count, "folder", build->place.folder, "files",
                  (json_int_t)(estimate->call_count + estimate->done_count), "compiled",
                  (json_int_t)estimate->done_count, "cpu_seconds", estimate->cpu_seconds,
                  "estimated_seconds", estimate->wall_seconds, "peak_bytes",
                  (json_int_t)estimate->peak_bytes, "wheel", result->wheel, "reason",
                  result->reason, "seconds", result->seconds),
        err);
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
    build->progress = (struct progress){.cli = cli};
    build->build.event = show_event;
    build->build.context = &build->progress;
    if (!dry)
        af_govern_enter_scope(build->build.memory_bytes, NULL);
    enum anyflash_status status = estimate(build, err);
    if (status == ANYFLASH_OK && !json)
        view_estimate(cli, build);
    if (status == ANYFLASH_OK)
        status = af_cli_finish(cli, err);
    if (status == ANYFLASH_OK && !dry && !json) { /* show it before the build */
        fwrite(af_text_get(&cli->out), 1, cli->out.len, stdout);
        fflush(stdout);
        af_text_release(&cli->out);
        cli->out = (struct af_text){0};
    }
    if (status == ANYFLASH_OK && !dry)
        status = af_build_run(&build->build, &build->place, &build->result, err);
    clear(&build->progress);
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
    return af_cli_finish(cli, err);
}

/* ---- what a build needs ---- */

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

/* The answer, then what it is about and each prerequisite. */
static void view_check(struct af_cli *cli, const struct af_build *build,
                       const struct af_build_check *check)
{
    struct af_screen screen = {&cli->out, af_screen_columns(), af_cli_color(cli)};
    if (check->can_start)
        af_screen_add(&screen, 0, "", AF_TONE_GOOD, "ready to build");
    else
        af_screen_format(&screen, 0, "", AF_TONE_BAD, "not ready to build: %zu %s missing",
                         check->missing_count,
                         check->missing_count == 1 ? "prerequisite is" : "prerequisites are");
    if (af_option_given(&cli->options, AF_OPTION_QUIET))
        return;
    af_screen_gap(&screen);
    af_screen_format(&screen, 0, "", AF_TONE_STRONG, "flash-attn %s from source: %s",
                     build->version, af_selection_text(&build->selection, &cli->arena));
    for (size_t i = 0; i < check->row_count; i++)
        view_row(&screen, &check->rows[i], &cli->arena);
}

static enum anyflash_status check_json(struct af_cli *cli, const struct af_build *build,
                                       const struct af_build_check *check,
                                       struct anyflash_error *err)
{
    json_t *list = json_array();
    for (size_t i = 0; i < check->row_count; i++) {
        const struct af_prerequisite *row = &check->rows[i];
        list = af_json_append(list, json_pack("{s:s, s:o, s:o, s:o}", "name", row->name,
                                              "verdict", af_json_answer(row->answer),
                                              "evidence", af_json_text(row->evidence), "fix",
                                              af_json_text(row->fix)));
    }
    return af_cli_json_take(
        cli,
        json_pack("{s:s, s:s, s:o, s:b, s:o}", "schema", "anyflash-build-check/1", "version",
                  build->version, "holds",
                  af_json_text(af_selection_local(&build->selection, &cli->arena)), "can_start",
                  check->can_start, "prerequisites", list),
        err);
}

static enum anyflash_status find_needs(struct build *build, struct af_build_check *check_out,
                                       struct anyflash_error *err)
{
    const struct af_offer_build_needs needs =
        af_offer_build_needs_of(&build->build.selection, slots_of(build), 0,
                                build->build.toolkit != AF_FIT_TOOLKIT_SYSTEM);
    const struct af_build_resources resources = {(int64_t)needs.peak_bytes,
                                                 (int64_t)needs.disk_bytes};
    return af_build_check(&build->build, resources, check_out, err);
}

/* --check: prints the prerequisites; the exit code is NO if one is missing. */
static enum anyflash_status print_check(struct af_cli *cli, const struct af_build *build,
                                        const struct af_build_check *check,
                                        enum af_exit *exit_out, struct anyflash_error *err)
{
    *exit_out = check->can_start ? AF_EXIT_YES : AF_EXIT_NO;
    if (af_option_given(&cli->options, AF_OPTION_JSON))
        return check_json(cli, build, check, err);
    view_check(cli, build, check);
    return af_cli_finish(cli, err);
}

/*
 * Before a build: fails if a prerequisite is missing without which no build is
 * possible; warns about the others.
 */
static enum anyflash_status refuse(struct af_cli *cli, const struct af_build_check *check,
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

/* ---- what builds keep in the cache ---- */

/* A folder of the cache, and what was done with it. */
struct kept {
    const struct af_build_kept *kept;
    const char *done; /* "kept", "removed", "stays" */
    const char *why;  /* why it could not be removed; NULL if it was removed */
};

static void view_kept(struct af_cli *cli, const struct kept *rows, size_t count, bool dry)
{
    struct af_screen screen = {&cli->out, af_screen_columns(), af_cli_color(cli)};
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        const struct af_build_kept *kept = rows[i].kept;
        bytes += rows[i].why == NULL ? kept->bytes : 0;
        af_screen_format(&screen, 2, "", AF_TONE_PLAIN, "%s %s: %s", rows[i].done,
                         af_text_bytes(&cli->arena, (int64_t)kept->bytes), kept->title);
        af_screen_add(&screen, 4, "    ", AF_TONE_DIM,
                      rows[i].why != NULL ? rows[i].why : kept->path);
    }
    if (count == 0)
        af_screen_add(&screen, 0, "", AF_TONE_PLAIN, "the cache has no builds");
    else
        af_screen_format(&screen, 0, "", AF_TONE_STRONG, "%s %s",
                         dry ? "`anyflash build --clean` would free" : "freed",
                         af_text_bytes(&cli->arena, (int64_t)bytes));
}

static enum anyflash_status kept_json(struct af_cli *cli, const struct kept *rows, size_t count,
                                      struct anyflash_error *err)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        const struct af_build_kept *kept = rows[i].kept;
        list = af_json_append(list, json_pack("{s:o, s:s, s:I, s:s, s:o}", "path",
                                              af_json_text(kept->path), "title", kept->title,
                                              "bytes", (json_int_t)kept->bytes, "done",
                                              rows[i].done, "why", af_json_text(rows[i].why)));
    }
    return af_cli_json_take(
        cli, json_pack("{s:s, s:o}", "schema", "anyflash-build-clean/1", "builds", list), err);
}

static void remove_one(struct af_cli *cli, struct kept *row)
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
    struct kept *rows = af_arena_array(&cli->arena, count + 1, sizeof *rows);
    if (rows == NULL)
        return af_fail_memory(err);
    for (size_t i = 0; i < count; i++) {
        rows[i] = (struct kept){&kept[i], "kept", NULL};
        if (!dry)
            remove_one(cli, &rows[i]);
        if (rows[i].why != NULL)
            *exit_out = AF_EXIT_NO;
    }
    if (af_option_given(&cli->options, AF_OPTION_JSON))
        return kept_json(cli, rows, count, err);
    view_kept(cli, rows, count, dry);
    return af_cli_finish(cli, err);
}

/* ---- the command ---- */

static enum anyflash_status work(struct af_cli *cli, struct build *build,
                                 enum af_exit *exit_out, struct anyflash_error *err)
{
    bool checks = af_option_given(&cli->options, AF_OPTION_CHECK);
    bool builds = !checks && !af_option_given(&cli->options, AF_OPTION_DRY_RUN);
    struct af_build_check check;
    enum anyflash_status status = read_options(cli, build, checks, err);
    if (status == ANYFLASH_OK && builds)
        status = check_output(cli, err);
    if (status == ANYFLASH_OK && (checks || builds))
        status = find_needs(build, &check, err);
    if (status == ANYFLASH_OK && checks)
        return print_check(cli, &build->build, &check, exit_out, err);
    if (status == ANYFLASH_OK && builds)
        status = refuse(cli, &check, err);
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
                   : clean(cli, exit_out, err);
    struct build *build = af_arena_alloc(&cli->arena, sizeof *build);
    if (build == NULL)
        return af_fail_memory(err);
    enum anyflash_status status = af_change_open(&build->change, cli, err);
    if (status == ANYFLASH_OK)
        status = work(cli, build, exit_out, err);
    af_change_end(&build->change);
    return status;
}
