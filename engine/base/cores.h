/*
 * cores.h: how many threads the engine should start.
 */
#ifndef AF_ENGINE_BASE_CORES_H
#define AF_ENGINE_BASE_CORES_H

/*
 * Returns the cores in this process's affinity mask, limited by the CPU quota of
 * its cgroup (v2 or v1, as seen in a container), at least 1. Reads a few small
 * files.
 */
int af_usable_cores(void);

#endif
