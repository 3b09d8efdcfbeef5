/*
 * build_cost.h: what a source build of flash-attn 2 costs, by a measured model.
 *
 * Measured with flash-attn 2.8.3.post2, CUDA 13.0, gcc 12, one target: 72 files
 * cost 8,260 CPU seconds, of which 9 a file do not depend on the targets; the
 * wall time is 1.1 times that over the processes at work. The largest compiler
 * process (backward, head size 256) takes 6.7 GiB with one thread; the build
 * itself 0.5 GiB and its one C++ file 1.6 GiB.
 */
#ifndef AF_FIT_BUILD_COST_H
#define AF_FIT_BUILD_COST_H

#include "base/base.h"

#define AF_BUILD_JOB_BYTES INT64_C(7194070221)  /* 6.7 GiB */
#define AF_BUILD_BASE_BYTES INT64_C(536870912)  /* 0.5 GiB */
#define AF_BUILD_DISK_BYTES INT64_C(4294967296) /* objects, temporaries, the wheel */
#define AF_BUILD_SDIST_BYTES INT64_C(8400000)

/* Compilers at a time that `memory_bytes` and `cores` allow; 0: not even one. */
int af_build_jobs(int64_t memory_bytes, int64_t cores);

/* Minutes for `files` kernels and `targets` GPU targets with `jobs` at a time. */
int64_t af_build_minutes(int files, int targets, int jobs);

#endif
