/*
 * build_cost.c: the arithmetic of build_cost.h.
 */
#include "kit/build/offer/build_cost.h"

int af_offer_build_jobs(int64_t memory_bytes, int64_t cores)
{
    int64_t jobs = (memory_bytes - AF_OFFER_BUILD_BASE_BYTES) / AF_OFFER_BUILD_JOB_BYTES;
    if (cores > 0 && jobs > cores)
        jobs = cores;
    return jobs < 0 ? 0 : jobs > 512 ? 512 : (int)jobs;
}
