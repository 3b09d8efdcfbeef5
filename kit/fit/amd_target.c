/*
 * amd_target.c: reads the rows of data/amd_targets.tsv.
 */
#include "kit/fit/amd_target.h"

#include <string.h>

#include "kit/formats/embedded.h"

enum { TARGET, NAME, KERNELS, BACKEND, AITER };

static bool matches(const char *glob, const char *target)
{
    const size_t len = strcspn(glob, "*");
    return strncmp(glob, target, len) == 0 && (glob[len] == '*' || target[len] == '\0');
}

static enum af_amd_kernels kernels_of(const char *text)
{
    return text[0] == 'f'   ? AF_AMD_KERNELS_FULL
           : text[0] == 'e' ? AF_AMD_KERNELS_EXPERIMENTAL
           : text[0] == 'n' ? AF_AMD_KERNELS_NONE
                            : AF_AMD_KERNELS_UNKNOWN;
}

static enum af_amd_backend backend_of(const char *text)
{
    return text[0] == 'c'   ? AF_AMD_BACKEND_CK
           : text[0] == 't' ? AF_AMD_BACKEND_TRITON
                            : AF_AMD_BACKEND_NONE;
}

struct af_amd_target af_amd_target_of(const char *target)
{
    const char *const(*row)[5] = af_embedded_amd_targets;
    while ((*row)[TARGET] != NULL && !matches((*row)[TARGET], target))
        row++;
    if ((*row)[TARGET] == NULL)
        return (struct af_amd_target){0};
    return (struct af_amd_target){kernels_of((*row)[KERNELS]), backend_of((*row)[BACKEND]),
                                  (*row)[AITER][0] != '-'};
}
