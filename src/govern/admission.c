/*
 * admission.c: longest first, with backfilling that delays nobody.
 */
#include "govern/admission.h"

/* The bytes that a job is counted with. */
static uint64_t weight(const struct af_admit_job *job)
{
    return job->resident_bytes > job->need_bytes ? job->resident_bytes : job->need_bytes;
}

uint64_t af_admit_used(const struct af_admit_job *jobs, size_t count)
{
    uint64_t used = 0;
    for (size_t i = 0; i < count; i++) {
        if (jobs[i].state == AF_ADMIT_RUNNING)
            used += weight(&jobs[i]);
    }
    return used;
}

static size_t running_count(const struct af_admit_job *jobs, size_t count, bool *alone_out)
{
    size_t running = 0;
    *alone_out = false;
    for (size_t i = 0; i < count; i++) {
        if (jobs[i].state == AF_ADMIT_RUNNING) {
            running++;
            *alone_out |= jobs[i].alone;
        }
    }
    return running;
}

/* Those that must be alone before all others, then the longest, then the first to come. */
static bool goes_before(const struct af_admit_job *a, const struct af_admit_job *b)
{
    return a->alone != b->alone ? a->alone : a->seconds > b->seconds;
}

/* The waiting job that comes after `last` in line (SIZE_MAX: the first), or SIZE_MAX. */
static size_t next_in_line(const struct af_admit_job *jobs, size_t count, size_t last)
{
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < count; i++) {
        if (jobs[i].state != AF_ADMIT_WAITING || i == last)
            continue;
        if (last != SIZE_MAX && (goes_before(&jobs[i], &jobs[last]) ||
                                 (!goes_before(&jobs[last], &jobs[i]) && i < last)))
            continue;
        if (best == SIZE_MAX || goes_before(&jobs[i], &jobs[best]))
            best = i;
    }
    return best;
}

static double remaining(const struct af_admit_job *job)
{
    double left = job->seconds - job->elapsed;
    return left > 0 ? left : job->elapsed * 0.1; /* longer than predicted: soon, perhaps */
}

/*
 * When the first in line could start: as those that run end one after the
 * other. *spare_out is the room that is left beside it then.
 */
static double start_of(const struct af_admit_job *jobs, size_t count, size_t first,
                       const struct af_admit_room *room, uint64_t *spare_out)
{
    uint64_t used = af_admit_used(jobs, count);
    double time = 0;
    *spare_out = 0;
    while (used + jobs[first].need_bytes > room->budget_bytes) {
        size_t next = SIZE_MAX;
        for (size_t i = 0; i < count; i++) {
            if (jobs[i].state == AF_ADMIT_RUNNING && remaining(&jobs[i]) > time &&
                (next == SIZE_MAX || remaining(&jobs[i]) < remaining(&jobs[next])))
                next = i;
        }
        if (next == SIZE_MAX)
            return time; /* never fits: it will start when nothing runs */
        time = remaining(&jobs[next]);
        for (size_t i = 0; i < count; i++) {
            if (jobs[i].state == AF_ADMIT_RUNNING && remaining(&jobs[i]) == time)
                used -= weight(&jobs[i]);
        }
    }
    *spare_out = room->budget_bytes - used - jobs[first].need_bytes;
    return time;
}

/* One after `first` in line that fits now and does not delay it, or SIZE_MAX. */
static size_t backfill(const struct af_admit_job *jobs, size_t count, size_t first,
                       const struct af_admit_room *room)
{
    uint64_t spare;
    uint64_t used = af_admit_used(jobs, count);
    double start = start_of(jobs, count, first, room, &spare);
    for (size_t i = next_in_line(jobs, count, first); i != SIZE_MAX;
         i = next_in_line(jobs, count, i)) {
        if (used + jobs[i].need_bytes <= room->budget_bytes &&
            (jobs[i].seconds <= start || jobs[i].need_bytes <= spare))
            return i;
    }
    return SIZE_MAX;
}

struct af_admit_answer af_admit(const struct af_admit_job *jobs, size_t count,
                                const struct af_admit_room *room)
{
    bool alone;
    size_t running = running_count(jobs, count, &alone);
    size_t first = next_in_line(jobs, count, SIZE_MAX);
    if (first == SIZE_MAX)
        return (struct af_admit_answer){AF_ADMIT_NOTHING, SIZE_MAX};
    if (running == 0)
        return (struct af_admit_answer){AF_ADMIT_NOW, first};
    if (alone)
        return (struct af_admit_answer){AF_ADMIT_ALONE_RUNS, first};
    if (jobs[first].alone)
        return (struct af_admit_answer){AF_ADMIT_FOR_ALONE, first};
    if (running >= (room->slots == 0 ? 1 : room->slots))
        return (struct af_admit_answer){AF_ADMIT_SLOTS, first};
    if (af_admit_used(jobs, count) + jobs[first].need_bytes <= room->budget_bytes)
        return (struct af_admit_answer){AF_ADMIT_NOW, first};
    size_t other = backfill(jobs, count, first, room);
    return other == SIZE_MAX ? (struct af_admit_answer){AF_ADMIT_MEMORY, first}
                             : (struct af_admit_answer){AF_ADMIT_NOW, other};
}
