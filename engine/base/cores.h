/*
 * cores.h: how many threads the engine should start.
 */
#ifndef AF_ENGINE_BASE_CORES_H
#define AF_ENGINE_BASE_CORES_H

/*
 * Returns the cores in this process's affinity mask, on Linux limited by the CPU
 * quota of its cgroup (v2 or v1, as seen in a container; reads a few small files), at
 * least 1. macOS has no affinity: all cores. On Windows, a machine with more than 64
 * cores has several processor groups; only the process's own group is counted.
 */
int af_usable_cores(void);

#endif
