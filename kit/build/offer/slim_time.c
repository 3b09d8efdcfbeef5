/*
 * slim_time.c: how long compilers take beside each other: those that fit into
 * the cores and the memory run, the longest are admitted first.
 */
#include "kit/build/offer/slim.h"

#include <string.h>

#define WALL_FACTOR 1.1    /* of CPU seconds, for what waits for files */
#define SERIAL_SECONDS 8.0 /* configuring, linking, packing */

/* Compilers on the way: what each still needs. */
struct running {
    double left[AF_SLIM_CALLS_MAX];
    uint64_t bytes[AF_SLIM_CALLS_MAX];
    size_t count;
    uint64_t bytes_used;
};

/* Lets time pass until the first of them is done; the time it took. */
static double wait_for_one(struct running *running)
{
    size_t first = 0;
    for (size_t i = 1; i < running->count; i++) {
        if (running->left[i] < running->left[first])
            first = i;
    }
    double work = running->left[first];
    for (size_t i = 0; i < running->count; i++)
        running->left[i] -= work;
    running->bytes_used -= running->bytes[first];
    running->count--;
    running->left[first] = running->left[running->count];
    running->bytes[first] = running->bytes[running->count];
    return work;
}

static void start(struct running *running, const struct af_slim_cost *cost)
{
    running->left[running->count] = cost->cpu_seconds;
    running->bytes[running->count++] = cost->peak_bytes;
    running->bytes_used += cost->peak_bytes;
}

/* The longest that waits and fits; `count` when there is none. */
static size_t longest_that_fits(const struct af_slim_cost *costs, size_t count,
                                const bool *started, uint64_t left_bytes)
{
    size_t found = count;
    for (size_t i = 0; i < count; i++) {
        if (!started[i] && costs[i].peak_bytes <= left_bytes &&
            (found == count || costs[i].cpu_seconds > costs[found].cpu_seconds))
            found = i;
    }
    return found;
}

double af_slim_schedule(const struct af_slim_cost *costs, size_t count, int cores,
                        uint64_t memory_bytes)
{
    struct running running = {.count = 0};
    bool started[AF_SLIM_CALLS_MAX] = {false};
    double seconds = SERIAL_SECONDS;
    size_t places = cores < 1 ? 1 : (size_t)cores;
    for (size_t done = 0; done < count; done++) {
        while (running.count < places) {
            size_t next =
                longest_that_fits(costs, count, started, memory_bytes - running.bytes_used);
            if (next == count)
                break;
            started[next] = true;
            start(&running, &costs[next]);
        }
        if (running.count == 0)
            return 0; /* not even one fits */
        seconds += wait_for_one(&running) * WALL_FACTOR;
    }
    return seconds;
}

double af_slim_wall_seconds(const struct af_slim *slim, int cores, uint64_t memory_bytes)
{
    struct af_slim_file units[AF_SLIM_FILES_MAX];
    struct af_slim_cost costs[AF_SLIM_CALLS_MAX];
    size_t count = af_slim_units(slim, units);
    for (size_t i = 0; i < count; i++)
        costs[i] = af_slim_file_cost(slim, &units[i]);
    costs[count++] = af_slim_host_cost();
    costs[count++] = af_slim_stubs_cost();
    return af_slim_schedule(costs, count, cores, memory_bytes);
}
