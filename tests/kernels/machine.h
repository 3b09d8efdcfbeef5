/*
 * machine.h: which kernels a test runs: those that this machine can run.
 *
 * ANYFLASH_TEST_KERNELS: only kernels whose name contains it.
 * ANYFLASH_TEST_FEW: fewer of the problems that take seconds each where kernels are slow.
 */
#ifndef AF_TEST_MACHINE_H
#define AF_TEST_MACHINE_H

#include <stdlib.h>
#include <string.h>

#include "engine/cpu/kernels.h"

static inline bool machine_runs(const struct af_kernel *kernel)
{
    const char *part = getenv("ANYFLASH_TEST_KERNELS");
    return (kernel->needs & ~af_cpu_features()) == 0 &&
           (part == NULL || strstr(kernel->name, part) != NULL);
}

static inline bool machine_wants_few(void)
{
    return getenv("ANYFLASH_TEST_FEW") != NULL;
}

#endif
