/*
 * end_time.c: corrects predictions by what was seen, and lays what is left into
 * as many places as compilers run now, the longest first.
 */
#include "kit/build/end_time.h"

#include <math.h>

/* What is believed before anything was seen, as seconds of a file that went as predicted. */
#define PRIOR_SECONDS 30.0
#define PRIOR_PACE 0.9   /* CPU seconds in a second, of a compiler with a core for itself */
#define PACE_MIN 0.02    /* below it a compiler stands still: no end can be told from it */
#define LEAST_SHARE 0.05 /* of a file that has worked longer than was predicted */
#define LAST_SECONDS 3.0 /* linking and packing */
#define PLACES_MAX 64

void af_build_end_time_add(struct af_build_end_time *end_time,
                           const struct af_govern_event *event)
{
    end_time->predicted += event->file->seconds;
    end_time->worked += event->cpu_seconds;
    end_time->elapsed += event->seconds;
}

/* CPU seconds that a compiler does in a second. */
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

/* CPU seconds that a job has left. */
static double left_of(const struct af_govern_row *row, double scale)
{
    double all = row->prediction->seconds * scale;
    return fmax(all - row->cpu_seconds, LEAST_SHARE * all);
}

/* Adds to the place that is free first. */
static void put(double *places, size_t count, double seconds)
{
    size_t first = 0;
    for (size_t i = 1; i < count; i++) {
        if (places[i] < places[first])
            first = i;
    }
    places[first] += seconds;
}

/* The longest waiting job after `before` in that order (SIZE_MAX: of all), or SIZE_MAX. */
static size_t next_waiting(const struct af_govern_event *event, size_t before)
{
    size_t found = SIZE_MAX;
    for (size_t i = 0; i < event->row_count; i++) {
        double seconds = event->rows[i].prediction->seconds;
        double last = before == SIZE_MAX ? INFINITY : event->rows[before].prediction->seconds;
        if (event->rows[i].state != AF_ADMIT_WAITING || seconds > last ||
            (seconds >= last && i <= before))
            continue;
        if (found == SIZE_MAX || seconds > event->rows[found].prediction->seconds)
            found = i;
    }
    return found;
}

double af_build_end_time_left(const struct af_build_end_time *end_time,
                              const struct af_govern_event *event)
{
    double places[PLACES_MAX] = {0};
    size_t count = 0;
    double end = 0;
    double scale = (end_time->worked + PRIOR_SECONDS) / (end_time->predicted + PRIOR_SECONDS);
    for (size_t i = 0; i < event->row_count && count < PLACES_MAX; i++) {
        if (event->rows[i].state == AF_ADMIT_RUNNING)
            places[count++] = left_of(&event->rows[i], scale);
    }
    count = count == 0 ? 1 : count;
    for (size_t i = next_waiting(event, SIZE_MAX); i != SIZE_MAX; i = next_waiting(event, i))
        put(places, count, left_of(&event->rows[i], scale));
    for (size_t i = 0; i < count; i++)
        end = fmax(end, places[i]);
    return end / pace_of(end_time, event) + LAST_SECONDS;
}
