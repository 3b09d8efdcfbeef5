/*
 * library_search.c: where the loader would find a library, without loading anything. It looks
 * in more places than the loader, so that "nowhere" is certain.
 */
#include "kit/probe/library_search.h"

#include <string.h>

#include "kit/base/text.h"
#include "kit/probe/torch.h"
#include "kit/system/file.h"

#define LD_CACHE_BYTES_MAX (8u * 1024u * 1024u)
#define NAMES_MAX 20000u

/* The next folder of a colon-separated list, with $ORIGIN replaced; NULL at the end. */
static const char *next_folder(const struct af_probe *probe, const char **rest,
                               const char *origin)
{
    const char *at = *rest;
    if (at == NULL || at[0] == '\0')
        return NULL;
    size_t len = strcspn(at, ":");
    *rest = at[len] == '\0' ? NULL : at + len + 1;
    const char *folder = af_arena_text_n(probe->arena, at, len);
    if (folder == NULL)
        return NULL;
    static const char *const names[] = {"$ORIGIN", "${ORIGIN}"};
    for (size_t i = 0; i < AF_COUNT(names); i++) {
        if (af_starts_with(folder, names[i]))
            return af_arena_format(probe->arena, "%s%s", origin, folder + strlen(names[i]));
    }
    return af_probe_path(probe, folder);
}

/* The path of `name` in one of the folders of `list`, links resolved, or NULL. */
static const char *find_in_list(const struct af_probe *probe, const char *list,
                                const char *origin, const char *name)
{
    const char *folder;
    while ((folder = next_folder(probe, &list, origin)) != NULL) {
        const char *path = af_path_join(probe->arena, folder, name);
        if (path != NULL && af_file_is_regular(path))
            return af_file_real_path(probe->arena, path);
    }
    return NULL;
}

/* The path of `name` in ld.so.cache, whose texts are NUL-terminated paths. */
static const char *find_in_ld_cache(const struct af_probe *probe, const char *name)
{
    struct af_span cache;
    const char *path = af_probe_path(probe, "/etc/ld.so.cache");
    const char *wanted = af_arena_format(probe->arena, "/%s", name);
    if (path == NULL || wanted == NULL ||
        af_file_read(probe->arena, path, LD_CACHE_BYTES_MAX, &cache, NULL) != ANYFLASH_OK)
        return NULL;
    const char *found = memmem(cache.data, cache.len, wanted, strlen(wanted) + 1);
    if (found == NULL)
        return NULL;
    const char *start = found;
    while (start > cache.data && start[-1] != '\0' && found - start < 4000)
        start--;
    return start[0] == '/' ? af_probe_path(probe, af_arena_text(probe->arena, start)) : NULL;
}

/*
 * Searches nvidia/.../lib of the package folders, as torch itself does when ld.so finds
 * nothing.
 */
static const char *find_in_nvidia(const struct af_probe *probe, const char *name)
{
    const struct af_fact *sites = &probe->machine->python.site_packages;
    for (size_t s = 0; s < sites->value.list.count; s++) {
        const char **names;
        size_t count;
        const char *nvidia = af_path_join(probe->arena, sites->value.list.items[s], "nvidia");
        if (nvidia == NULL || af_folder_list(probe->arena, nvidia, NAMES_MAX, &names, &count,
                                             NULL, NULL) != ANYFLASH_OK)
            continue;
        for (size_t i = 0; i < count; i++) {
            const char *path =
                af_arena_format(probe->arena, "%s/%s/lib/%s", nvidia, names[i], name);
            if (path != NULL && af_file_is_regular(path))
                return path;
        }
    }
    return NULL;
}

/* Searches as ld.so does (its manual, "rpath token expansion"), then as torch does. */
const char *af_probe_library_find(const struct af_probe *probe, const struct af_dynamic *elf,
                                  const char *origin, const char *name)
{
    const char *found = NULL;
    if (elf->runpath == NULL)
        found = find_in_list(probe, elf->rpath, origin, name);
    if (found == NULL)
        found = find_in_list(probe, af_probe_variable(probe, "LD_LIBRARY_PATH"), origin, name);
    if (found == NULL)
        found = find_in_list(probe, elf->runpath, origin, name);
    if (found == NULL)
        found = find_in_ld_cache(probe, name);
    if (found == NULL)
        found = find_in_list(probe, "/lib64:/usr/lib64:/lib:/usr/lib", origin, name);
    return found == NULL ? find_in_nvidia(probe, name) : found;
}

/*
 * Libraries that come with packages of Python: torch's and CUDA's. Where a system keeps its own
 * libraries is the business of its loader; libcuda.so belongs to the driver.
 */
static bool comes_with_packages(const char *name)
{
    static const char *const starts[] = {"libc10", "libtorch", "libcu", "libnccl", "libnv"};
    if (af_starts_with(name, "libcuda.so") || af_starts_with(name, "libnvidia-"))
        return false;
    for (size_t i = 0; i < AF_COUNT(starts); i++)
        if (af_starts_with(name, starts[i]))
            return true;
    return false;
}

/* Whether torch has it: then it is loaded already, or is in torch's own folder. */
static bool torch_has(const struct af_probe *probe, const char *name)
{
    const struct af_torch *torch = &probe->machine->torch;
    const char *folder = af_fact_text_or(&torch->path, NULL);
    const char *path = folder == NULL ? NULL : af_probe_torch_library(probe, folder, name);
    return (path != NULL && af_file_exists(path)) ||
           (af_fact_is(&torch->cudart_soname, name) &&
            torch->cudart_path.state == AF_FACT_KNOWN);
}

static bool is_listed(const struct af_probe_missing *missing, const char *name)
{
    for (size_t i = 0; i < missing->count; i++)
        if (af_equal(missing->names[i], name))
            return true;
    return false;
}

bool af_probe_library_check(const struct af_probe *probe, const char *path,
                            struct af_probe_missing *missing)
{
    struct af_probe_elf elf;
    if (af_probe_elf_open(probe, path, &elf, NULL) != ANYFLASH_OK)
        return false;
    const char *real = af_file_real_path(probe->arena, path);
    const char *origin = af_path_folder(probe->arena, real == NULL ? path : real);
    for (size_t i = 0; origin != NULL && i < elf.dynamic.needed_count; i++) {
        const char *name = elf.dynamic.needed[i];
        if (missing->count < AF_PROBE_MISSING_MAX && comes_with_packages(name) &&
            !is_listed(missing, name) && !torch_has(probe, name) &&
            af_probe_library_find(probe, &elf.dynamic, origin, name) == NULL)
            missing->names[missing->count++] = af_arena_text(probe->arena, name);
    }
    af_probe_elf_close(&elf);
    return true;
}
