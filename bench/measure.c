/*
 * measure.c: warm up, then roof, sample, roof, sample, ... until the time is up.
 */
#include "bench/measure.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "bench/roof/roof.h"
#include "engine/base/cpu.h"

#define SAMPLES_MIN 3
/* Short runs are repeated within a sample until it takes this long. */
#define SAMPLE_SECONDS 0.5e-3
#define ROOF_SECONDS 2e-3
#define EXPLANATION_BYTES 2000

/* One case at work. */
struct run {
    const struct af_bench_case *row;
    struct anyflash_context *context;
    int threads;
    struct af_bench_inputs inputs;
    int repeats;
};

static double now_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static enum anyflash_status run_once(struct run *run, struct anyflash_error *err)
{
    return run->row->operation == AF_BENCH_BACKWARD
               ? anyflash_attend_backward(run->context, &run->inputs.backward, err)
               : anyflash_attend(run->context, &run->inputs.args, err);
}

/* Seconds of one run, as the mean of `repeats`. */
static enum anyflash_status sample(struct run *run, double *seconds_out,
                                   struct anyflash_error *err)
{
    enum anyflash_status status = ANYFLASH_OK;
    double start = now_seconds();
    for (int i = 0; i < run->repeats && status == ANYFLASH_OK; i++)
        status = run_once(run, err);
    *seconds_out = (now_seconds() - start) / run->repeats;
    return status;
}

static double measure_roof(const struct run *run)
{
    const struct af_bench_buffer *tensors = run->inputs.tensors;
    const uint32_t lower = run->row->level == ANYFLASH_CPU_AVX2
                               ? AF_CPU_BASE | AF_CPU_NEON | AF_CPU_AVX2
                               : UINT32_MAX;
    if (!af_bench_reads(run->row))
        return af_roof_flops(run->row->dtype == ANYFLASH_F32 ? AF_ROOF_F32 : AF_ROOF_BF16,
                             af_cpu_features() & lower, run->threads, ROOF_SECONDS);
    const struct af_span pieces[] = {
        {tensors[AF_BENCH_K].data, tensors[AF_BENCH_K].bytes},
        {tensors[AF_BENCH_V].data, tensors[AF_BENCH_V].bytes},
    };
    return af_roof_read(pieces, AF_COUNT(pieces),
                        run->row->operation == AF_BENCH_CALL ? 1 : run->threads);
}

void af_bench_kernel_name(enum af_bench_operation operation, const char *explanation,
                          char kernel[AF_BENCH_KERNEL_BYTES])
{
    const char *label = operation == AF_BENCH_BACKWARD ? "backward" : "rows";
    kernel[0] = '\0';
    for (const char *line = explanation; *line != '\0';) {
        size_t len = strcspn(line, "\n");
        const char *colon = memchr(line, ':', len);
        const char *at = strstr(line, label);
        if (colon != NULL && at != NULL && at + strlen(label) == colon &&
            strncmp(colon, ": not ", 6) != 0)
            snprintf(kernel, AF_BENCH_KERNEL_BYTES, "%.*s", (int)(line + len - colon - 2),
                     colon + 2);
        line += len + (line[len] == '\n');
    }
}

static enum anyflash_status name_kernel(const struct run *run, struct af_bench_timing *timing,
                                        struct anyflash_error *err)
{
    char text[EXPLANATION_BYTES];
    enum anyflash_status status =
        anyflash_explain(run->context, &run->inputs.args, text, sizeof text, err);
    if (status == ANYFLASH_OK)
        af_bench_kernel_name(run->row->operation, text, timing->kernel);
    return status;
}

/* The first runs: pages, caches, threads; for a backward the forward it starts from. */
static enum anyflash_status warm_up(struct run *run, struct anyflash_error *err)
{
    double seconds = 0;
    enum anyflash_status status = anyflash_attend(run->context, &run->inputs.args, err);
    run->repeats = 1;
    for (int i = 0; i < 2 && status == ANYFLASH_OK; i++)
        status = sample(run, &seconds, err);
    if (seconds < SAMPLE_SECONDS)
        run->repeats = (int)(SAMPLE_SECONDS / (seconds + 1e-7)) + 1;
    return status;
}

static enum anyflash_status take_samples(struct run *run, double seconds,
                                         struct af_bench_timing *timing,
                                         struct anyflash_error *err)
{
    double end = now_seconds() + seconds;
    double before = measure_roof(run), took = 0;
    while (timing->ms.count < SAMPLES_MIN ||
           (timing->ms.count < AF_BENCH_SAMPLES_MAX && now_seconds() < end)) {
        enum anyflash_status status = sample(run, &took, err);
        if (status != ANYFLASH_OK)
            return status;
        double after = measure_roof(run);
        double roof = (before + after) / 2;
        af_bench_samples_add(&timing->ms, took * 1e3);
        af_bench_samples_add(&timing->roof, roof);
        af_bench_samples_add(&timing->part,
                             roof > 0 && took > 0 ? timing->work / took / roof : 0);
        before = after;
    }
    return ANYFLASH_OK;
}

static void take_results(const struct run *run, struct af_bench_timing *timing)
{
    bool is_backward = run->row->operation == AF_BENCH_BACKWARD;
    size_t first = is_backward ? AF_BENCH_DQ : AF_BENCH_O;
    timing->result_count = is_backward ? 3 : 1;
    for (size_t i = 0; i < timing->result_count; i++)
        af_bench_probe(run->row, &run->inputs.tensors[first + i], timing->results[i]);
}

enum anyflash_status af_bench_measure(const struct af_bench_case *row, int threads,
                                      double seconds, struct af_bench_timing *timing_out,
                                      struct anyflash_error *err)
{
    struct run run = {.row = row, .threads = threads};
    struct anyflash_context_args args = {
        .struct_size = sizeof args, .threads = threads, .cpu_level = (int32_t)row->level};
    *timing_out = (struct af_bench_timing){0};
    timing_out->work = af_bench_reads(row) ? af_bench_kv_bytes(row) : af_bench_flops(row);
    enum anyflash_status status = af_bench_inputs_make(row, &run.inputs, err);
    if (status == ANYFLASH_OK)
        status = anyflash_context_new(&args, &run.context, err);
    if (status == ANYFLASH_OK)
        status = name_kernel(&run, timing_out, err);
    if (status == ANYFLASH_OK)
        status = warm_up(&run, err);
    if (status == ANYFLASH_OK)
        status = take_samples(&run, seconds, timing_out, err);
    if (status == ANYFLASH_OK)
        take_results(&run, timing_out);
    anyflash_context_free(run.context);
    af_bench_inputs_release(&run.inputs);
    return status;
}
