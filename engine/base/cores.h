/*
 * cores.h: how many threads are worth starting here.
 */
#ifndef AF_ENGINE_BASE_CORES_H
#define AF_ENGINE_BASE_CORES_H

/*
 * Cores that the affinity mask leaves this process, at most the CPU quota of
 * its control group (v2 or v1, as a container sees it), at least 1. Reads a few
 * small files.
 */
int af_usable_cores(void);

#endif
