/*
 * measure.c: times the engine on one case: roofline, sample, roofline.
 */
#include "bench/measure.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/inputs.h"
#include "bench/roof/roof.h"
#include "engine/base/cpu.h"
#include "engine/base/loaded.h"

static const struct af_bench_build own_build = {anyflash_context_new, anyflash_context_free,
                                                anyflash_attend, anyflash_attend_backward};

enum anyflash_status af_bench_build_load(const char *path, struct af_bench_build *build_out,
                                         struct anyflash_error *err)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return af_fail(err, ANYFLASH_E_NOT_FOUND, "cannot load the library: %s", dlerror());
#define LOAD(member)                                                                           \
    if (!af_loaded_function(library, "anyflash_" #member, &build_out->member,                  \
                            sizeof build_out->member))                                         \
        return af_fail(err, ANYFLASH_E_DATA, "'%s' does not export anyflash_" #member, path);
    LOAD(context_new)
    LOAD(context_free)
    LOAD(attend)
    LOAD(attend_backward)
#undef LOAD
    return ANYFLASH_OK;
}

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

/*
 * The calls of a sample take at least SAMPLE_SECONDS together. A call that takes
 * LONG_SECONDS or more is not repeated for a warm-up. bench/peers/common.py has the same
 * numbers.
 */
#define SAMPLE_SECONDS 5e-3
#define LONG_SECONDS 50e-3
#define ROOF_SECONDS 2e-3
#define EXPLANATION_BYTES 2000

double af_bench_now_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static enum anyflash_status run_once(const struct af_bench_engine *engine,
                                     const struct af_bench_runner *runner,
                                     struct anyflash_error *err)
{
    return engine->row->operation == AF_BENCH_BACKWARD
               ? runner->build->attend_backward(runner->context, &engine->inputs.backward, err)
               : runner->build->attend(runner->context, &engine->inputs.args, err);
}

/* Sets `seconds` to the time of one run, as the mean of `repeats`. */
static enum anyflash_status time_runs(const struct af_bench_engine *engine,
                                      struct af_bench_runner *runner, int repeats,
                                      struct anyflash_error *err)
{
    enum anyflash_status status = ANYFLASH_OK;
    double start = af_bench_now_seconds();
    for (int i = 0; i < repeats && status == ANYFLASH_OK; i++)
        status = run_once(engine, runner, err);
    runner->seconds = (af_bench_now_seconds() - start) / repeats;
    return status;
}

/*
 * Operations or bytes per second that this machine can reach; for SERVING the bytes while
 * it reads memory or computes, whichever takes longer.
 */
static double measure_roof(const struct af_bench_engine *engine)
{
    const struct af_bench_buffer *tensors = engine->inputs.tensors;
    const uint32_t lower = engine->row->level == ANYFLASH_CPU_AVX2
                               ? AF_CPU_BASE | AF_CPU_NEON | AF_CPU_AVX2
                               : UINT32_MAX;
    double flops = 0;
    if (!af_bench_reads(engine->row) || engine->row->operation == AF_BENCH_SERVING)
        flops = af_roof_flops(engine->row->dtype == ANYFLASH_F32 ? AF_ROOF_F32 : AF_ROOF_BF16,
                              af_cpu_features() & lower, engine->threads, ROOF_SECONDS);
    if (!af_bench_reads(engine->row))
        return flops;
    const struct af_span pieces[] = {
        {tensors[AF_BENCH_K].data, tensors[AF_BENCH_K].bytes},
        {tensors[AF_BENCH_V].data, tensors[AF_BENCH_V].bytes},
    };
    double bytes = af_roof_read(pieces, AF_COUNT(pieces),
                                engine->row->operation == AF_BENCH_CALL ? 1 : engine->threads);
    if (engine->row->operation == AF_BENCH_SERVING)
        bytes =
            fmin(bytes, flops * af_bench_kv_bytes(engine->row) / af_bench_flops(engine->row));
    return bytes;
}

/* Writes the name of the kernel in the text of anyflash_explain(), or "". */
static void find_kernel(enum af_bench_operation operation, const char *explanation,
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

static enum anyflash_status name_kernel(const struct af_bench_engine *engine,
                                        struct af_bench_timing *timing,
                                        struct anyflash_error *err)
{
    char text[EXPLANATION_BYTES];
    enum anyflash_status status =
        anyflash_explain(engine->own.context, &engine->inputs.args, text, sizeof text, err);
    if (status == ANYFLASH_OK)
        find_kernel(engine->row->operation, text, timing->kernel);
    return status;
}

/* The first runs: pages, caches and threads; for a backward also the forward that it needs. */
static enum anyflash_status warm_up(struct af_bench_engine *engine, struct anyflash_error *err)
{
    enum anyflash_status status =
        anyflash_attend(engine->own.context, &engine->inputs.args, err);
    for (int i = 0; i < 2 && status == ANYFLASH_OK; i++)
        status = time_runs(engine, &engine->own, 1, err);
    return status;
}

/* The tensors with the results; their number in `count_out`. */
static const struct af_bench_buffer *results_of(const struct af_bench_engine *engine,
                                                size_t *count_out)
{
    bool is_backward = engine->row->operation == AF_BENCH_BACKWARD;
    *count_out = is_backward ? 3 : 1;
    return &engine->inputs.tensors[is_backward ? AF_BENCH_DQ : AF_BENCH_O];
}

static void take_results(const struct af_bench_engine *engine, struct af_bench_timing *timing)
{
    const struct af_bench_buffer *results = results_of(engine, &timing->result_count);
    for (size_t i = 0; i < timing->result_count; i++)
        af_bench_probe(engine->row, &results[i], timing->results[i]);
}

/* FNV-1a of all results. */
static uint64_t hash_results(const struct af_bench_engine *engine)
{
    size_t count;
    const struct af_bench_buffer *results = results_of(engine, &count);
    uint64_t hash = 0xcbf29ce484222325;
    for (size_t i = 0; i < count; i++)
        for (size_t at = 0; at < results[i].bytes; at++)
            hash = (hash ^ ((const unsigned char *)results[i].data)[at]) * 0x100000001b3;
    return hash;
}

/* Computes the case with the other build, too, and compares the bits of its results. */
static enum anyflash_status prepare_other(struct af_bench_engine *engine,
                                          const struct anyflash_context_args *args,
                                          const struct af_bench_build *other,
                                          struct af_bench_timing *timing,
                                          struct anyflash_error *err)
{
    size_t count;
    const struct af_bench_buffer *results = results_of(engine, &count);
    const uint64_t own = hash_results(engine);
    for (size_t i = 0; i < count; i++)
        memset(results[i].data, 0, results[i].bytes);
    engine->other.build = other;
    enum anyflash_status status = other->context_new(args, &engine->other.context, err);
    if (status == ANYFLASH_OK)
        status = time_runs(engine, &engine->other, 1, err);
    timing->other_agrees = status == ANYFLASH_OK && hash_results(engine) == own;
    return status;
}

enum anyflash_status af_bench_engine_prepare(const struct af_bench_case *row, int threads,
                                             const struct af_bench_build *other,
                                             struct af_bench_engine *engine_out,
                                             struct af_bench_timing *timing_out,
                                             struct anyflash_error *err)
{
    struct anyflash_context_args args = {
        .struct_size = sizeof args, .threads = threads, .cpu_level = (int32_t)row->level};
    *engine_out =
        (struct af_bench_engine){.row = row, .threads = threads, .own = {.build = &own_build}};
    *timing_out = (struct af_bench_timing){0};
    timing_out->work = af_bench_reads(row) ? af_bench_kv_bytes(row) : af_bench_flops(row);
    af_bench_inputs_make(row, &engine_out->inputs);
    enum anyflash_status status = anyflash_context_new(&args, &engine_out->own.context, err);
    if (status == ANYFLASH_OK)
        status = name_kernel(engine_out, timing_out, err);
    if (status == ANYFLASH_OK)
        status = warm_up(engine_out, err);
    if (status == ANYFLASH_OK)
        take_results(engine_out, timing_out);
    if (status == ANYFLASH_OK && other != NULL)
        status = prepare_other(engine_out, &args, other, timing_out, err);
    return status;
}

void af_bench_engine_release(struct af_bench_engine *engine)
{
    if (engine->other.build != NULL)
        engine->other.build->context_free(engine->other.context);
    anyflash_context_free(engine->own.context);
    af_bench_inputs_release(&engine->inputs);
}

/* As many runs as a sample has, unless they are long; they are timed like a sample. */
static enum anyflash_status warm_caches(const struct af_bench_engine *engine,
                                        struct af_bench_runner *runner, int repeats,
                                        struct anyflash_error *err)
{
    return engine->own.seconds < LONG_SECONDS ? time_runs(engine, runner, repeats, err)
                                              : ANYFLASH_OK;
}

/* Times the other build as this one was timed: a roofline comes right before it. */
static enum anyflash_status time_other(struct af_bench_engine *engine, int repeats,
                                       struct anyflash_error *err)
{
    enum anyflash_status status = warm_caches(engine, &engine->other, repeats, err);
    (void)measure_roof(engine);
    return status == ANYFLASH_OK ? time_runs(engine, &engine->other, repeats, err) : status;
}

enum anyflash_status af_bench_engine_sample(struct af_bench_engine *engine,
                                            struct af_bench_timing *timing,
                                            struct anyflash_error *err)
{
    int repeats = 1 + (int)(SAMPLE_SECONDS / (engine->own.seconds + 1e-7));
    enum anyflash_status status = warm_caches(engine, &engine->own, repeats, err);
    double before = measure_roof(engine);
    if (status == ANYFLASH_OK)
        status = time_runs(engine, &engine->own, repeats, err);
    double roof = (before + measure_roof(engine)) / 2;
    if (status == ANYFLASH_OK && engine->other.build != NULL)
        status = time_other(engine, repeats, err);
    if (status != ANYFLASH_OK)
        return status;
    double seconds = engine->own.seconds;
    af_bench_samples_add(&timing->ms, seconds * 1e3);
    af_bench_samples_add(&timing->roof, roof);
    af_bench_samples_add(&timing->part,
                         roof > 0 && seconds > 0 ? timing->work / seconds / roof : 0);
    if (engine->other.build != NULL)
        af_bench_samples_add(&timing->other_ratio, engine->other.seconds / seconds);
    return ANYFLASH_OK;
}
