/*
 * measure.h: the engine timed on one case, with the roof measured before and
 * after each sample; and how much memory a forward takes beyond its tensors.
 */
#ifndef AF_BENCH_MEASURE_H
#define AF_BENCH_MEASURE_H

#include "bench/cases.h"
#include "bench/inputs.h"

#define AF_BENCH_SAMPLES_MAX 64

struct af_bench_samples {
    double values[AF_BENCH_SAMPLES_MAX];
    size_t count;
};

/* Ignored when it is full. */
void af_bench_samples_add(struct af_bench_samples *samples, double value);

/* The value that the part `share` (0 to 1) of all lies below, interpolated; 0 of none. */
double af_bench_samples_at(const struct af_bench_samples *samples, double share);

/* The width of the middle half, as a part of the median. */
double af_bench_samples_spread(const struct af_bench_samples *samples);

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

struct af_bench_memory {
    double scratch_bytes; /* of a thread, as anyflash_workspace_bytes() announces it */
    double peak_bytes;    /* of a thread, by which the process grew; below 0: not known */
};

/*
 * Runs `row` once in a new context of `threads` threads. The growth is the
 * process's peak of resident memory during the call less what was resident
 * before it: Linux only, and only where the peak may be reset. Fails as the
 * engine does, or with NO_MEMORY.
 */
enum anyflash_status af_bench_measure_memory(struct af_arena *arena,
                                             const struct af_bench_case *row, int threads,
                                             struct af_bench_memory *memory_out,
                                             struct anyflash_error *err);

#endif
