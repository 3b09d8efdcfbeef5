/*
 * bench_program.c: the program anyflash-bench, which `anyflash bench` starts. It
 * times the chosen cases, the engine and the peers by turns, prints the row of each case when
 * it is done, and finally writes the JSON.
 */
#include "bench/bench_program.h"

#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "bench/textbook_report.h"
#include "kit/system/output.h"

#define THREADS_MAX 1024
#define CASE_SECONDS 1.2
#define CASE_SECONDS_QUICK 0.3
#define OTHER_CASE_SECONDS 2.4 /* with another build, to which half of it goes */
#define PEERS_CASE_SECONDS 15.0
#define PEERS_CASE_SECONDS_QUICK 3.0
#define PEERS_SECONDS 600.0
#define ROUNDS_MIN 3
#define TEXTBOOK_SECONDS 2.0 /* of one length */
#define TEXTBOOK_SECONDS_QUICK 0.3

static const char usage[] =
    "usage: anyflash-bench [--quick] [--filter WORDS] [--peers PYTHON]... [--compare LIBRARY]\n"
    "                      [--textbook] [--threads N] [--json] [--quiet]\n"
    "The options are those of `anyflash bench`, which starts this program: see\n"
    "`anyflash help bench`.\n";

/* The command line. */
struct options {
    const char *pythons[AF_BENCH_PYTHONS_MAX + 1];
    size_t python_count;
    const char *filter;
    int threads; /* 0: all usable cores */
    bool textbook;
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
    struct af_textbook_report textbook;
    struct af_text out; /* what goes to stdout next */
    const char *hint;   /* hint for the error; NULL: none */
};

static enum anyflash_status read_options(struct bench *bench, int argc, char **argv,
                                         struct anyflash_error *err)
{
    enum { QUICK = 1, TEXTBOOK, FILTER, PEERS, COMPARE, THREADS, JSON, QUIET, HELP };
    static const struct option known[] = {
        {"quick", no_argument, NULL, QUICK},
        {"textbook", no_argument, NULL, TEXTBOOK},
        {"filter", required_argument, NULL, FILTER},
        {"peers", required_argument, NULL, PEERS},
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
        options->textbook = options->textbook || id == TEXTBOOK;
        options->json = options->json || id == JSON;
        options->quiet = options->quiet || id == QUIET;
        options->help = options->help || id == HELP;
        if (id == FILTER)
            options->filter = optarg;
        else if (id == PEERS && options->python_count == AF_BENCH_PYTHONS_MAX)
            return af_fail(err, ANYFLASH_E_ARGUMENT, "--peers can be given at most %d times",
                           AF_BENCH_PYTHONS_MAX);
        else if (id == PEERS)
            options->pythons[options->python_count++] = optarg;
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
    if (options->python_count > 0 && bench->report.other_path != NULL)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "--peers and --compare exclude each other");
    if (options->textbook && (options->python_count > 0 || options->filter != NULL ||
                              bench->report.other_path != NULL))
        return af_fail(err, ANYFLASH_E_ARGUMENT,
                       "--textbook excludes --filter, --peers and --compare");
    options->threads = (int)threads;
    bench->report.pythons = options->python_count > 0 ? options->pythons : NULL;
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

static bool has_peers(const struct af_bench_report *report, size_t i)
{
    return report->pythons != NULL && af_bench_has_peers(report->lines[i].row);
}

/*
 * How many seconds line `i` may take after the lines before it have taken `elapsed`
 * seconds: with peers, an equal share of the rest of 10 minutes, at most 15 s.
 */
static double line_seconds(const struct af_bench_report *report, size_t i, bool quick,
                           double elapsed)
{
    int left = 0;
    if (!has_peers(report, i))
        return quick                        ? CASE_SECONDS_QUICK
               : report->other_path != NULL ? OTHER_CASE_SECONDS
                                            : CASE_SECONDS;
    for (size_t j = i; j < report->count; j++)
        left += has_peers(report, j);
    double share = fmax(0, PEERS_SECONDS - elapsed) / left;
    return fmin(share, quick ? PEERS_CASE_SECONDS_QUICK : PEERS_CASE_SECONDS);
}

static enum anyflash_status prepare_peers(struct af_arena *arena,
                                          struct af_bench_report *report,
                                          struct af_bench_line *line,
                                          struct anyflash_error *err)
{
    enum anyflash_status status = ANYFLASH_OK;
    for (size_t p = 0; p < AF_BENCH_PEER_COUNT && status == ANYFLASH_OK; p++) {
        struct af_bench_peer *peer = &report->peers[p];
        if (peer->version == NULL)
            line->peers[p].decline = "not available";
        else
            status = af_bench_peer_prepare(arena, peer, line->row, report->facts.threads,
                                           &line->timing, &line->peers[p], err);
    }
    return status;
}

/* One turn of each; without peers the engine's only. */
static enum anyflash_status run_round(struct af_arena *arena, struct af_bench_report *report,
                                      struct af_bench_engine *engine,
                                      struct af_bench_line *line, bool with_peers,
                                      struct anyflash_error *err)
{
    enum anyflash_status status = af_bench_engine_sample(engine, &line->timing, err);
    for (size_t p = 0; p < AF_BENCH_PEER_COUNT && with_peers && status == ANYFLASH_OK; p++)
        if (line->peers[p].decline == NULL)
            status = af_bench_peer_sample(arena, &report->peers[p], engine->own.seconds * 1e3,
                                          &line->peers[p], err);
    return status;
}

static enum anyflash_status run_rounds(struct af_arena *arena, struct af_bench_report *report,
                                       size_t i, double seconds, struct af_bench_engine *engine,
                                       struct anyflash_error *err)
{
    struct af_bench_line *line = &report->lines[i];
    const bool with_peers = has_peers(report, i);
    const double end = af_bench_now_seconds() + seconds;
    enum anyflash_status status =
        with_peers ? prepare_peers(arena, report, line, err) : ANYFLASH_OK;
    for (size_t round = 0; status == ANYFLASH_OK && round < AF_BENCH_SAMPLES_MAX; round++) {
        if (round >= ROUNDS_MIN && af_bench_now_seconds() >= end)
            break;
        status = run_round(arena, report, engine, line, with_peers, err);
    }
    return status;
}

/*
 * Times line `i`. In each round the engine and every peer that supports the case take one
 * turn, so that other load on the machine affects all alike. Rounds are repeated until
 * `seconds` have passed, which include preparing the peers; there are at least 3.
 */
static enum anyflash_status measure_line(struct af_arena *arena, struct af_bench_report *report,
                                         size_t i, double seconds, struct anyflash_error *err)
{
    struct af_bench_line *line = &report->lines[i];
    struct af_bench_engine engine;
    const int threads = report->facts.threads;
    enum anyflash_status status = af_bench_engine_prepare(
        line->row, threads, report->other_path != NULL ? &report->other : NULL, &engine,
        &line->timing, err);
    if (status == ANYFLASH_OK)
        status = run_rounds(arena, report, i, seconds, &engine, err);
    af_bench_engine_release(&engine);
    return status;
}

static enum anyflash_status run_cases(struct bench *bench, struct anyflash_error *err)
{
    struct af_bench_report *report = &bench->report;
    const bool is_json = bench->options.json;
    const double start = af_bench_now_seconds();
    enum anyflash_status status = ANYFLASH_OK;
    for (size_t i = 0; i < report->count && status == ANYFLASH_OK; i++) {
        double seconds =
            line_seconds(report, i, bench->options.quick, af_bench_now_seconds() - start);
        show_case(bench, i);
        status = measure_line(&bench->arena, report, i, seconds, err);
        if (status == ANYFLASH_OK && !is_json)
            af_bench_table_line(report, i, &bench->out);
        if (status == ANYFLASH_OK)
            status = flush(bench, err);
    }
    show_progress(bench, NULL);
    return status;
}

/* The peers, the facts and the cases; the text except its last part is printed on the way. */
static enum anyflash_status measure(struct bench *bench, struct anyflash_error *err)
{
    struct af_bench_report *report = &bench->report;
    enum anyflash_status status = ANYFLASH_OK;
    af_bench_facts_read(&bench->arena, bench->options.threads, &report->facts);
    if (report->other_path != NULL)
        status = af_bench_build_load(report->other_path, &report->other, err);
    show_progress(bench, "looking for peers");
    if (status == ANYFLASH_OK && report->pythons != NULL)
        status = af_bench_peers_find(&bench->arena, report->pythons, report->facts.threads,
                                     report->peers, err);
    if (status == ANYFLASH_OK && !bench->options.json)
        af_bench_table_start(report, &bench->out);
    if (status == ANYFLASH_OK)
        status = flush(bench, err);
    if (status == ANYFLASH_OK)
        status = run_cases(bench, err);
    show_progress(bench, NULL);
    af_bench_peers_end(report->peers);
    return status;
}

/* --textbook: the lengths, each printed as soon as it was measured. */
static enum anyflash_status measure_textbook(struct bench *bench, struct anyflash_error *err)
{
    const bool is_quick = bench->options.quick, is_json = bench->options.json;
    struct af_textbook_report *report = &bench->textbook;
    enum anyflash_status status = ANYFLASH_OK;
    af_bench_facts_read(&bench->arena, bench->options.threads, &bench->report.facts);
    af_textbook_start(report, &bench->report.facts);
    if (!is_json) {
        af_bench_table_start(&bench->report, &bench->out);
        af_textbook_table_start(&bench->out);
    }
    while (report->count < (is_quick ? AF_TEXTBOOK_LINES_QUICK : AF_TEXTBOOK_LINES) &&
           status == ANYFLASH_OK) {
        status = flush(bench, err);
        show_progress(bench, "textbook attention and the engine");
        if (status == ANYFLASH_OK)
            status =
                af_textbook_next(&bench->arena, report,
                                 is_quick ? TEXTBOOK_SECONDS_QUICK : TEXTBOOK_SECONDS, err);
        if (status == ANYFLASH_OK && !is_json)
            af_textbook_table_line(report, &bench->out);
    }
    show_progress(bench, NULL);
    return status;
}

/* The JSON, or the last part of the text. */
static enum anyflash_status add_end(struct bench *bench, struct anyflash_error *err)
{
    const bool is_textbook = bench->options.textbook;
    if (bench->options.json)
        return af_json_write_take(is_textbook ? af_textbook_json(&bench->textbook)
                                              : af_bench_json(&bench->report),
                                  &bench->out, err);
    if (is_textbook)
        af_textbook_table_end(&bench->textbook, &bench->out);
    else
        af_bench_table_end(&bench->report, &bench->out);
    return ANYFLASH_OK;
}

static enum anyflash_status run(struct bench *bench, int argc, char **argv,
                                struct anyflash_error *err)
{
    enum anyflash_status status = read_options(bench, argc, argv, err);
    if (status == ANYFLASH_OK && bench->options.help) {
        fputs(usage, stdout);
        return ANYFLASH_OK;
    }
    if (status == ANYFLASH_OK && !bench->options.textbook)
        status = choose_cases(bench, err);
    if (status == ANYFLASH_OK)
        status = bench->options.textbook ? measure_textbook(bench, err) : measure(bench, err);
    if (status == ANYFLASH_OK)
        status = add_end(bench, err);
    return status == ANYFLASH_OK ? flush(bench, err) : status;
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
