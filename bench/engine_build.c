/*
 * engine_build.c: the functions that this program is linked with, and those of a
 * library that it loads.
 */
#include "bench/engine_build.h"

#include <dlfcn.h>

#include "engine/base/loaded.h"
#include "kit/base/text.h"

const struct af_bench_build af_bench_own_build = {anyflash_context_new, anyflash_context_free,
                                                  anyflash_attend, anyflash_attend_backward};

enum anyflash_status af_bench_build_load(const char *path, struct af_bench_build *build_out,
                                         struct anyflash_error *err)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return af_fail(err, ANYFLASH_E_NOT_FOUND, "cannot load the library: %s", dlerror());
#define LOAD(member)                                                                           \
    if (!af_loaded_function(library, "anyflash_" #member, &build_out->member,                  \
                            sizeof build_out->member))                                         \
        return af_fail(err, ANYFLASH_E_DATA, "'%s' does not export anyflash_" #member, path);
    LOAD(context_new)
    LOAD(context_free)
    LOAD(attend)
    LOAD(attend_backward)
#undef LOAD
    return ANYFLASH_OK;
}
