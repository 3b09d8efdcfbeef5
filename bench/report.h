/*
 * report.h: all results of one `anyflash bench`, with the machine; and their output as text and
 * JSON. bench/compare_peers.py adds the figures of other libraries to the JSON; bench/chart.py
 * draws it.
 */
#ifndef AF_BENCH_REPORT_H
#define AF_BENCH_REPORT_H

#include "bench/measure.h"
#include "kit/base/json.h"
#include "kit/base/text.h"

/* Machine, system and compiler, which every result must state. */
struct af_bench_facts {
    const char *cpu;       /* model name, or "unknown" */
    const char *features;  /* instruction sets that the engine may use: "avx2 avx512" */
    const char *caches;    /* "L2 1024K, L3 32768K"; "" when unknown */
    const char *os;        /* kernel and its release */
    const char *compiler;  /* that compiled this program */
    const char *roof_f32;  /* instruction set of the roofline multiply-adds */
    const char *roof_bf16; /* the same for bf16 */
    int threads;           /* threads of the engine */
    int cores;             /* cores that this process may use */
};

/* Texts are in the arena; unreadable facts are "unknown". Only the arena can fail. */
void af_bench_facts_read(struct af_arena *arena, int threads, struct af_bench_facts *facts_out);

struct af_bench_line {
    const struct af_bench_case *row;
    struct af_bench_timing timing;
};

struct af_bench_report {
    struct af_bench_facts facts;
    const char *other_path; /* of the library that has `other`; NULL: none was requested */
    struct af_bench_build other;
    struct af_bench_line *lines;
    size_t count;
};

/* Medians: milliseconds per run, and the fraction of the roofline (1 is the roofline). */
double af_bench_line_ms(const struct af_bench_line *line);
double af_bench_line_part(const struct af_bench_line *line);

/* Median billions of operations or bytes per second. */
double af_bench_line_rate(const struct af_bench_line *line);

/* Microseconds of a call beyond a plain read of its keys and values. */
double af_bench_line_overhead_us(const struct af_bench_line *line);

/* Whether line `i` gets a heading because its operation or level is new. */
bool af_bench_starts_group(const struct af_bench_report *report, size_t i);

/*
 * The report as text, in parts, so that each can be printed as soon as it is
 * known: the machine; one line for each case, as it ends; the notes.
 */
void af_bench_table_start(const struct af_bench_report *report, struct af_text *out);
void af_bench_table_line(const struct af_bench_report *report, size_t i, struct af_text *out);
void af_bench_table_end(const struct af_bench_report *report, struct af_text *out);

/* The member "machine". */
json_t *af_bench_json_machine(const struct af_bench_facts *facts);

/*
 * A case that is ready to be timed: its members, `results` (the numbers that others are
 * compared with, for each tensor) and `left`, the number of cases from this one on.
 */
json_t *af_bench_json_case(const struct af_bench_report *report, size_t i);

/* JSON of schema anyflash-bench/1. */
json_t *af_bench_json(const struct af_bench_report *report);

#endif
