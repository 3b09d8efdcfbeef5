/*
 * samples.h: what a list of times says.
 */
#ifndef AF_BENCH_SAMPLES_H
#define AF_BENCH_SAMPLES_H

#include "engine/base/base.h"

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

#endif
