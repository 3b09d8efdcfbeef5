/*
 * measure.h: the engine timed on one case, with the roof measured before and
 * after each sample.
 */
#ifndef AF_BENCH_MEASURE_H
#define AF_BENCH_MEASURE_H

#include "bench/cases.h"
#include "bench/inputs.h"
#include "bench/samples.h"

#define AF_BENCH_RESULTS_MAX 3
#define AF_BENCH_KERNEL_BYTES 64

struct af_bench_timing {
    struct af_bench_samples ms;   /* of one run */
    struct af_bench_samples roof; /* operations or bytes a second, around each sample */
    struct af_bench_samples part; /* the engine's rate as a part of the roof's, by sample */
    double work;                  /* operations or bytes of one run */
    char kernel[AF_BENCH_KERNEL_BYTES]; /* that ran, as anyflash_explain() names it */
    /* Probed results: o, or dq, dk, dv. */
    float results[AF_BENCH_RESULTS_MAX][AF_BENCH_PROBES];
    size_t result_count;
};

/*
 * Times `row` for about `seconds`, at least 3 samples, on `threads` threads. The
 * roof of a call is one thread's: it is too small to be shared. Fails as the
 * engine does, or with NO_MEMORY.
 */
enum anyflash_status af_bench_measure(const struct af_bench_case *row, int threads,
                                      double seconds, struct af_bench_timing *timing_out,
                                      struct anyflash_error *err);

/* The name of the kernel in a text of anyflash_explain(), or "". */
void af_bench_kernel_name(enum af_bench_operation operation, const char *explanation,
                          char kernel[AF_BENCH_KERNEL_BYTES]);

#endif
