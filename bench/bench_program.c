/*
 * bench_program.c: the program anyflash-bench, which `anyflash bench` starts:
 * selects the cases, times each with the engine and then with the other
 * libraries, and writes table, JSON and chart.
 */
#include "bench/bench_program.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench/report.h"
#include "kit/system/output.h"

/* Seconds of samples per case. */
#define CASE_SECONDS 1.2
#define CASE_SECONDS_QUICK 0.3
#define PEER_SECONDS 0.6
#define THREADS_MAX 1024

static const char usage[] =
    "usage: anyflash-bench [--quick] [--filter WORDS] [--peers PYTHON] [--chart FILE]\n"
    "                      [--threads N] [--json] [--quiet]\n"
    "The options are those of `anyflash bench`, which starts this program: see\n"
    "`anyflash help bench`.\n";

/* The command line. */
struct options {
    const char *filter;
    const char *chart;
    int threads; /* 0: all usable cores */
    bool quick;
    bool json;
    bool quiet;
    bool help;
};

/* One run of the program. */
struct bench {
    struct af_arena arena;
    struct options options;
    struct af_bench_report report;
    struct af_text out; /* all of stdout */
    const char *hint;   /* hint for the error; NULL: none */
};

static enum anyflash_status read_options(struct bench *bench, int argc, char **argv,
                                         struct anyflash_error *err)
{
    enum { QUICK = 1, FILTER, PEERS, CHART, THREADS, JSON, QUIET, HELP };
    static const struct option known[] = {
        {"quick", no_argument, NULL, QUICK},
        {"filter", required_argument, NULL, FILTER},
        {"peers", required_argument, NULL, PEERS},
        {"chart", required_argument, NULL, CHART},
        {"threads", required_argument, NULL, THREADS},
        {"json", no_argument, NULL, JSON},
        {"quiet", no_argument, NULL, QUIET},
        {"help", no_argument, NULL, HELP},
        {NULL, 0, NULL, 0},
    };
    struct options *options = &bench->options;
    int64_t threads = 0;
    bench->hint = "`anyflash-bench --help` lists the options";
    optind = 0;
    opterr = 0;
    for (int id = 0; (id = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        options->quick = options->quick || id == QUICK;
        options->json = options->json || id == JSON;
        options->quiet = options->quiet || id == QUIET;
        options->help = options->help || id == HELP;
        if (id == FILTER)
            options->filter = optarg;
        else if (id == PEERS)
            bench->report.python = optarg;
        else if (id == CHART)
            options->chart = optarg;
        else if (id == THREADS && !af_parse_i64(optarg, 1, THREADS_MAX, &threads))
            return af_fail(err, ANYFLASH_E_ARGUMENT, "--threads takes a number from 1 to %d",
                           THREADS_MAX);
        else if (id == '?')
            return af_fail(err, ANYFLASH_E_ARGUMENT,
                           "an option is unknown or lacks its argument");
    }
    if (optind < argc)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "anyflash-bench takes options only");
    options->threads = (int)threads;
    bench->hint = NULL;
    return ANYFLASH_OK;
}

static enum anyflash_status choose_cases(struct bench *bench, struct anyflash_error *err)
{
    struct af_bench_report *report = &bench->report;
    size_t count = 0;
    const struct af_bench_case *rows = af_bench_cases(&count);
    report->lines = af_arena_array(&bench->arena, count, sizeof *report->lines);
    if (report->lines == NULL)
        return af_fail_memory(err);
    for (size_t i = 0; i < count; i++)
        if ((rows[i].quick || !bench->options.quick) && af_bench_can_run(&rows[i]) &&
            af_bench_matches(&rows[i], bench->options.filter))
            report->lines[report->count++].row = &rows[i];
    if (report->count == 0) {
        bench->hint = "shapes are named like this: forward f32 H16 S2048 D64 "
                      "causal";
        return af_fail(err, ANYFLASH_E_ARGUMENT,
                       "no shape matches --filter: its words must all occur in the name");
    }
    return ANYFLASH_OK;
}

/* On a terminal: the current case, on a line that is overwritten. */
static void show_progress(const struct bench *bench, size_t i)
{
    const struct af_bench_report *report = &bench->report;
    char shape[AF_BENCH_NAME_BYTES] = "";
    if (isatty(STDERR_FILENO) != 1 || bench->options.quiet)
        return;
    if (i == report->count) {
        fprintf(stderr, "\r%60s\r", "");
        return;
    }
    af_bench_shape(report->lines[i].row, shape);
    fprintf(stderr, "\r%zu of %zu: %s %-30s", i + 1, report->count,
            af_bench_operation_text(report->lines[i].row->operation), shape);
}

static enum anyflash_status ask_peers(struct bench *bench, struct af_bench_line *line,
                                      struct anyflash_error *err)
{
    const struct af_bench_report *report = &bench->report;
    enum anyflash_status status = ANYFLASH_OK;
    bool is_asked = report->python != NULL && af_bench_has_peers(line->row);
    for (size_t i = 0; i < AF_BENCH_PEER_COUNT && status == ANYFLASH_OK; i++)
        if (is_asked && report->peers[i].version != NULL)
            status = af_bench_peer_measure(&bench->arena, report->python, &report->peers[i],
                                           line->row, report->facts.threads, PEER_SECONDS,
                                           &line->timing, &line->peers[i], err);
    return status;
}

static enum anyflash_status run_case(struct bench *bench, struct af_bench_line *line,
                                     struct anyflash_error *err)
{
    const int threads = bench->report.facts.threads;
    if (line->row->operation == AF_BENCH_MEMORY)
        return af_bench_measure_memory(&bench->arena, line->row, threads, &line->memory, err);
    enum anyflash_status status = af_bench_measure(
        line->row, threads, bench->options.quick ? CASE_SECONDS_QUICK : CASE_SECONDS,
        &line->timing, err);
    return status == ANYFLASH_OK ? ask_peers(bench, line, err) : status;
}

static enum anyflash_status run_cases(struct bench *bench, struct anyflash_error *err)
{
    enum anyflash_status status = ANYFLASH_OK;
    for (size_t i = 0; i < bench->report.count && status == ANYFLASH_OK; i++) {
        show_progress(bench, i);
        status = run_case(bench, &bench->report.lines[i], err);
    }
    show_progress(bench, bench->report.count);
    return status;
}

static enum anyflash_status write_chart(struct bench *bench, struct anyflash_error *err)
{
    struct af_text chart = {0};
    if (bench->options.chart == NULL)
        return ANYFLASH_OK;
    af_bench_svg(&bench->report, &chart);
    enum anyflash_status status =
        chart.failed
            ? af_fail_memory(err)
            : af_file_write_text(&bench->arena, bench->options.chart, af_text_get(&chart), err);
    af_text_release(&chart);
    return status;
}

static enum anyflash_status print(struct bench *bench, struct anyflash_error *err)
{
    enum anyflash_status status = ANYFLASH_OK;
    if (bench->options.json)
        status = af_json_write_take(af_bench_json(&bench->report), &bench->out, err);
    else
        af_bench_table(&bench->report, &bench->out);
    if (status == ANYFLASH_OK && (bench->arena.failed || bench->out.failed))
        status = af_fail_memory(err);
    if (status == ANYFLASH_OK &&
        (fwrite(bench->out.data, 1, bench->out.len, stdout) != bench->out.len ||
         fflush(stdout) != 0))
        status = af_fail(err, ANYFLASH_E_IO, "cannot write to standard output");
    return status;
}

static enum anyflash_status run(struct bench *bench, int argc, char **argv,
                                struct anyflash_error *err)
{
    struct af_bench_report *report = &bench->report;
    enum anyflash_status status = read_options(bench, argc, argv, err);
    if (status == ANYFLASH_OK && bench->options.help) {
        fputs(usage, stdout);
        return ANYFLASH_OK;
    }
    if (status == ANYFLASH_OK)
        status = choose_cases(bench, err);
    if (status == ANYFLASH_OK && report->python != NULL)
        status = af_bench_peers_find(&bench->arena, report->python, report->peers, err);
    if (status != ANYFLASH_OK)
        return status;
    af_bench_facts_read(&bench->arena, bench->options.threads, &report->facts);
    status = run_cases(bench, err);
    if (status == ANYFLASH_OK)
        status = write_chart(bench, err);
    return status == ANYFLASH_OK ? print(bench, err) : status;
}

int af_bench_program(int argc, char **argv)
{
    struct bench bench = {0};
    struct anyflash_error err = {ANYFLASH_OK, ""};
    af_arena_init(&bench.arena);
    enum anyflash_status status = run(&bench, argc, argv, &err);
    if (status != ANYFLASH_OK) {
        fprintf(stderr, "error: %s\n", err.message);
        if (bench.hint != NULL)
            fprintf(stderr, "hint: %s\n", bench.hint);
    }
    af_text_release(&bench.out);
    af_arena_release(&bench.arena);
    return status == ANYFLASH_OK           ? 0
           : status == ANYFLASH_E_ARGUMENT ? 2
           : status == ANYFLASH_E_INTERNAL ? 4
                                           : 3;
}
