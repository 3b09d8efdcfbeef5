/*
 * cores.c: usable cores by affinity and quota, when a context is made; and the
 * affinity of its threads, when the caller is found on another core.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* sched_getaffinity(), pthread_setaffinity_np() */
#endif
#include "engine/base/cores.h"

#include <stdlib.h>
#include <string.h>

static void add_core(struct af_core_set *set, int core)
{
    set->words[core / 64] |= (uint64_t)1 << core % 64;
}

static int count_cores(const struct af_core_set *set)
{
    int count = 0;
    for (size_t i = 0; i < AF_CORES_MAX / 64; i++)
        count += __builtin_popcountll(set->words[i]);
    return count;
}

/* Reads a number of the list and moves *text behind it; -1 if there is none. */
static long read_core(const char **text)
{
    char *end;
    if (**text < '0' || **text > '9')
        return -1;
    long core = strtol(*text, &end, 10);
    *text = end;
    return core;
}

bool af_core_set_parse(const char *text, struct af_core_set *set_out)
{
    struct af_core_set set = {{0}};
    for (;; text++) {
        long first = read_core(&text), last = first;
        if (first >= 0 && *text == '-') {
            text++;
            last = read_core(&text);
        }
        if (last < first || first < 0)
            return false;
        for (long core = first; core <= last && core < AF_CORES_MAX; core++)
            add_core(&set, (int)core);
        if (*text != ',')
            break;
    }
    if (*text != '\0' && *text != '\n')
        return false;
    *set_out = set;
    return true;
}

static struct af_core_set without(const struct af_core_set *set,
                                  const struct af_core_set *excluded)
{
    struct af_core_set rest;
    for (size_t i = 0; i < AF_CORES_MAX / 64; i++)
        rest.words[i] = set->words[i] & ~excluded->words[i];
    return rest;
}

struct af_core_set af_spread_choose(const struct af_core_set *allowed, int core,
                                    const struct af_core_set *siblings, int workers)
{
    struct af_core_set one = {{0}};
    struct af_core_set rest = without(allowed, siblings);
    if (core < 0 || core >= AF_CORES_MAX)
        return *allowed;
    add_core(&one, core);
    rest = without(&rest, &one);
    if (count_cores(&rest) >= workers)
        return rest;
    rest = without(allowed, &one);
    return count_cores(&rest) >= workers ? rest : *allowed;
}

#if defined(__linux__)
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

/* Reads the start of a small file as text; false if there is none. */
static bool read_small(const char *path, char *text, size_t size_bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t len = read(fd, text, size_bytes - 1);
    close(fd);
    text[len > 0 ? len : 0] = '\0';
    return len > 0;
}

/* quota / period rounded up; 0 when either is not a positive number ("max"). */
static int cores_of(const char *quota, const char *period)
{
    long long used = strtoll(quota, NULL, 10), of = strtoll(period, NULL, 10);
    return used > 0 && of > 0 && used / of < 65536 ? (int)((used - 1) / of + 1) : 0;
}

static int quota_cores(void)
{
    char quota[64], period[64];
    if (read_small("/sys/fs/cgroup/cpu.max", quota, sizeof quota)) {
        char *blank = strchr(quota, ' ');
        return blank == NULL ? 0 : cores_of(quota, blank + 1);
    }
    if (read_small("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", quota, sizeof quota) &&
        read_small("/sys/fs/cgroup/cpu/cpu.cfs_period_us", period, sizeof period))
        return cores_of(quota, period);
    return 0;
}

int af_usable_cores(void)
{
    cpu_set_t allowed;
    int cores = sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
    int quota = quota_cores();
    return quota > 0 && quota < cores ? quota : cores;
}

/* The processors of the physical core of `core`; none if they are unknown. */
static struct af_core_set siblings_of(int core)
{
    struct af_core_set set = {{0}};
    char path[96], text[256];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list",
             core);
    if (read_small(path, text, sizeof text))
        (void)af_core_set_parse(text, &set);
    return set;
}

/* Both are arrays of bits in the same order. */
_Static_assert(sizeof(cpu_set_t) <= sizeof(struct af_core_set), "cpu_set_t is larger");

/* False when the mask cannot be read: for example, there are more processors. */
static bool read_affinity(pthread_t thread, struct af_core_set *set_out)
{
    cpu_set_t mask;
    *set_out = (struct af_core_set){{0}};
    if (pthread_getaffinity_np(thread, sizeof mask, &mask) != 0)
        return false;
    memcpy(set_out, &mask, sizeof mask);
    return true;
}

static bool same(const struct af_core_set *a, const struct af_core_set *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

/* Whether the worker has one of the affinities from here; if not, never again. */
static bool is_ours(const struct af_spread *spread, struct af_worker *worker)
{
    struct af_core_set now;
    if (!read_affinity(worker->thread, &now) ||
        !(same(&now, &spread->before) || same(&now, &spread->placed)))
        worker->left_alone = true;
    return !worker->left_alone;
}

/* A failure, such as that of a sandbox, changes nothing. */
static void set_affinity(pthread_t thread, const struct af_core_set *wanted)
{
    cpu_set_t mask;
    memcpy(&mask, wanted, sizeof mask);
    (void)pthread_setaffinity_np(thread, sizeof mask, &mask);
}

void af_spread_place(struct af_spread *spread, struct af_worker *workers, int count)
{
    int core = sched_getcpu();
    if (count == 0 || core < 0 || (core == spread->core && count == spread->workers))
        return;
    if (spread->workers == 0) {
        if (!read_affinity(workers[0].thread, &spread->before))
            return;
        spread->placed = spread->before;
    }
    struct af_core_set siblings = {{0}};
    if (count_cores(&spread->before) - count >= 2) /* else they are needed */
        siblings = siblings_of(core);
    struct af_core_set wanted = af_spread_choose(&spread->before, core, &siblings, count);
    for (int i = 0; i < count; i++)
        if (is_ours(spread, &workers[i]))
            set_affinity(workers[i].thread, &wanted);
    spread->core = core;
    spread->workers = count;
    spread->placed = wanted;
}

static bool has_core(const struct af_core_set *set, int core)
{
    return core >= 0 && core < AF_CORES_MAX && (set->words[core / 64] >> core % 64 & 1) != 0;
}

/* Moves the worker to the core and lets it go; returns whether it was moved. */
static bool move(const struct af_spread *spread, struct af_worker *worker, int core)
{
    struct af_core_set one = {{0}};
    if (!has_core(&spread->before, core) || !is_ours(spread, worker))
        return false;
    add_core(&one, core);
    set_affinity(worker->thread, &one);
    set_affinity(worker->thread, &spread->before);
    return true;
}

/* The thread's processor time; -1 if it is unknown. */
static int64_t time_of(pthread_t thread)
{
    clockid_t clock;
    struct timespec time;
    if (pthread_getcpuclockid(thread, &clock) != 0 || clock_gettime(clock, &time) != 0)
        return -1;
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

bool af_spread_watch(struct af_spread *spread, struct af_worker *workers, int count, bool first)
{
    bool moved = false;
    for (int i = 0; i < count && !moved; i++) {
        if (!atomic_load_explicit(&workers[i].working, memory_order_relaxed))
            continue;
        int64_t ran_ns = time_of(workers[i].thread);
        if (!first && ran_ns >= 0 && ran_ns == workers[i].ran_ns)
            moved = move(spread, &workers[i], sched_getcpu());
        workers[i].ran_ns = ran_ns;
    }
    if (moved)
        spread->core = -1; /* places all of them again for the next run */
    return !moved;
}

#elif defined(_WIN32)
#include <windows.h>

int af_usable_cores(void)
{
    DWORD_PTR allowed = 0, existing = 0;
    int cores = 0;
    GetProcessAffinityMask(GetCurrentProcess(), &allowed, &existing);
    for (; allowed != 0; allowed &= allowed - 1)
        cores++;
    return cores > 0 ? cores : 1;
}

#else
#include <unistd.h>

int af_usable_cores(void)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return cores > 0 && cores < 65536 ? (int)cores : 1;
}

#endif

#ifndef __linux__

void af_spread_place(struct af_spread *spread, struct af_worker *workers, int count)
{
    (void)spread;
    (void)workers;
    (void)count;
}

bool af_spread_watch(struct af_spread *spread, struct af_worker *workers, int count, bool first)
{
    (void)spread;
    (void)workers;
    (void)count;
    (void)first;
    return false;
}

#endif
