/*
 * cores.c: usable cores by affinity and quota. Called when a context is made.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* sched_getaffinity() */
#endif
#include "engine/base/cores.h"

#if defined(__linux__)
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
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
