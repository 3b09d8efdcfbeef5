/*
 * fatbin.c: the GPU code of a file: finds where containers lie, has them walked,
 * looks into cubins that may be empty, and sums up by target. Called by the
 * proof and by `inspect`.
 */
#include "kit/formats/fatbin.h"

#include "kit/formats/cubin.h"
#include "kit/formats/elf.h"
#include "kit/formats/fatbin_walk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A cubin with a kernel takes more; nvcc's empty ones take half. */
#define MAYBE_EMPTY_BYTES 4096u

#define SECTION_LOADED ".nv_fatbin"
#define SECTION_RELOCATABLE "__nv_relfatbin"
#define SECTION_WRAPPERS ".nvFatBinSegment"

const char *af_gpu_kind_text(enum af_gpu_kind kind)
{
    static const char *const texts[] = {"SASS", "PTX", "LTO-IR", "other"};
    return texts[kind];
}

const char *af_gpu_packing_text(enum af_gpu_packing packing)
{
    static const char *const texts[] = {"none", "lz4", "zstd"};
    return texts[packing];
}

/* Walks what section `index` holds, when it is one of ours. */
static enum anyflash_status walk_section(struct af_fatbin_walk *walk, const struct af_elf *elf,
                                         uint32_t index, struct af_gpu_code *code,
                                         struct anyflash_error *err)
{
    struct af_elf_part part;
    bool same[3] = {false, false, false};
    static const char *const names[] = {SECTION_LOADED, SECTION_RELOCATABLE, SECTION_WRAPPERS};
    enum anyflash_status status = af_elf_section(elf, index, &part, err);
    for (size_t i = 0; status == ANYFLASH_OK && part.is_inside && i < AF_COUNT(names); i++)
        status = af_elf_section_is_named(elf, &part, names[i], &same[i], err);
    if (status != ANYFLASH_OK)
        return status;
    uint64_t end = part.offset + part.len;
    if (same[0] || same[1])
        return af_fatbin_walk_range(walk, part.offset, end, same[1], false, err);
    if (same[2])
        return af_fatbin_count_wrappers(walk, part.offset, end, &code->wrapper_count, err);
    return ANYFLASH_OK;
}

static enum anyflash_status walk_segments(struct af_fatbin_walk *walk, const struct af_elf *elf,
                                          struct anyflash_error *err)
{
    enum anyflash_status status = ANYFLASH_OK;
    for (uint32_t i = 0; status == ANYFLASH_OK && i < elf->segment_count; i++) {
        struct af_elf_part part;
        status = af_elf_segment(elf, i, &part, err);
        if (status == ANYFLASH_OK && part.is_inside && part.type == AF_ELF_SEGMENT_LOAD)
            status = af_fatbin_walk_range(walk, (part.offset + 7) / 8 * 8,
                                          part.offset + part.len, false, true, err);
    }
    return status;
}

static enum anyflash_status walk_file(struct af_fatbin_walk *walk, struct af_gpu_code *code,
                                      struct anyflash_error *err)
{
    struct af_elf elf;
    enum anyflash_status status =
        af_elf_open(walk->source, 0, walk->source->size_bytes, &elf, err);
    if (status != ANYFLASH_OK)
        return status;
    if (!elf.is_64 || !elf.is_little_endian)
        return af_fail(err, ANYFLASH_E_DATA, "'%s' is not a 64-bit little-endian ELF file",
                       walk->source->name);
    if (elf.section_count == 0) {
        code->was_searched = true;
        return walk_segments(walk, &elf, err);
    }
    for (uint32_t i = 0; status == ANYFLASH_OK && i < elf.section_count; i++)
        status = walk_section(walk, &elf, i, code, err);
    return status;
}

static bool stop_at_first(void *context, const char *name)
{
    (void)name;
    *(bool *)context = true;
    return false;
}

/* Looks for kernels in cubins so small that they may hold none. */
static enum anyflash_status look_into_small(struct af_fatbin_walk *walk,
                                            struct anyflash_error *err)
{
    for (size_t i = 0; i < walk->image_count; i++) {
        struct af_gpu_image *image = &walk->images[i];
        bool found = false;
        if (image->kind != AF_GPU_SASS || image->raw_bytes > MAYBE_EMPTY_BYTES ||
            walk->containers[image->container].is_relocatable)
            continue;
        enum anyflash_status status =
            af_gpu_image_kernels(walk->source, image, stop_at_first, &found, err);
        if (status == ANYFLASH_OK)
            image->has_entry = found ? AF_YES : AF_NO;
        else if (status != ANYFLASH_E_DATA && status != ANYFLASH_E_LIMIT)
            return status;
    }
    return ANYFLASH_OK;
}

/* What makes images one target; ordered as they are shown. */
static int compare_targets(const void *a, const void *b)
{
    const struct af_gpu_image *x = *(const struct af_gpu_image *const *)a;
    const struct af_gpu_image *y = *(const struct af_gpu_image *const *)b;
    long order = (long)x->kind - (long)y->kind;
    if (order == 0)
        order = (long)x->kind_number - (long)y->kind_number;
    if (order == 0)
        order = (long)x->sm - (long)y->sm;
    if (order == 0)
        order = (long)x->suffix - (long)y->suffix;
    return (order > 0) - (order < 0);
}

/* The same; within a target by container. */
static int compare_images(const void *a, const void *b)
{
    const struct af_gpu_image *x = *(const struct af_gpu_image *const *)a;
    const struct af_gpu_image *y = *(const struct af_gpu_image *const *)b;
    int order = compare_targets(a, b);
    return order != 0 ? order : (x->container > y->container) - (x->container < y->container);
}

static void add_to_target(struct af_gpu_target *target, const struct af_gpu_image *image,
                          bool is_new_container)
{
    bool is_newer = image->version_major > target->version_major ||
                    (image->version_major == target->version_major &&
                     image->version_minor > target->version_minor);
    if (image->kind == AF_GPU_PTX && is_newer) {
        target->version_major = image->version_major;
        target->version_minor = image->version_minor;
    }
    target->image_count++;
    target->container_count += is_new_container ? 1 : 0;
    target->lz4_count += image->packing == AF_GPU_LZ4 ? 1 : 0;
    target->zstd_count += image->packing == AF_GPU_ZSTD ? 1 : 0;
    target->stored_bytes += image->stored_bytes;
}

static size_t sum_up(const struct af_gpu_image *const *sorted, size_t count,
                     struct af_gpu_target *targets)
{
    size_t target_count = 0;
    for (size_t i = 0; i < count; i++) {
        bool is_new = i == 0 || compare_targets(&sorted[i - 1], &sorted[i]) != 0;
        if (is_new)
            targets[target_count++] = (struct af_gpu_target){
                .kind = sorted[i]->kind,
                .kind_number = sorted[i]->kind_number,
                .sm = sorted[i]->sm,
                .suffix = sorted[i]->suffix,
            };
        add_to_target(&targets[target_count - 1], sorted[i],
                      is_new || sorted[i - 1]->container != sorted[i]->container);
    }
    return target_count;
}

enum anyflash_status af_fatbin_sum_up(struct af_arena *arena, struct af_gpu_code *code,
                                      struct anyflash_error *err)
{
    size_t count = 0;
    size_t distinct = 0;
    const struct af_gpu_image **sorted = af_mem_alloc((code->image_count + 1) * sizeof *sorted);
    if (sorted == NULL)
        return af_fail_memory(err);
    for (size_t i = 0; i < code->image_count; i++) {
        const struct af_gpu_image *image = &code->images[i];
        if (code->containers[image->container].is_relocatable)
            code->relocatable_image_count++;
        else if (image->has_entry == AF_NO)
            code->empty_count++;
        else
            sorted[count++] = image;
    }
    for (size_t i = 0; i < code->container_count; i++)
        code->relocatable_container_count += code->containers[i].is_relocatable ? 1 : 0;
    qsort(sorted, count, sizeof *sorted, compare_images);
    for (size_t i = 0; i < count; i++)
        distinct += i == 0 || compare_targets(&sorted[i - 1], &sorted[i]) != 0 ? 1 : 0;
    struct af_gpu_target *targets = af_arena_array(arena, distinct, sizeof *targets);
    if (targets != NULL || distinct == 0)
        code->target_count = sum_up(sorted, count, targets);
    code->targets = targets;
    af_mem_free(sorted);
    return arena->failed ? af_fail_memory(err) : ANYFLASH_OK;
}

/* Why the lists may lack something; NULL: they do not. */
static const char *find_problem(struct af_arena *arena, const struct af_fatbin_walk *walk,
                                const struct af_gpu_code *code)
{
    if (walk->is_full)
        return af_arena_format(arena, "more than %u images, or containers that are none",
                               AF_GPU_IMAGES_MAX);
    if (walk->strange_bytes > 0)
        return af_arena_format(arena, "%llu bytes from offset %llu on are no GPU code we know",
                               (unsigned long long)walk->strange_bytes,
                               (unsigned long long)walk->strange_at);
    if (code->wrapper_count > (int64_t)walk->container_count)
        return af_arena_format(arena, "%lld containers are registered, %zu were found",
                               (long long)code->wrapper_count, walk->container_count);
    return NULL;
}

/* From the lists of the walk to *out. */
static enum anyflash_status publish(struct af_arena *arena, const struct af_fatbin_walk *walk,
                                    struct af_gpu_code *code, struct anyflash_error *err)
{
    struct af_gpu_container *containers =
        af_arena_array(arena, walk->container_count, sizeof *containers);
    struct af_gpu_image *images = af_arena_array(arena, walk->image_count, sizeof *images);
    if (arena->failed)
        return af_fail_memory(err);
    if (walk->container_count > 0)
        memcpy(containers, walk->containers, walk->container_count * sizeof *containers);
    if (walk->image_count > 0)
        memcpy(images, walk->images, walk->image_count * sizeof *images);
    code->containers = containers;
    code->container_count = walk->container_count;
    code->images = images;
    code->image_count = walk->image_count;
    code->problem = find_problem(arena, walk, code);
    return af_fatbin_sum_up(arena, code, err);
}

static enum anyflash_status read_code(struct af_arena *arena, struct af_source *source,
                                      bool is_section, struct af_gpu_code *out,
                                      struct anyflash_error *err)
{
    struct af_fatbin_walk walk = {.source = source};
    struct af_gpu_code code = {.wrapper_count = -1};
    enum anyflash_status status =
        is_section ? af_fatbin_walk_range(&walk, 0, source->size_bytes, false, false, err)
                   : walk_file(&walk, &code, err);
    if (status == ANYFLASH_OK)
        status = look_into_small(&walk, err);
    if (status == ANYFLASH_OK)
        status = publish(arena, &walk, &code, err);
    if (status == ANYFLASH_OK)
        *out = code;
    af_fatbin_walk_release(&walk);
    return status;
}

enum anyflash_status af_gpu_code_read(struct af_arena *arena, struct af_source *file,
                                      struct af_gpu_code *out, struct anyflash_error *err)
{
    return read_code(arena, file, false, out, err);
}

enum anyflash_status af_gpu_code_read_bytes(struct af_arena *arena, struct af_span bytes,
                                            const char *name, bool is_section,
                                            struct af_gpu_code *out, struct anyflash_error *err)
{
    struct af_source source;
    af_source_of_bytes(bytes, name, &source);
    enum anyflash_status status = read_code(arena, &source, is_section, out, err);
    af_source_close(&source);
    return status;
}

const char *af_gpu_target_text(const struct af_gpu_target *target,
                               char text[AF_GPU_TARGET_TEXT])
{
    static const char *const starts[] = {"sm_", "compute_", "lto_"};
    const char suffix[2] = {target->suffix, '\0'};
    if (target->kind == AF_GPU_OTHER)
        snprintf(text, AF_GPU_TARGET_TEXT, "kind %u of %d%s", target->kind_number, target->sm,
                 suffix);
    else
        snprintf(text, AF_GPU_TARGET_TEXT, "%s%d%s", starts[target->kind], target->sm, suffix);
    return text;
}
