/*
 * torch_cuda.c: the CUDA side of torch: which CUDA runtime it needs and would load, and for
 * which GPUs it was compiled. Called by torch.c.
 */
#include "kit/base/text.h"
#include "kit/probe/elf_file.h"
#include "kit/probe/torch.h"
#include "kit/system/file.h"

#include <ctype.h>
#include <string.h>

#define LD_CACHE_BYTES_MAX (8u * 1024u * 1024u)
#define NAMES_MAX 20000u
#define TARGETS_MAX 64u
#define TARGETS_BYTES_MAX 512u

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
static const char *find_cudart(const struct af_probe *probe, const struct af_dynamic *elf,
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

static void set_cudart(const struct af_probe *probe, const struct af_dynamic *elf,
                       const char *path, const char *name)
{
    struct af_torch *torch = &probe->machine->torch;
    const char *real = af_file_real_path(probe->arena, path);
    const char *origin = af_path_folder(probe->arena, real == NULL ? path : real);
    af_fact_text(probe->arena, &torch->cudart_soname, name, path);
    const char *found = origin == NULL ? NULL : find_cudart(probe, elf, origin, name);
    if (found != NULL)
        af_fact_text(probe->arena, &torch->cudart_path, found, "search order of ld.so");
    else
        af_fact_absent(probe->arena, &torch->cudart_path,
                       "run path, LD_LIBRARY_PATH, ld.so.cache, nvidia/*/lib");
}

void af_probe_torch_probe_cudart(const struct af_probe *probe, const char *folder)
{
    struct af_torch *torch = &probe->machine->torch;
    struct anyflash_error err = {0};
    struct af_probe_elf elf;
    const char *name = NULL;
    if (torch->cuda.state == AF_FACT_ABSENT) {
        af_fact_absent(probe->arena, &torch->cudart_soname, torch->cuda.source);
        af_fact_absent(probe->arena, &torch->cudart_path, torch->cuda.source);
        return;
    }
    const char *path = af_probe_torch_library(probe, folder, "libc10_cuda.so");
    if (path == NULL)
        return;
    if (af_probe_elf_open(probe, path, &elf, &err) != ANYFLASH_OK) {
        af_fact_unknown(probe->arena, &torch->cudart_soname, "%s", err.message);
        af_fact_unknown(probe->arena, &torch->cudart_path, "%s", err.message);
        return;
    }
    for (size_t i = 0; i < elf.dynamic.needed_count; i++) {
        if (af_starts_with(elf.dynamic.needed[i], "libcudart.so") && name == NULL)
            name = elf.dynamic.needed[i];
    }
    if (name != NULL) {
        set_cudart(probe, &elf.dynamic, path, name);
    } else {
        af_fact_absent(probe->arena, &torch->cudart_soname, path);
        af_fact_absent(probe->arena, &torch->cudart_path, path);
    }
    af_probe_elf_close(&elf);
}

/* Length of "sm_90a" or "compute_120" at `at`, 0 if there is none. */
static size_t target_len(const char *at, const char *end)
{
    static const char *const starts[] = {"sm_", "compute_"};
    for (size_t i = 0; i < AF_COUNT(starts); i++) {
        size_t len = strlen(starts[i]);
        if ((size_t)(end - at) <= len || memcmp(at, starts[i], len) != 0)
            continue;
        size_t digits = 0;
        while (at + len < end && isdigit((unsigned char)at[len]) && digits < 4) {
            len++;
            digits++;
        }
        if (at + len < end && (at[len] == 'a' || at[len] == 'f'))
            len++;
        return digits >= 2 ? len : 0;
    }
    return 0;
}

/* Length of a list "sm_80 sm_90 compute_90" that ends in NUL; 0 if there is none. */
static size_t targets_len(const char *at, const char *end, size_t *count_out)
{
    const char *from = at;
    *count_out = 0;
    while ((size_t)(at - from) < TARGETS_BYTES_MAX && *count_out < TARGETS_MAX) {
        size_t len = target_len(at, end);
        if (len == 0 || at + len >= end)
            return 0;
        ++*count_out;
        at += len;
        if (*at == '\0')
            return (size_t)(at - from);
        if (*at++ != ' ')
            return 0;
    }
    return 0;
}

/*
 * Finds the list of torch.cuda.get_arch_list(), which is one text in .rodata. The compiler may
 * put it directly behind other bytes, so only its end is certain; of several lists the longest
 * is used.
 */
static bool find_targets(struct af_span bytes, struct af_span *found_out)
{
    const char *at = bytes.data;
    const char *end = bytes.data + bytes.len;
    size_t best = 0;
    while (bytes.len > 0 && (at = memmem(at, (size_t)(end - at), "sm_", 3)) != NULL) {
        size_t count;
        size_t len = targets_len(at, end, &count);
        if (count > best && len > 0) {
            best = count;
            *found_out = (struct af_span){at, len};
        }
        at += len > 0 ? len : 3;
    }
    return best > 0;
}

static void set_targets(const struct af_probe *probe, struct af_span list, const char *path)
{
    const char *items[TARGETS_MAX];
    size_t count = 0;
    size_t at = 0;
    while (at < list.len && count < TARGETS_MAX) {
        const char *space = memchr(list.data + at, ' ', list.len - at);
        size_t end = space == NULL ? list.len : (size_t)(space - list.data);
        const char *item = af_arena_text_n(probe->arena, list.data + at, end - at);
        if (item != NULL)
            items[count++] = item;
        at = end + 1;
    }
    af_fact_list(probe->arena, &probe->machine->torch.gpu_targets, items, count, path);
}

void af_probe_torch_probe_targets(const struct af_probe *probe, const char *folder)
{
    struct af_torch *torch = &probe->machine->torch;
    struct anyflash_error err = {0};
    struct af_probe_elf elf;
    struct af_span bytes;
    struct af_span list;
    if (torch->cuda.state == AF_FACT_ABSENT) {
        af_fact_absent(probe->arena, &torch->gpu_targets, torch->cuda.source);
        return;
    }
    const char *path = af_probe_torch_library(probe, folder, "libtorch_python.so");
    if (path == NULL)
        return;
    if (af_probe_elf_open(probe, path, &elf, &err) != ANYFLASH_OK) {
        af_fact_unknown(probe->arena, &torch->gpu_targets, "%s", err.message);
        return;
    }
    if (af_elf_section_bytes(&elf.dynamic.elf, ".rodata", &bytes) && find_targets(bytes, &list))
        set_targets(probe, list, path);
    else
        af_fact_unknown(probe->arena, &torch->gpu_targets, "'%s' holds no list of targets",
                        path);
    af_probe_elf_close(&elf);
}
