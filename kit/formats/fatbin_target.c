/*
 * fatbin_target.c: sums up the images of a file by target; the text of a target.
 */
#include "kit/formats/fatbin.h"

#include <stdio.h>
#include <stdlib.h>

/* Sorts images by target, as they are printed. */
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

/* The same, then by container. */
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

void af_gpu_targets_find(struct af_arena *arena, struct af_gpu_code *code)
{
    size_t count = 0;
    size_t distinct = 0;
    const struct af_gpu_image **sorted =
        af_memory_alloc((code->image_count + 1) * sizeof *sorted);
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
    code->target_count = sum_up(sorted, count, targets);
    code->targets = targets;
    af_memory_free(sorted);
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
