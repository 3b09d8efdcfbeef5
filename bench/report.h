/*
 * report.h: all that one `anyflash bench` found, and as JSON and as a chart.
 */
#ifndef AF_BENCH_REPORT_H
#define AF_BENCH_REPORT_H

#include "bench/bench_host.h"
#include "bench/measure.h"
#include "bench/peers.h"
#include "kit/base/json.h"
#include "kit/base/text.h"

struct af_bench_line {
    const struct af_bench_case *row;
    struct af_bench_timing timing; /* not of MEMORY */
    struct af_bench_memory memory; /* of MEMORY only */
    struct af_bench_peer_timing peers[AF_BENCH_PEER_COUNT];
};

struct af_bench_report {
    struct af_bench_facts facts;
    const char *python; /* NULL: no peers were asked for */
    struct af_bench_peer peers[AF_BENCH_PEER_COUNT];
    struct af_bench_line *lines;
    size_t count;
};

/* Medians: milliseconds of a run, and the part of the roof (1 is the roof). */
double af_bench_line_ms(const struct af_bench_line *line);
double af_bench_line_part(const struct af_bench_line *line);

/* Billions of operations or bytes a second at the median. */
double af_bench_line_rate(const struct af_bench_line *line);

/* How many times as long peer `i` takes; 0 when it gave no answer. */
double af_bench_line_ratio(const struct af_bench_line *line, size_t i);

/* The same of the fastest peer whose results agree; 0 when there is none. */
double af_bench_line_best_ratio(const struct af_bench_line *line);

/* Microseconds of a call beyond a plain read of its keys and values. */
double af_bench_line_overhead_us(const struct af_bench_line *line);

/* Whether a heading stands above line `i`: operation or level are new. */
bool af_bench_starts_group(const struct af_bench_report *report, size_t i);

/* The report for people; sticky failure of `out` only. */
void af_bench_table(const struct af_bench_report *report, struct af_text *out);

/* anyflash-bench/1, or NULL without memory. */
json_t *af_bench_json(const struct af_bench_report *report);

/*
 * A bar for each case, as long as the part of the roof it reached, and thin
 * bars for the peers on the same scale. A whole SVG document; sticky failure of
 * `out` only.
 */
void af_bench_svg(const struct af_bench_report *report, struct af_text *out);

#endif
