/*
 * report.h: all results of one `anyflash bench`, and their output as text, JSON
 * and a chart.
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
    struct af_bench_timing timing;
    struct af_bench_peer_timing peers[AF_BENCH_PEER_COUNT];
};

struct af_bench_report {
    struct af_bench_facts facts;
    const char *other_path; /* of the library that has `other`; NULL: none was requested */
    struct af_bench_build other;
    const char *const *pythons; /* NULL-terminated; NULL: no other libraries were requested */
    struct af_bench_peer peers[AF_BENCH_PEER_COUNT];
    struct af_bench_line *lines;
    size_t count;
};

/* Medians: milliseconds per run, and the fraction of the roofline (1 is the roofline). */
double af_bench_line_ms(const struct af_bench_line *line);
double af_bench_line_part(const struct af_bench_line *line);

/* Median billions of operations or bytes per second. */
double af_bench_line_rate(const struct af_bench_line *line);

/*
 * Run time of peer `i` relative to the engine: the median of the ratios of each
 * round, because speed changes from round to round on a shared machine, for both
 * alike. 0 without a result.
 */
double af_bench_line_ratio(const struct af_bench_line *line, size_t i);

/* The same for the fastest peer whose results agree; 0 when there is none. */
double af_bench_line_best_ratio(const struct af_bench_line *line);

/* Microseconds of a call beyond a plain read of its keys and values. */
double af_bench_line_overhead_us(const struct af_bench_line *line);

/* Whether line `i` gets a heading because its operation or level is new. */
bool af_bench_starts_group(const struct af_bench_report *report, size_t i);

/*
 * The report as text, in parts, so that each can be printed as soon as it is
 * known: the machine; one line for each case, as it ends; the rest. With peers
 * the lines have ratios, and the engine's own figures come with the rest. Only
 * `out` can fail.
 */
void af_bench_table_start(const struct af_bench_report *report, struct af_text *out);
void af_bench_table_line(const struct af_bench_report *report, size_t i, struct af_text *out);
void af_bench_table_end(const struct af_bench_report *report, struct af_text *out);

/* Adds `label` and a formatted text, wrapped and indented by `indent` columns. */
void af_bench_wrap(struct af_text *out, int indent, const char *label, const char *format, ...)
    AF_PRINTF(4, 5);

/* Appends `item`; NULL when memory runs out. Takes ownership of both. */
json_t *af_bench_json_append(json_t *list, json_t *item);

/* The member "machine". */
json_t *af_bench_json_machine(const struct af_bench_facts *facts);

/* JSON of schema anyflash-bench/1; NULL when memory runs out. */
json_t *af_bench_json(const struct af_bench_report *report);

/*
 * Writes an SVG document with one bar per case, as long as the reached fraction
 * of the roofline, and thin bars for other libraries on the same scale. Only
 * `out` can fail.
 */
void af_bench_svg(const struct af_bench_report *report, struct af_text *out);

/* Adds text to a drawing; characters with a meaning in XML are escaped. */
void af_bench_svg_text(struct af_text *out, double x, double y, const char *attributes,
                       const char *text);

#endif
