/*
 * bench_program.c: the program anyflash-bench, which `anyflash bench` starts. It
 * times the chosen cases, prints the row of each case when it is done, and finally writes the
 * JSON.
 *
 * With --turns another program decides when the engine runs, so that it can take turns with
 * other libraries. Each line on stdin is answered with one line of JSON. "turn" takes one
 * sample; the answer is `milliseconds`. "next" goes on to the next case, which is the answer
 * (af_bench_json_case()); after the last case the answer is the `report`. A case without any
 * turn is timed as it is without --turns.
 */
#include "bench/bench_program.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench/report.h"
#include "kit/system/output.h"

#define THREADS_MAX 1024
#define CASE_SECONDS 1.2
#define CASE_SECONDS_QUICK 0.3
#define OTHER_CASE_SECONDS 2.4 /* with another build, to which half of it goes */
#define ROUNDS_MIN 3
#define ORDER_BYTES 16

static const char usage[] =
    "usage: anyflash-bench [--quick] [--filter WORDS] [--compare LIBRARY] [--threads N]\n"
    "                      [--json] [--quiet] [--turns]\n"
    "The options are those of `anyflash bench`, which starts this program: see\n"
    "`anyflash help bench`. --turns is for bench/compare_peers.py.\n";

/* The command line. */
struct options {
    const char *filter;
    int threads; /* 0: all usable cores */
    bool turns;
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
    struct af_text out; /* what goes to stdout next */
    const char *hint;   /* hint for the error; NULL: none */
};

static enum anyflash_status read_options(struct bench *bench, int argc, char **argv,
                                         struct anyflash_error *err)
{
    enum { QUICK = 1, TURNS, FILTER, COMPARE, THREADS, JSON, QUIET, HELP };
    static const struct option known[] = {
        {"quick", no_argument, NULL, QUICK},
        {"turns", no_argument, NULL, TURNS},
        {"filter", required_argument, NULL, FILTER},
        {"compare", required_argument, NULL, COMPARE},
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
        options->turns = options->turns || id == TURNS;
        options->json = options->json || id == JSON;
        options->quiet = options->quiet || id == QUIET;
        options->help = options->help || id == HELP;
        if (id == FILTER)
            options->filter = optarg;
        else if (id == COMPARE)
            bench->report.other_path = optarg;
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

/* On a terminal: what is being done, on a line that is overwritten; NULL clears it. */
static void show_progress(const struct bench *bench, const char *text)
{
    if (isatty(STDERR_FILENO) != 1 || bench->options.quiet)
        return;
    fprintf(stderr, text != NULL ? "\r%-70s" : "\r%70s\r", text != NULL ? text : "");
}

static void show_case(const struct bench *bench, size_t i)
{
    const struct af_bench_report *report = &bench->report;
    char shape[AF_BENCH_NAME_BYTES], text[AF_BENCH_NAME_BYTES + 64];
    af_bench_shape(report->lines[i].row, shape);
    snprintf(text, sizeof text, "%zu of %zu: %s %s", i + 1, report->count,
             af_bench_operation_text(report->lines[i].row->operation), shape);
    show_progress(bench, text);
}

/* Writes what is in `out` to stdout. */
static enum anyflash_status flush(struct bench *bench, struct anyflash_error *err)
{
    struct af_text *out = &bench->out;
    show_progress(bench, NULL);
    if (fwrite(af_text_get(out), 1, out->len, stdout) != out->len || fflush(stdout) != 0)
        return af_fail(err, ANYFLASH_E_IO, "cannot write to standard output");
    af_text_release(out);
    return ANYFLASH_OK;
}

/* Reads the next order of --turns: whether it is "turn". */
static bool is_turn_asked(void)
{
    char order[ORDER_BYTES];
    return fgets(order, sizeof order, stdin) != NULL && strcmp(order, "turn\n") == 0;
}

/* Writes one line of JSON to stdout. Takes ownership of `json`. */
static enum anyflash_status answer(struct bench *bench, json_t *json,
                                   struct anyflash_error *err)
{
    char *line = json_dumps(json, JSON_COMPACT);
    json_decref(json);
    af_text_format(&bench->out, "%s\n", line);
    af_memory_free(line);
    return flush(bench, err);
}

/* --turns: a sample for each "turn". */
static enum anyflash_status take_turns(struct bench *bench, struct af_bench_engine *engine,
                                       struct af_bench_line *line, struct anyflash_error *err)
{
    enum anyflash_status status = ANYFLASH_OK;
    while (status == ANYFLASH_OK && is_turn_asked()) {
        status = af_bench_engine_sample(engine, &line->timing, err);
        if (status == ANYFLASH_OK)
            status = answer(bench,
                            json_pack("{s:f}", "milliseconds", engine->own.seconds * 1e3), err);
    }
    return status;
}

static double seconds_of_case(const struct bench *bench)
{
    return bench->options.quick               ? CASE_SECONDS_QUICK
           : bench->report.other_path != NULL ? OTHER_CASE_SECONDS
                                              : CASE_SECONDS;
}

/* Samples until the time of a case has passed; there are at least ROUNDS_MIN. */
static enum anyflash_status take_samples(const struct bench *bench,
                                         struct af_bench_engine *engine,
                                         struct af_bench_line *line, struct anyflash_error *err)
{
    const double end = af_bench_now_seconds() + seconds_of_case(bench);
    enum anyflash_status status = ANYFLASH_OK;
    for (size_t round = 0; status == ANYFLASH_OK && round < AF_BENCH_SAMPLES_MAX; round++) {
        if (round >= ROUNDS_MIN && af_bench_now_seconds() >= end)
            break;
        status = af_bench_engine_sample(engine, &line->timing, err);
    }
    return status;
}

static enum anyflash_status measure_line(struct bench *bench, size_t i,
                                         struct anyflash_error *err)
{
    struct af_bench_report *report = &bench->report;
    struct af_bench_line *line = &report->lines[i];
    struct af_bench_engine engine;
    enum anyflash_status status = af_bench_engine_prepare(
        line->row, report->facts.threads, report->other_path != NULL ? &report->other : NULL,
        &engine, &line->timing, err);
    if (status == ANYFLASH_OK && bench->options.turns)
        status = answer(bench, af_bench_json_case(report, i), err);
    if (status == ANYFLASH_OK && bench->options.turns)
        status = take_turns(bench, &engine, line, err);
    if (status == ANYFLASH_OK && line->timing.ms.count == 0)
        status = take_samples(bench, &engine, line, err);
    af_bench_engine_release(&engine);
    return status;
}

static bool shows_table(const struct bench *bench)
{
    return !bench->options.json && !bench->options.turns;
}

static enum anyflash_status run_cases(struct bench *bench, struct anyflash_error *err)
{
    struct af_bench_report *report = &bench->report;
    enum anyflash_status status = ANYFLASH_OK;
    for (size_t i = 0; i < report->count && status == ANYFLASH_OK; i++) {
        show_case(bench, i);
        status = measure_line(bench, i, err);
        if (status == ANYFLASH_OK && shows_table(bench))
            af_bench_table_line(report, i, &bench->out);
        if (status == ANYFLASH_OK)
            status = flush(bench, err);
    }
    return status;
}

/* What is known before the first case. */
static enum anyflash_status begin(struct bench *bench, struct anyflash_error *err)
{
    struct af_bench_report *report = &bench->report;
    af_bench_facts_read(&bench->arena, bench->options.threads, &report->facts);
    if (report->other_path != NULL &&
        af_bench_build_load(report->other_path, &report->other, err) != ANYFLASH_OK)
        return err->status;
    if (shows_table(bench))
        af_bench_table_start(report, &bench->out);
    if (!bench->options.turns)
        return flush(bench, err);
    enum anyflash_status status = answer(
        bench, json_pack("{s:o}", "machine", af_bench_json_machine(&report->facts)), err);
    (void)is_turn_asked(); /* the first case is asked for, too */
    return status;
}

/* The JSON, or the last part of the text. */
static enum anyflash_status end(struct bench *bench, struct anyflash_error *err)
{
    if (bench->options.turns)
        return answer(bench, json_pack("{s:o}", "report", af_bench_json(&bench->report)), err);
    if (!bench->options.json) {
        af_bench_table_end(&bench->report, &bench->out);
        return flush(bench, err);
    }
    enum anyflash_status status =
        af_json_write_take(af_bench_json(&bench->report), &bench->out, err);
    return status == ANYFLASH_OK ? flush(bench, err) : status;
}

static enum anyflash_status run(struct bench *bench, int argc, char **argv,
                                struct anyflash_error *err)
{
    enum anyflash_status status = read_options(bench, argc, argv, err);
    if (status == ANYFLASH_OK && bench->options.help) {
        fputs(usage, stdout);
        return ANYFLASH_OK;
    }
    if (status == ANYFLASH_OK)
        status = choose_cases(bench, err);
    if (status == ANYFLASH_OK)
        status = begin(bench, err);
    if (status == ANYFLASH_OK)
        status = run_cases(bench, err);
    return status == ANYFLASH_OK ? end(bench, err) : status;
}

int af_bench_program(int argc, char **argv)
{
    struct bench bench = {0};
    struct anyflash_error err = {ANYFLASH_OK, ""};
    af_json_start();
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
