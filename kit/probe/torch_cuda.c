/*
 * torch_cuda.c: the CUDA side of torch: which CUDA runtime it needs and would load, and for
 * which GPUs it was compiled. Called by torch.c.
 */
#include "kit/base/text.h"
#include "kit/probe/elf_file.h"
#include "kit/probe/library_search.h"
#include "kit/probe/torch.h"
#include "kit/system/file.h"

#include <ctype.h>
#include <string.h>

#define TARGETS_MAX 64u
#define TARGETS_BYTES_MAX 512u

static void set_cudart(const struct af_probe *probe, const struct af_dynamic *elf,
                       const char *path, const char *name)
{
    struct af_torch *torch = &probe->machine->torch;
    const char *real = af_file_real_path(probe->arena, path);
    const char *origin = af_path_folder(probe->arena, real == NULL ? path : real);
    af_fact_text(probe->arena, &torch->cudart_soname, name, path);
    const char *found = origin == NULL ? NULL : af_probe_library_find(probe, elf, origin, name);
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

/*
 * libtorch_global_deps.so only names what must be loaded before torch's other libraries; torch
 * loads it first.
 */
void af_probe_torch_probe_missing(const struct af_probe *probe, const char *folder)
{
    struct af_fact *fact = &probe->machine->torch.missing_libraries;
    struct af_probe_missing missing = {0};
    const char *path = af_probe_torch_library(probe, folder, "libtorch_global_deps.so");
    if (path == NULL)
        return;
    if (!af_probe_library_check(probe, path, &missing))
        af_fact_unknown(probe->arena, fact, "'%s' cannot be read as an ELF file", path);
    else
        af_fact_list(probe->arena, fact, missing.names, missing.count, path);
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
