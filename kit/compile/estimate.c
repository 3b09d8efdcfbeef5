/*
 * estimate.c: predicts how long a build takes.
 *
 * Before the build starts, the model of offer/kernel_selection.h gives the time of the files
 * that no earlier build has finished. While it runs, the pace of the compilers so far does.
 */
#include "kit/compile/build_steps.h"

#include <math.h>

#include "kit/system/file.h"

#define PRIOR_SECONDS 30.0 /* weight of the assumptions before anything was measured */
#define PRIOR_PACE 0.9     /* CPU seconds per second of a compiler with a core of its own */
#define PACE_MIN 0.02      /* below it a compiler makes no progress */
#define LEAST_SHARE 0.2    /* what a file still needs that takes longer than predicted */

enum anyflash_status af_build_find_estimate(struct af_build *build,
                                            const struct af_build_place *place, int cores,
                                            uint64_t memory_bytes,
                                            struct af_build_estimate *estimate_out,
                                            struct anyflash_error *err)
{
    struct af_selection_cost costs[AF_SELECTION_CALLS_MAX];
    struct af_build_estimate estimate = {0};
    struct af_build_jobs jobs;
    enum anyflash_status status = af_build_list_jobs(build, place, &jobs, err);
    if (status != ANYFLASH_OK)
        return status;
    for (size_t i = 0; i < jobs.count; i++) {
        const struct af_prediction *prediction = &jobs.rows[i].prediction;
        if (af_file_is_regular(jobs.rows[i].object)) {
            estimate.done_count++;
            continue;
        }
        costs[estimate.call_count++] =
            (struct af_selection_cost){prediction->seconds, prediction->bytes};
        estimate.cpu_seconds += prediction->seconds;
        if (prediction->bytes > estimate.peak_bytes)
            estimate.peak_bytes = prediction->bytes;
    }
    estimate.wall_seconds =
        af_selection_schedule(costs, estimate.call_count, cores, memory_bytes);
    *estimate_out = estimate;
    return ANYFLASH_OK;
}

void af_build_end_time_add(struct af_build_end_time *end_time,
                           const struct af_govern_event *event)
{
    end_time->predicted += event->file->seconds;
    end_time->worked += event->cpu_seconds;
    end_time->elapsed += event->seconds;
}

/* CPU seconds per second of one compiler. */
static double pace_of(const struct af_build_end_time *end_time,
                      const struct af_govern_event *event)
{
    double worked = PRIOR_PACE * PRIOR_SECONDS + end_time->worked;
    double elapsed = PRIOR_SECONDS + end_time->elapsed;
    for (size_t i = 0; i < event->row_count; i++) {
        worked += event->rows[i].cpu_seconds;
        elapsed += event->rows[i].elapsed;
    }
    return fmax(worked / elapsed, PACE_MIN);
}

/*
 * CPU seconds per predicted second: of the finished files, and of those that run longer than
 * predicted. The largest file runs first and alone can take half of a build, so waiting for its
 * end would be too late.
 */
static double scale_of(const struct af_build_end_time *end_time,
                       const struct af_govern_event *event)
{
    double worked = PRIOR_SECONDS + end_time->worked;
    double predicted = PRIOR_SECONDS + end_time->predicted;
    for (size_t i = 0; i < event->row_count; i++) {
        const struct af_govern_row *row = &event->rows[i];
        if (row->state != AF_JOB_RUNNING || row->cpu_seconds <= row->prediction->seconds)
            continue;
        worked += row->cpu_seconds;
        predicted += row->prediction->seconds;
    }
    return worked / predicted;
}

/* CPU seconds that a job still needs. */
static double left_of(const struct af_govern_row *row, double scale)
{
    double all = row->prediction->seconds * scale;
    return fmax(all - row->cpu_seconds, LEAST_SHARE * fmax(all, row->cpu_seconds));
}

double af_build_end_time_left(const struct af_build_end_time *end_time,
                              const struct af_govern_event *event)
{
    struct af_selection_cost costs[AF_SELECTION_CALLS_MAX];
    double scale = scale_of(end_time, event);
    int running = 0;
    size_t count = 0;
    for (size_t i = 0; i < event->row_count && count < AF_SELECTION_CALLS_MAX; i++) {
        running += event->rows[i].state == AF_JOB_RUNNING;
        costs[count++] = (struct af_selection_cost){left_of(&event->rows[i], scale), 0};
    }
    return af_selection_schedule(costs, count, running, 0) / pace_of(end_time, event);
}
