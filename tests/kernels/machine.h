/*
 * machine.h: which kernels a test runs: those that this machine can run.
 *
 * ANYFLASH_TEST_KERNELS: only kernels whose name contains it.
 */
#ifndef AF_TEST_MACHINE_H
#define AF_TEST_MACHINE_H

#include <stdlib.h>
#include <string.h>

#include "engine/attn/kernel.h"

/* The instruction sets of this machine, without AMX if the system refuses it. */
static inline uint32_t machine_features(void)
{
    const uint32_t found = af_cpu_features();
    return af_cpu_permit_amx() ? found : found & ~(uint32_t)AF_CPU_AMX;
}

static inline bool machine_runs(const struct af_kernel *kernel)
{
    const char *part = getenv("ANYFLASH_TEST_KERNELS");
    return (kernel->needs & ~machine_features()) == 0 &&
           (part == NULL || strstr(kernel->name, part) != NULL);
}

#endif
