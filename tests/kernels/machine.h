/*
 * machine.h: which kernels a test runs: those that this machine can run.
 *
 * ANYFLASH_TEST_KERNELS: only kernels whose name contains it.
 */
#ifndef AF_TEST_MACHINE_H
#define AF_TEST_MACHINE_H

#include <stdlib.h>
#include <string.h>

#include "engine/cpu/manifest.h"

static inline bool machine_runs(const struct af_kernel *kernel)
{
    const char *part = getenv("ANYFLASH_TEST_KERNELS");
    return (kernel->needs & ~af_cpu_features()) == 0 &&
           (part == NULL || strstr(kernel->name, part) != NULL);
}

#endif
