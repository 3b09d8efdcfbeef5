/*
 * cores.h: how many threads the engine should start, and on which cores.
 */
#ifndef AF_ENGINE_BASE_CORES_H
#define AF_ENGINE_BASE_CORES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Returns the cores in this process's affinity mask, on Linux limited by the CPU
 * quota of its cgroup (v2 or v1, as seen in a container; reads a few small files), at
 * least 1. macOS has no affinity: all cores. On Windows, a machine with more than 64
 * cores has several processor groups; only the process's own group is counted.
 */
int af_usable_cores(void);

#define AF_CORES_MAX 1024 /* as glibc's cpu_set_t */

/* A set of logical processors: bit n % 64 of word n / 64. */
struct af_core_set {
    uint64_t words[AF_CORES_MAX / 64];
};

/*
 * Parses a list as Linux writes it, such as "0,64" or "0-3,8"; returns false if
 * it is not one. Numbers that a set cannot hold are left out.
 */
bool af_core_set_parse(const char *text, struct af_core_set *set_out);

/*
 * Where `workers` threads should run beside a caller on processor `core`:
 * `allowed` without the caller's physical core, whose processors are `siblings`,
 * if at least one processor remains for each worker; else without `core` alone,
 * on the same condition; else all of `allowed`.
 */
struct af_core_set af_spread_choose(const struct af_core_set *allowed, int core,
                                    const struct af_core_set *siblings, int workers);

/*
 * Keeps the workers of a pool off the core of their caller, on Linux; on other
 * systems nothing happens. Linux prefers to wake a thread on the core of the thread
 * that wakes it; there it would wait for the caller instead of computing beside
 * it, and it would be woken there again for the next run. Nothing is pinned: the
 * workers share all other cores, among which the scheduler chooses, and the caller
 * is not touched. A thread whose affinity somebody else has changed is left alone
 * from then on.
 */
struct af_spread {
    int core;                  /* of the caller when the workers were placed; -1: not placed */
    int workers;               /* placed by then; 0: none yet */
    struct af_core_set before; /* affinity with which the workers started */
    struct af_core_set placed; /* affinity that they were given last */
};

struct af_worker {
    pthread_t thread;
    atomic_bool working; /* has not finished its part of the run */
    bool left_alone;     /* somebody else has set its affinity */
    int64_t ran_ns;      /* processor time when it was watched last */
};

/*
 * Places `count` workers for a run by the calling thread. Does nothing when its
 * core and the number of workers are the same as last time.
 */
void af_spread_place(struct af_spread *spread, struct af_worker *workers, int count);

/*
 * For a caller that can only wait for `count` workers: if one has not run since the
 * last call, because another program occupies its core, it is moved to the
 * caller's core. `first`: this is the first call of the run, which only looks.
 * Returns false if calling again has no use.
 */
bool af_spread_watch(struct af_spread *spread, struct af_worker *workers, int count,
                     bool first);

#endif
