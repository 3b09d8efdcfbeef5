/*
 * cmd_bench.c: `anyflash bench`: chooses the cases, times each with the engine
 * and then with the peers, and writes table, JSON and chart.
 */
#include <stdio.h>
#include <unistd.h>

#include "bench/report.h"
#include "kit/cli/bench_table.h"
#include "kit/cli/commands.h"
#include "kit/cli/numbers.h"
#include "kit/system/output.h"

/* Seconds of samples for each case. */
#define CASE_SECONDS 1.2
#define CASE_SECONDS_QUICK 0.3
#define PEER_SECONDS 0.6

static enum anyflash_status choose_cases(struct af_cli *cli, struct af_bench_report *report,
                                         struct anyflash_error *err)
{
    size_t count = 0;
    const struct af_bench_case *rows = af_bench_cases(&count);
    const char *filter = cli->options.values[AF_OPTION_FILTER];
    bool quick = af_option_given(&cli->options, AF_OPTION_QUICK);
    report->lines = af_arena_array(&cli->arena, count, sizeof *report->lines);
    if (report->lines == NULL)
        return af_fail_memory(err);
    for (size_t i = 0; i < count; i++)
        if ((rows[i].quick || !quick) && af_bench_can_run(&rows[i]) &&
            af_bench_matches(&rows[i], filter))
            report->lines[report->count++].row = &rows[i];
    if (report->count == 0) {
        cli->hint = "words of a case are as in: forward f32 H16 S2048 D64 causal";
        return af_fail(err, ANYFLASH_E_ARGUMENT, "no case has all words of --filter");
    }
    return ANYFLASH_OK;
}

/* On a terminal: which case it is at, on a line that is overwritten. */
static void show_progress(const struct af_cli *cli, const struct af_bench_report *report,
                          size_t i)
{
    char shape[AF_BENCH_NAME_BYTES] = "";
    if (isatty(STDERR_FILENO) != 1 || af_option_given(&cli->options, AF_OPTION_QUIET))
        return;
    if (i == report->count) {
        fprintf(stderr, "\r%60s\r", "");
        return;
    }
    af_bench_shape(report->lines[i].row, shape);
    fprintf(stderr, "\r%zu of %zu: %s %-30s", i + 1, report->count,
            af_bench_operation_text(report->lines[i].row->operation), shape);
}

static enum anyflash_status ask_peers(struct af_cli *cli, const struct af_bench_report *report,
                                      struct af_bench_line *line, struct anyflash_error *err)
{
    enum anyflash_status status = ANYFLASH_OK;
    bool is_asked = report->python != NULL && af_bench_has_peers(line->row);
    for (size_t i = 0; i < AF_BENCH_PEER_COUNT && status == ANYFLASH_OK; i++)
        if (is_asked && report->peers[i].version != NULL)
            status = af_bench_peer_measure(&cli->arena, report->python, &report->peers[i],
                                           line->row, report->facts.threads, PEER_SECONDS,
                                           &line->timing, &line->peers[i], err);
    return status;
}

static enum anyflash_status run_cases(struct af_cli *cli, struct af_bench_report *report,
                                      struct anyflash_error *err)
{
    double seconds =
        af_option_given(&cli->options, AF_OPTION_QUICK) ? CASE_SECONDS_QUICK : CASE_SECONDS;
    enum anyflash_status status = ANYFLASH_OK;
    for (size_t i = 0; i < report->count && status == ANYFLASH_OK; i++) {
        struct af_bench_line *line = &report->lines[i];
        show_progress(cli, report, i);
        if (line->row->operation == AF_BENCH_MEMORY) {
            status = af_bench_measure_memory(&cli->arena, line->row, report->facts.threads,
                                             &line->memory, err);
            continue;
        }
        status =
            af_bench_measure(line->row, report->facts.threads, seconds, &line->timing, err);
        if (status == ANYFLASH_OK)
            status = ask_peers(cli, report, line, err);
    }
    show_progress(cli, report, report->count);
    return status;
}

static enum anyflash_status write_svg(struct af_cli *cli, const struct af_bench_report *report,
                                      struct anyflash_error *err)
{
    const char *path = cli->options.values[AF_OPTION_SVG];
    struct af_text chart = {0};
    if (path == NULL)
        return ANYFLASH_OK;
    af_bench_svg(report, &chart);
    const struct af_span piece = {chart.data, chart.len};
    enum anyflash_status status =
        chart.failed ? af_fail_memory(err) : af_file_write(&cli->arena, path, &piece, 1, err);
    af_text_release(&chart);
    return status;
}

static enum anyflash_status answer(struct af_cli *cli, const struct af_bench_report *report,
                                   struct anyflash_error *err)
{
    struct af_page page = {&cli->out, af_page_columns(), af_cli_color(cli)};
    enum anyflash_status status = write_svg(cli, report, err);
    if (status != ANYFLASH_OK)
        return status;
    if (af_option_given(&cli->options, AF_OPTION_JSON))
        return af_cli_json_take(cli, af_bench_json(report), err);
    af_cli_bench_table(report, &page);
    return af_cli_finish(cli, err);
}

enum anyflash_status af_cmd_bench(struct af_cli *cli, enum af_exit *exit_out,
                                  struct anyflash_error *err)
{
    (void)exit_out;
    struct af_bench_report report = {.python = cli->options.values[AF_OPTION_PEERS]};
    int32_t threads = 0;
    enum anyflash_status status = af_option_threads(cli, &threads, err);
    if (status == ANYFLASH_OK)
        status = choose_cases(cli, &report, err);
    if (status == ANYFLASH_OK && report.python != NULL)
        status = af_bench_peers_find(&cli->arena, report.python, report.peers, err);
    af_bench_facts_read(&cli->arena, threads, &report.facts);
    if (status == ANYFLASH_OK)
        status = run_cases(cli, &report, err);
    return status == ANYFLASH_OK ? answer(cli, &report, err) : status;
}
