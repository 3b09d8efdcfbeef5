/*
 * build_view.c: prints builds, their prerequisites and the kept builds as text
 * and JSON.
 */
#include "kit/cli/build_view.h"

#include <math.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "kit/base/json.h"
#include "kit/cli/screen.h"

#define GIB 1073741824.0
#define LABEL_COLUMNS 14
#define NAME_COLUMNS 19
#define EVIDENCE_COLUMNS 28
#define PLAIN_SECONDS 30.0
#define TIME_BYTES 32
#define LINE_BYTES 200

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

void af_cli_build_view_estimate(struct af_cli *cli, const struct af_build *build,
                                const struct af_build_place *place,
                                const struct af_build_estimate *estimate)
{
    struct af_screen screen = {&cli->out, af_screen_columns(), af_cli_color(cli)};
    af_screen_format(&screen, 0, "", AF_TONE_STRONG, "flash-attn %s for every torch and Python",
                     build->version);
    af_screen_add(&screen, LABEL_COLUMNS, "  holds", AF_TONE_PLAIN,
                  af_selection_text(&build->selection, &cli->arena));
    af_screen_format(&screen, LABEL_COLUMNS, "  compiler", AF_TONE_PLAIN, "CUDA %s, %s",
                     place->cuda_version,
                     place->cuda_from_index ? "from PyPI" : place->cuda_home);
    view_time(cli, &screen, estimate);
    af_screen_add(&screen, LABEL_COLUMNS, "  in", AF_TONE_PLAIN, place->folder);
}

void af_cli_build_view_result(struct af_cli *cli, const struct af_build_place *place,
                              const struct af_build_result *result)
{
    struct af_screen screen = {&cli->out, af_screen_columns(), af_cli_color(cli)};
    af_screen_gap(&screen);
    if (result->wheel == NULL) {
        af_screen_format(&screen, 0, "", AF_TONE_BAD, "not built: %s", result->reason);
        af_screen_format(&screen, 0, "", AF_TONE_PLAIN, "log: %s", place->log);
        return;
    }
    const char *words[] = {result->wheel, NULL};
    af_screen_format(&screen, 0, "", AF_TONE_GOOD, "built in %.1f minutes",
                     result->seconds / 60);
    af_screen_command(&screen, 2, AF_SHELL_POSIX,
                      af_cli_next_command(cli, AF_COMMAND_INSTALL, words));
}

enum anyflash_status af_cli_build_result_json(struct af_cli *cli, const struct af_build *build,
                                              const struct af_build_place *place,
                                              const struct af_build_estimate *estimate,
                                              const struct af_build_result *result,
                                              struct anyflash_error *err)
{
    struct af_selection_total total;
    af_selection_total(&build->selection, &total);
    return af_cli_json_take(
        cli,
        json_pack("{s:s, s:s, s:s, s:i, s:s, s:I, s:I, s:f, s:f, s:I, s:s?, s:s?, s:f}",
                  "schema", "anyflash-build/1", "version", build->version, "holds",
                  af_selection_local(&build->selection, &cli->arena), "kernels",
                  total.kernel_count, "folder", place->folder, "files",
                  (json_int_t)(estimate->call_count + estimate->done_count), "compiled",
                  (json_int_t)estimate->done_count, "cpu_seconds", estimate->cpu_seconds,
                  "estimated_seconds", estimate->wall_seconds, "peak_bytes",
                  (json_int_t)estimate->peak_bytes, "wheel", result->wheel, "reason",
                  result->reason, "seconds", result->seconds),
        err);
}

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

static void clear(struct af_cli_build_progress *progress)
{
    if (progress->line_shown)
        fprintf(stderr, "\r\033[K");
    progress->line_shown = false;
}

static void show_progress(struct af_cli_build_progress *progress,
                          const struct af_govern_event *event)
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

/* A line for a compiler that ended. */
static void show_file(struct af_cli_build_progress *progress,
                      const struct af_govern_event *event)
{
    static const char *const words[] = {
        [AF_GOVERN_ENDED] = "done",
        [AF_GOVERN_FAILED] = "failed",
        [AF_GOVERN_KILLED] = "killed for lack of memory; will be repeated",
        [AF_GOVERN_STALLED] = "stopped: too little memory to go on; will be repeated",
        [AF_GOVERN_CRASHED] = "ended by a signal; will be repeated",
        [AF_GOVERN_HUNG] = "stopped, it used no processor time; will be repeated"};
    clear(progress);
    fprintf(stderr, "  %-44s %4.0f s  %4.1f GiB  %s\n", event->file->file, event->seconds,
            (double)event->peak_bytes / GIB, words[event->kind]);
}

static void show_remark(struct af_cli_build_progress *progress, const char *remark)
{
    clear(progress);
    fprintf(stderr, "  %s\n", remark);
}

void af_cli_build_view_event(void *context, const struct af_govern_event *event)
{
    struct af_cli_build_progress *progress = context;
    if (event->kind == AF_GOVERN_ENDED) {
        progress->done_count++;
        af_build_end_time_add(&progress->end_time, event);
    }
    if (af_option_given(&progress->cli->options, AF_OPTION_QUIET))
        return;
    if (event->kind == AF_GOVERN_TICK)
        show_progress(progress, event);
    else if (event->kind == AF_GOVERN_REMARK)
        show_remark(progress, event->remark);
    else if (event->kind != AF_GOVERN_STARTED)
        show_file(progress, event);
}

void af_cli_build_view_end(struct af_cli_build_progress *progress)
{
    clear(progress);
}

const char *af_cli_build_row_text(struct af_arena *arena, const struct af_prerequisite *row)
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
                     af_cli_build_row_text(arena, row), row->fix != NULL ? "\nto do: " : "",
                     row->fix != NULL ? row->fix : "");
}

/* The answer, then what it is about and each prerequisite. */
void af_cli_build_view_check(struct af_cli *cli, const struct af_build *build,
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

enum anyflash_status af_cli_build_check_json(struct af_cli *cli, const struct af_build *build,
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

void af_cli_build_view_kept(struct af_cli *cli, const struct af_cli_build_kept *rows,
                            size_t count, bool dry)
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

enum anyflash_status af_cli_build_kept_json(struct af_cli *cli,
                                            const struct af_cli_build_kept *rows, size_t count,
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
