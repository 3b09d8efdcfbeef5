/*
 * build_view.c: progress of a build on stderr.
 */
#include "kit/cli/build_view.h"

#include <math.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define GIB 1073741824.0
#define PLAIN_SECONDS 30.0
#define TIME_BYTES 32
#define LINE_BYTES 200

static const char *why_text(enum af_admit_why why)
{
    return why == AF_ADMIT_MEMORY       ? "for memory"
           : why == AF_ADMIT_SLOTS      ? "for a core"
           : why == AF_ADMIT_ALONE_RUNS ? "for the one that must run alone"
           : why == AF_ADMIT_FOR_ALONE  ? "until one can run alone"
                                        : "";
}

/* "3 min", "50 s": rounded up to what can be known. */
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

static void clear(struct af_cli_build_view *view)
{
    if (view->line_shown)
        fprintf(stderr, "\r\033[K");
    view->line_shown = false;
}

static void tell(struct af_cli_build_view *view, const struct af_govern_event *event)
{
    char left[TIME_BYTES];
    char line[LINE_BYTES];
    const char *why = why_text(event->why);
    bool terminal = isatty(STDERR_FILENO) == 1;
    double now = af_govern_now();
    size_t running = 0;
    for (size_t i = 0; i < event->row_count; i++)
        running += event->rows[i].state == AF_ADMIT_RUNNING;
    size_t waiting = event->row_count - running;
    if (event->row_count == 0 || (!terminal && now - view->told < PLAIN_SECONDS))
        return;
    snprintf(line, sizeof line,
             "%zu done, %zu running, %zu waiting, %.1f of %.1f GiB, about %s left%s%s",
             view->done_count, running, waiting, (double)event->used_bytes / GIB,
             (double)event->budget_bytes / GIB,
             left_text(af_build_end_time_left(&view->end_time, event), left),
             waiting > 0 && why[0] != '\0' ? "; waits " : "", waiting > 0 ? why : "");
    clear(view);
    if (terminal)
        fprintf(stderr, "%.*s", terminal_columns() - 1, line); /* one line, to be overwritten */
    else
        fprintf(stderr, "%s\n", line);
    fflush(stderr);
    view->line_shown = terminal;
    view->told = now;
}

/* A file that ended, or that was killed: a line of its own. */
static void tell_file(struct af_cli_build_view *view, const struct af_govern_event *event)
{
    static const char *const words[] = {
        [AF_GOVERN_ENDED] = "done",
        [AF_GOVERN_FAILED] = "failed",
        [AF_GOVERN_KILLED] = "killed: memory was too short; again, alone",
        [AF_GOVERN_STALLED] = "stopped: memory was too short for any to go on; again later",
        [AF_GOVERN_CRASHED] = "ended by a signal; again",
        [AF_GOVERN_HUNG] = "stopped: it used no processor; again"};
    clear(view);
    fprintf(stderr, "  %-44s %4.0f s  %4.1f GiB  %s\n", event->file->file, event->seconds,
            (double)event->peak_bytes / GIB, words[event->kind]);
}

static void tell_remark(struct af_cli_build_view *view, const char *remark)
{
    clear(view);
    fprintf(stderr, "  %s\n", remark);
}

void af_cli_build_view_event(void *context, const struct af_govern_event *event)
{
    struct af_cli_build_view *view = context;
    if (event->file != NULL && event->file->file[0] == '\0')
        return; /* a compiler that was only asked for its version */
    if (event->kind == AF_GOVERN_ENDED) {
        view->done_count++;
        af_build_end_time_add(&view->end_time, event);
    }
    if (af_option_given(&view->cli->options, AF_OPTION_QUIET))
        return;
    if (event->kind == AF_GOVERN_TICK)
        tell(view, event);
    else if (event->kind == AF_GOVERN_REMARK)
        tell_remark(view, event->remark);
    else if (event->kind != AF_GOVERN_STARTED)
        tell_file(view, event);
}

void af_cli_build_view_end(struct af_cli_build_view *view)
{
    clear(view);
}
