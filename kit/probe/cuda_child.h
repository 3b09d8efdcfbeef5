/*
 * cuda_child.h: queries NVIDIA's driver library in a child process, because the library can
 * hang, crash and change the process it is loaded into. Private to this module.
 */
#ifndef AF_KIT_PROBE_CUDA_CHILD_H
#define AF_KIT_PROBE_CUDA_CHILD_H

#include "kit/probe/probes.h"

/*
 * Starts the child. It writes lines of words separated by tabs:
 *   library PATH            the real file that was loaded
 *   driver NUMBER           cuDriverGetVersion: 1000 * major + 10 * minor
 *   init NUMBER             result of cuInit; nothing follows unless it is 0
 *   gpu NAME MAJOR MINOR BYTES UUID PCI INTEGRATED
 * and exits with 0. Without a driver library it writes nothing.
 */
void af_probe_cuda_child_start(struct af_probe *probe, struct af_child *child);

#endif
