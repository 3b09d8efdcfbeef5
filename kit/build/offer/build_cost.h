/*
 * build_cost.h: what a source build of flash-attn 2 needs, as measured with
 * 2.8.3.post2, CUDA 13.0 and gcc 12. What one selection of kernels costs is
 * plan/slim.h's.
 *
 * The largest compiler process of all (backward, head size 256) takes 6.7 GiB
 * with one thread, that of head size 128 6.2 GiB; the build itself 0.5 GiB.
 */
#ifndef AF_KIT_BUILD_OFFER_BUILD_COST_H
#define AF_KIT_BUILD_OFFER_BUILD_COST_H

#include "engine/base/base.h"

#define AF_OFFER_BUILD_FLASH_ATTN "2.8.3.post2" /* what `anyflash build` makes */

#define AF_OFFER_BUILD_JOB_BYTES INT64_C(7194070221)  /* 6.7 GiB */
#define AF_OFFER_BUILD_SLIM_BYTES INT64_C(6657199308) /* 6.2 GiB */
#define AF_OFFER_BUILD_BASE_BYTES INT64_C(536870912)  /* 0.5 GiB */
#define AF_OFFER_BUILD_SDIST_BYTES INT64_C(8400000)
#define AF_OFFER_BUILD_TOOLS_BYTES INT64_C(3000000)     /* setuptools, ninja, ... */
#define AF_OFFER_BUILD_TOOLKIT_BYTES INT64_C(103000000) /* the index's compiler, to download */

/* On disk: unpacked sources, tools, the index's compiler, one compiler's temporaries. */
#define AF_OFFER_BUILD_SOURCES_DISK INT64_C(125000000)
#define AF_OFFER_BUILD_TOOLS_DISK INT64_C(30000000)
#define AF_OFFER_BUILD_TOOLKIT_DISK INT64_C(270000000)
#define AF_OFFER_BUILD_COMPILER_DISK INT64_C(130000000)
#define AF_OFFER_BUILD_DISK_BYTES INT64_C(1610612736) /* a slim build with some room: 1.5 GiB */

/* Compilers at a time that `memory_bytes` and `cores` allow; 0: not even one. */
int af_offer_build_jobs(int64_t memory_bytes, int64_t cores);

#endif
