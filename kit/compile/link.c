/*
 * link.c: links the objects into one library, and checks that it needs nothing but the C
 * library.
 *
 * The CUDA runtime and the C++ library are part of it: so it loads beside any torch, which
 * may bring another version of either, and without one.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kit/base/text.h"
#include "kit/compile/build_steps.h"
#include "kit/formats/binary.h"
#include "kit/system/file.h"

#define GLIBC "GLIBC_2."
#define GLIBC_LEAST 17 /* manylinux2014, the oldest of these tags */

static const char *const link_flags[] = {"-static-libstdc++",
                                         "-static-libgcc",
                                         "-Wl,-z,defs", /* nothing may be missing */
                                         "-Wl,-z,now",
                                         "-Wl,--gc-sections",
                                         "-Wl,--exclude-libs,ALL",
                                         "-lcudart_static",
                                         "-ldl",
                                         "-lpthread",
                                         "-lrt"};

static enum anyflash_status run_linker(struct af_build *build,
                                       const struct af_build_place *place,
                                       const struct af_build_jobs *jobs,
                                       struct anyflash_error *err)
{
    struct af_arena *arena = build->arena;
    const char *temporary = af_arena_format(arena, "TMPDIR=%s", place->temporary);
    const char *const environment[] = {temporary, NULL};
    size_t count = 0;
    const char **words =
        af_arena_array(arena, jobs->count + AF_COUNT(link_flags) + 8, sizeof *words);
    if (words == NULL || temporary == NULL)
        return af_fail_memory(err);
    words[count++] = place->host;
    words[count++] = "-shared";
    words[count++] = "-o";
    words[count++] = place->library;
    for (size_t i = 0; i < jobs->count; i++)
        words[count++] = jobs->rows[i].object;
    words[count++] = af_arena_format(arena, "-L%s/lib64", place->cuda_home);
    words[count++] = af_arena_format(arena, "-L%s/lib", place->cuda_home);
    memcpy(words + count, link_flags, sizeof link_flags);
    return arena->failed ? af_fail_memory(err)
                         : af_build_call(build, place->log, "linking", words, environment, err);
}

/* A library that every Linux with glibc has. */
static bool is_of_glibc(const char *name)
{
    static const char *const starts[] = {"libc.so.",       "libm.so.",  "libdl.so.",
                                         "libpthread.so.", "librt.so.", "ld-linux-"};
    for (size_t i = 0; i < AF_COUNT(starts); i++) {
        if (af_starts_with(name, starts[i]))
            return true;
    }
    return false;
}

static int glibc_of(const struct af_binary *binary)
{
    int need = GLIBC_LEAST;
    for (size_t i = 0; i < binary->version_need_count; i++) {
        const char *version = binary->version_needs[i].version;
        if (!af_starts_with(version, GLIBC))
            continue;
        int minor = (int)strtol(version + strlen(GLIBC), NULL, 10);
        need = minor > need ? minor : need;
    }
    return need;
}

/* The linker refuses undefined symbols, so the libraries it names are all that is missing. */
static enum anyflash_status check(const struct af_binary *binary, struct anyflash_error *err)
{
    for (size_t i = 0; i < binary->needed.count; i++) {
        if (!is_of_glibc(binary->needed.items[i]))
            return af_fail(err, ANYFLASH_E_INTERNAL,
                           "the library needs '%s', which only some systems have",
                           binary->needed.items[i]);
    }
    return ANYFLASH_OK;
}

enum anyflash_status af_build_link(struct af_build *build, const struct af_build_place *place,
                                   const struct af_build_jobs *jobs, int *glibc_out,
                                   struct anyflash_error *err)
{
    struct af_mapping mapping;
    struct af_binary binary;
    unlink(place->library); /* the linker may keep a file that is there */
    enum anyflash_status status = run_linker(build, place, jobs, err);
    if (status == ANYFLASH_OK)
        status = af_file_map(place->library, &mapping, err);
    if (status != ANYFLASH_OK)
        return status;
    const struct af_span bytes = {(const char *)mapping.data, mapping.len};
    status = af_binary_read(build->arena, bytes, place->library, &binary, err);
    if (status == ANYFLASH_OK)
        status = check(&binary, err);
    if (status == ANYFLASH_OK)
        *glibc_out = glibc_of(&binary);
    af_file_unmap(&mapping);
    return status;
}
