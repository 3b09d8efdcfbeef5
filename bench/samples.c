/*
 * samples.c: median, minimum, spread.
 */
#include "bench/samples.h"

#include <stdlib.h>
#include <string.h>

void af_bench_samples_add(struct af_bench_samples *samples, double value)
{
    if (samples->count < AF_BENCH_SAMPLES_MAX)
        samples->values[samples->count++] = value;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double af_bench_samples_at(const struct af_bench_samples *samples, double share)
{
    double sorted[AF_BENCH_SAMPLES_MAX];
    if (samples->count == 0)
        return 0;
    memcpy(sorted, samples->values, samples->count * sizeof sorted[0]);
    qsort(sorted, samples->count, sizeof sorted[0], compare);
    double place = share * (double)(samples->count - 1);
    size_t below = (size_t)place;
    size_t above = below + 1 < samples->count ? below + 1 : below;
    double part = place - (double)below;
    return sorted[below] * (1 - part) + sorted[above] * part;
}

double af_bench_samples_spread(const struct af_bench_samples *samples)
{
    double median = af_bench_samples_at(samples, 0.5);
    double width = af_bench_samples_at(samples, 0.75) - af_bench_samples_at(samples, 0.25);
    return median > 0 ? width / median : 0;
}
