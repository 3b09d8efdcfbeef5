/*
 * measure.h: the engine on one case: its times, with the roofline measured
 * before and after each of them; and how far the process's memory grows.
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

/* Ignored when the array is full. */
void af_bench_samples_add(struct af_bench_samples *samples, double value);

/* The quantile at `share` (0 to 1), interpolated; 0 without samples. */
double af_bench_samples_at(const struct af_bench_samples *samples, double share);

/* Interquartile range divided by the median. */
double af_bench_samples_spread(const struct af_bench_samples *samples);

/*
 * The functions of a build of libanyflash that are timed: of the one that this program is
 * linked with, or of another one, loaded beside it.
 */
struct af_bench_build {
    enum anyflash_status (*context_new)(const struct anyflash_context_args *,
                                        struct anyflash_context **, struct anyflash_error *);
    void (*context_free)(struct anyflash_context *);
    enum anyflash_status (*attend)(struct anyflash_context *,
                                   const struct anyflash_attend_args *,
                                   struct anyflash_error *);
    enum anyflash_status (*attend_backward)(struct anyflash_context *,
                                            const struct anyflash_attend_backward_args *,
                                            struct anyflash_error *);
};

/*
 * Loads the library at `path`, which stays loaded until the process ends. Fails with
 * NOT_FOUND if it cannot be loaded, and with DATA if it lacks a function.
 */
enum anyflash_status af_bench_build_load(const char *path, struct af_bench_build *build_out,
                                         struct anyflash_error *err);

#define AF_BENCH_RESULTS_MAX 3
#define AF_BENCH_KERNEL_BYTES 64

struct af_bench_timing {
    struct af_bench_samples ms;   /* of one run */
    struct af_bench_samples roof; /* operations or bytes per second, around each sample */
    struct af_bench_samples part; /* the engine's rate divided by the roofline, by sample */
    double work;                  /* operations or bytes of one run */
    char kernel[AF_BENCH_KERNEL_BYTES]; /* the kernel that ran, as in anyflash_explain() */
    /* Probed results: o, or dq, dk, dv. */
    float results[AF_BENCH_RESULTS_MAX][AF_BENCH_PROBES];
    size_t result_count;
    struct af_bench_samples other_ratio; /* the other build's time divided by this one's */
    bool other_agrees;                   /* all its results are the same bits */
};

/* A build of the engine and a context of it. */
struct af_bench_runner {
    const struct af_bench_build *build;
    struct anyflash_context *context;
    double seconds; /* of one run, when it was last timed */
};

/* The engine, ready to be timed on one case. It must not move: `inputs` points into itself. */
struct af_bench_engine {
    const struct af_bench_case *row;
    struct af_bench_runner own;
    struct af_bench_runner other; /* on the same inputs; build NULL: there is none */
    int threads;
    struct af_bench_inputs inputs;
};

/*
 * Makes the inputs of `row`, computes the case once and copies a part of the results
 * to `timing_out`; `other` is NULL, or a build to compare with. Fails with the engine's
 * status. The caller releases the engine, even after a failure.
 */
enum anyflash_status af_bench_engine_prepare(const struct af_bench_case *row, int threads,
                                             const struct af_bench_build *other,
                                             struct af_bench_engine *engine_out,
                                             struct af_bench_timing *timing_out,
                                             struct anyflash_error *err);
void af_bench_engine_release(struct af_bench_engine *engine);

/*
 * Adds a sample of at least 5 ms to `timing`. If another build is compared, times that
 * build as well and adds its time divided by this sample's. Short runs are repeated before
 * they are timed, because another library's turn may have emptied the caches. The roofline
 * of a CALL is that of one thread, because the call is too small to be split.
 */
enum anyflash_status af_bench_engine_sample(struct af_bench_engine *engine,
                                            struct af_bench_timing *timing,
                                            struct anyflash_error *err);

/* Seconds of a clock that only moves forward. */
double af_bench_now_seconds(void);

#endif
