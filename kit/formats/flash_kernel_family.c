/*
 * flash_kernel_family.c: finds which FlashAttention kernels a library has and where: it reads
 * the names of one image per container and groups them into families.
 */
#include "kit/formats/flash_kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ENTRIES_MAX 2000000u
#define FAMILIES_MAX 1024u /* FlashAttention has fewer than two hundred */

const char *af_flash_family_text(const struct af_flash_family *family,
                                 char text[AF_FLASH_FAMILY_TEXT])
{
    const struct af_flash_kernel *kernel = &family->kernel;
    char head_dim[16] = "";
    if (kernel->head_dim >= 0)
        snprintf(head_dim, sizeof head_dim, " hdim%d", kernel->head_dim);
    snprintf(text, AF_FLASH_FAMILY_TEXT, "%s%s%s%s%s",
             af_flash_operation_text(kernel->operation), kernel->generation == 3 ? " (3)" : "",
             head_dim, kernel->dtype == NULL ? "" : " ",
             kernel->dtype == NULL ? "" : kernel->dtype);
    return text;
}

/* One kernel of one container. */
struct entry {
    struct af_flash_kernel kernel;
    uint32_t container;
};

struct collection {
    struct entry *entries;
    size_t count;
    size_t capacity;
    size_t kernel_count;
    uint32_t container;
    bool is_full;
};

static bool collect(void *context, const char *name)
{
    struct collection *all = context;
    struct entry entry = {.container = all->container};
    all->kernel_count++;
    if (!af_flash_kernel_parse(name, &entry.kernel))
        return true;
    if (all->count == all->capacity) {
        size_t capacity = all->capacity == 0 ? 256 : all->capacity * 2;
        all->is_full = capacity > ENTRIES_MAX;
        if (all->is_full)
            return false;
        all->entries = af_memory_resize(all->entries, capacity * sizeof *all->entries);
        all->capacity = capacity;
    }
    all->entries[all->count++] = entry;
    return true;
}

/*
 * The SASS image of a container whose names are cheapest to read: an
 * uncompressed one, of which only tables are read, else the smallest. NULL: no
 * SASS.
 */
static const struct af_gpu_image *cheapest(const struct af_gpu_code *code,
                                           const struct af_gpu_container *container)
{
    const struct af_gpu_image *best = NULL;
    uint64_t best_cost = UINT64_MAX;
    for (uint32_t i = 0; i < container->image_count; i++) {
        const struct af_gpu_image *image = &code->images[container->image_first + i];
        uint64_t cost = image->packing == AF_GPU_RAW ? 0 : image->raw_bytes;
        if (image->kind == AF_GPU_SASS && image->has_entry != AF_NO && cost < best_cost) {
            best = image;
            best_cost = cost;
        }
    }
    return best;
}

static int compare_text(const char *a, const char *b)
{
    return strcmp(a == NULL ? "" : a, b == NULL ? "" : b);
}

/* Sorts kernels by family, as they are printed. */
static int compare_kernels(const struct af_flash_kernel *x, const struct af_flash_kernel *y)
{
    int order = (int)x->operation - (int)y->operation;
    if (order == 0)
        order = x->generation - y->generation;
    if (order == 0)
        order = x->sm_min - y->sm_min;
    if (order == 0)
        order = compare_text(x->dtype, y->dtype);
    return order != 0 ? order : x->head_dim - y->head_dim;
}

static int compare_entries(const void *a, const void *b)
{
    const struct entry *x = a;
    const struct entry *y = b;
    int order = compare_kernels(&x->kernel, &y->kernel);
    return order != 0 ? order : (x->container > y->container) - (x->container < y->container);
}

/* Fills one family from its entries, which are sorted by container. */
static void fill_family(struct af_arena *arena, const struct entry *entries, size_t count,
                        struct af_flash_family *family)
{
    size_t containers = 0;
    for (size_t i = 0; i < count; i++)
        containers += i == 0 || entries[i].container != entries[i - 1].container ? 1 : 0;
    uint32_t *list = af_arena_array(arena, containers, sizeof *list);
    *family = (struct af_flash_family){.kernel = entries[0].kernel, .kernel_count = count};
    for (size_t i = 0; i < count; i++) {
        family->kernel.features |= entries[i].kernel.features;
        if (i == 0 || entries[i].container != entries[i - 1].container)
            list[family->container_count++] = entries[i].container;
    }
    family->containers = list;
}

/* Groups the sorted entries into families. */
static void group(struct af_arena *arena, const struct collection *all,
                  struct af_flash_kernels *out)
{
    size_t families = 0;
    for (size_t i = 0; i < all->count; i++)
        families +=
            i == 0 || compare_kernels(&all->entries[i].kernel, &all->entries[i - 1].kernel) != 0
                ? 1
                : 0;
    if (families > FAMILIES_MAX) {
        out->problem = "names of more FlashAttention kernels than there can be";
        return;
    }
    struct af_flash_family *list = af_arena_array(arena, families, sizeof *list);
    for (size_t i = 0; i < all->count;) {
        size_t end = i + 1;
        while (end < all->count &&
               compare_kernels(&all->entries[i].kernel, &all->entries[end].kernel) == 0)
            end++;
        fill_family(arena, all->entries + i, end - i, &list[out->family_count++]);
        i = end;
    }
    out->families = list;
}

/* Collects kernels from every container; images that do not decompress set `problem`. */
static enum anyflash_status collect_all(struct af_arena *arena, struct af_span file,
                                        const char *name, const struct af_gpu_code *code,
                                        struct collection *all, struct af_flash_kernels *out,
                                        struct anyflash_error *err)
{
    struct anyflash_error reason;
    for (size_t i = 0; i < code->container_count; i++) {
        const struct af_gpu_image *image =
            code->containers[i].is_relocatable ? NULL : cheapest(code, &code->containers[i]);
        if (image == NULL)
            continue;
        all->container = (uint32_t)i;
        if (af_gpu_image_kernels(file, name, image, collect, all, &reason) == ANYFLASH_OK)
            out->container_count++;
        else if (out->problem == NULL)
            out->problem = af_arena_text(arena, reason.message);
        if (all->is_full)
            return af_fail(err, ANYFLASH_E_LIMIT, "'%s' has names of too many kernels", name);
    }
    return ANYFLASH_OK;
}

enum anyflash_status af_flash_kernels_read(struct af_arena *arena, struct af_span file,
                                           const char *name, const struct af_gpu_code *code,
                                           struct af_flash_kernels *out,
                                           struct anyflash_error *err)
{
    struct collection all = {0};
    struct af_flash_kernels kernels = {0};
    enum anyflash_status status = collect_all(arena, file, name, code, &all, &kernels, err);
    if (status == ANYFLASH_OK) {
        if (all.count > 0)
            qsort(all.entries, all.count, sizeof *all.entries, compare_entries);
        group(arena, &all, &kernels);
        kernels.kernel_count = all.kernel_count;
        *out = kernels;
    }
    af_memory_free(all.entries);
    return status;
}
