/*
 * end_time.h: when a build will end, as far as can be known while it runs.
 *
 * What is left is what was predicted, corrected by how the finished files
 * differed from it, less what the running ones have worked; it goes on as fast as
 * compilers worked until now, which is slower where others use the cores.
 */
#ifndef AF_KIT_BUILD_END_TIME_H
#define AF_KIT_BUILD_END_TIME_H

#include "kit/build/governor/govern.h"

/* Zero-initialised. */
struct af_build_end_time {
    double predicted; /* CPU seconds of the finished files */
    double worked;    /* and what they took */
    double elapsed;   /* seconds that they ran */
};

/* A file ended well. */
void af_build_end_time_add(struct af_build_end_time *end_time,
                           const struct af_govern_event *event);

/* Seconds from now to the end, with the jobs of `event` and as many at a time as now. */
double af_build_end_time_left(const struct af_build_end_time *end_time,
                              const struct af_govern_event *event);

#endif
