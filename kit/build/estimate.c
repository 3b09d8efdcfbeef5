/*
 * estimate.c: what a build will take, before it starts: by the model of
 * plan/slim.h, by what such files took here before, and without those that an
 * earlier build of this place has finished.
 */
#include "kit/build/parts.h"

#include <string.h>

#include "kit/base/text.h"
#include "kit/build/governor/costs.h"
#include "kit/system/file.h"

#define HOST "flash_api.cpp"

/* Whether the gate noted the object's end (govern/done.h); a guess, as it may be stale. */
static bool is_done(const struct af_build *build, const char *folder, const char *source)
{
    bool advises = build->slim.features != AF_SLIM_FEATURES; /* then its checks are generated */
    bool generated = af_ends_with(source, ".cu") || (advises && af_equal(source, HOST));
    const char *below = generated ? "generated/" : "";
    const char *note = folder == NULL
                           ? NULL
                           : af_arena_format(build->arena, "%s/%s%.*s.o.done", folder, below,
                                             (int)strcspn(source, "."), source);
    return note != NULL && af_file_is_regular(note);
}

/* Compiler calls that are to come, and how the known ones differ from the model. */
struct calls {
    struct af_slim_cost costs[AF_SLIM_CALLS_MAX];
    bool learned[AF_SLIM_CALLS_MAX];
    size_t count, done;
    double model_seconds, learned_seconds; /* of the learned ones */
};

static void add(struct af_build *build, const char *folder, const char *source,
                struct calls *calls)
{
    const char *const argv[] = {source, "-o", NULL};
    struct af_prediction prediction;
    if (source == NULL)
        return;
    af_build_predict(build, argv, &prediction);
    double model = prediction.seconds;
    bool learned = af_costs_correct(build->state, &prediction);
    if (learned && af_ends_with(source, ".cu")) { /* a cache may answer for the host compiler */
        calls->model_seconds += model;
        calls->learned_seconds += prediction.seconds;
    }
    if (is_done(build, folder, source)) {
        calls->done++;
        return;
    }
    calls->learned[calls->count] = learned;
    calls->costs[calls->count++] = (struct af_slim_cost){prediction.seconds, prediction.bytes};
}

/* What was never compiled here takes as much more than the model says as the rest did. */
static void scale(struct calls *calls)
{
    if (calls->model_seconds <= 0)
        return;
    double factor = calls->learned_seconds / calls->model_seconds;
    for (size_t i = 0; i < calls->count; i++) {
        if (!calls->learned[i])
            calls->costs[i].cpu_seconds *= factor;
    }
}

enum anyflash_status af_build_find_estimate(struct af_build *build,
                                            const struct af_build_place *place, int cores,
                                            uint64_t memory_bytes,
                                            struct af_build_estimate *estimate_out,
                                            struct anyflash_error *err)
{
    struct af_slim_file units[AF_SLIM_FILES_MAX];
    struct calls calls = {.count = 0};
    struct af_build_estimate estimate = {0};
    size_t count = af_slim_units(&build->slim, units);
    const char *folder = af_build_object_folder(build, place);
    for (size_t i = 0; i < count; i++)
        add(build, folder, af_slim_file_name(&units[i], build->arena), &calls);
    add(build, folder, HOST, &calls);
    if (!af_slim_is_full(&build->slim))
        add(build, folder, "kernels_left_out.cpp", &calls);
    scale(&calls);
    estimate.call_count = calls.count;
    estimate.done_count = calls.done;
    for (size_t i = 0; i < calls.count; i++) {
        estimate.cpu_seconds += calls.costs[i].cpu_seconds;
        if (calls.costs[i].peak_bytes > estimate.peak_bytes)
            estimate.peak_bytes = calls.costs[i].peak_bytes;
    }
    estimate.wall_seconds = af_slim_schedule(calls.costs, calls.count, cores, memory_bytes);
    if (build->arena->failed)
        return af_fail_memory(err);
    *estimate_out = estimate;
    return ANYFLASH_OK;
}
