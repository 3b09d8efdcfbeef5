/*
 * textbook_report.h: `anyflash bench --textbook`: textbook attention beside the engine for
 * growing lengths N (f32, 8 heads of size 64, not causal), as text and JSON.
 */
#ifndef AF_BENCH_TEXTBOOK_REPORT_H
#define AF_BENCH_TEXTBOOK_REPORT_H

#include "bench/report.h"

#define AF_TEXTBOOK_HEADS 8
#define AF_TEXTBOOK_DIM 64
#define AF_TEXTBOOK_SHORTEST 512
#define AF_TEXTBOOK_LINES 6
#define AF_TEXTBOOK_LINES_QUICK 3

enum af_textbook_side { AF_TEXTBOOK_ENGINE, AF_TEXTBOOK_PLAIN, AF_TEXTBOOK_SIDES };

struct af_textbook_figures {
    const char *decline; /* why this side was not run; NULL: it was */
    struct af_bench_samples ms;
    double peak_bytes; /* q, k, v, o, and by how much the process grew beyond them */
    float probes[AF_BENCH_PROBES];
};

/* One length; each doubles the one before. */
struct af_textbook_line {
    int64_t length;
    struct af_textbook_figures sides[AF_TEXTBOOK_SIDES];
    struct af_bench_samples ratio; /* textbook time divided by engine time, by round */
    double difference;             /* the largest between their results, at the probes */
};

struct af_textbook_report {
    struct af_bench_facts facts;
    double start_seconds; /* when it began; lengths that would take it too long are declined */
    double usable_bytes;  /* four fifths of the free memory at the start */
    struct af_textbook_line lines[AF_TEXTBOOK_LINES];
    size_t count;
};

/* Starts a report; reads clock and memory. */
void af_textbook_start(struct af_textbook_report *report, const struct af_bench_facts *facts);

/*
 * Measures the next length in rounds; in each round both sides take one turn. Measures for
 * `seconds`, and longer until there are enough rounds. A side that does not fit into memory is
 * declined. Fails as the engine does.
 */
enum anyflash_status af_textbook_next(struct af_arena *arena, struct af_textbook_report *report,
                                      double seconds, struct anyflash_error *err);

/* The table in parts: before the first line, the newest line, after the last. */
void af_textbook_table_start(struct af_text *out);
void af_textbook_table_line(const struct af_textbook_report *report, struct af_text *out);
void af_textbook_table_end(const struct af_textbook_report *report, struct af_text *out);

/* JSON of schema anyflash-bench-textbook/1. */
json_t *af_textbook_json(const struct af_textbook_report *report);

#endif
