/*
 * build_cost.c: the arithmetic of build_cost.h.
 */
#include "fit/build_cost.h"

#define FILE_SECONDS 115.0
#define FILE_SHARED_SECONDS 9.0
#define WALL_FACTOR 1.1

int af_build_jobs(int64_t memory_bytes, int64_t cores)
{
    int64_t jobs = (memory_bytes - AF_BUILD_BASE_BYTES) / AF_BUILD_JOB_BYTES;
    if (cores > 0 && jobs > cores)
        jobs = cores;
    return jobs < 0 ? 0 : jobs > 512 ? 512 : (int)jobs;
}

int64_t af_build_minutes(int files, int targets, int jobs)
{
    double one = FILE_SHARED_SECONDS + (FILE_SECONDS - FILE_SHARED_SECONDS) * targets;
    double seconds = files * one * WALL_FACTOR / (jobs < 1 ? 1 : jobs);
    return (int64_t)(seconds / 60.0) + 1;
}
