/*
 * sort.c: merges sorted runs in place by rotations.
 * Source: Kim and Kutzner, "Stable Minimum Storage Merging by Symmetric
 * Comparisons" (2004).
 */
#include "kit/base/sort.h"

#include <assert.h>
#include <string.h>

#define ITEM_BYTES_MAX 256u

struct sorter {
    char *items;
    size_t size_bytes;
    af_sort_compare *compare;
    const void *context;
};

static char *item(const struct sorter *sorter, size_t index)
{
    return sorter->items + index * sorter->size_bytes;
}

/* Whether item `a` must come before item `b`. */
static int is_less(const struct sorter *sorter, size_t a, size_t b)
{
    return sorter->compare(item(sorter, a), item(sorter, b), sorter->context) < 0;
}

static void swap(const struct sorter *sorter, size_t a, size_t b)
{
    char kept[ITEM_BYTES_MAX];
    memcpy(kept, item(sorter, a), sorter->size_bytes);
    memcpy(item(sorter, a), item(sorter, b), sorter->size_bytes);
    memcpy(item(sorter, b), kept, sorter->size_bytes);
}

static void reverse(const struct sorter *sorter, size_t begin, size_t end)
{
    while (begin + 1 < end)
        swap(sorter, begin++, --end);
}

/* Swaps [begin, middle) and [middle, end). */
static void rotate(const struct sorter *sorter, size_t begin, size_t middle, size_t end)
{
    reverse(sorter, begin, middle);
    reverse(sorter, middle, end);
    reverse(sorter, begin, end);
}

/* Merges the sorted ranges [begin, middle) and [middle, end). */
static void merge(const struct sorter *sorter, size_t begin, size_t middle, size_t end)
{
    if (begin == middle || middle == end || !is_less(sorter, middle, middle - 1))
        return;
    if (end - begin == 2) {
        swap(sorter, begin, middle);
        return;
    }
    size_t half = begin + (end - begin) / 2;
    size_t sum = half + middle;
    size_t low = middle > half ? sum - end : begin;
    size_t high = middle > half ? half : middle;
    while (low < high) { /* where to cut the ranges so that both halves have equal shares */
        size_t cut = low + (high - low) / 2;
        if (is_less(sorter, sum - 1 - cut, cut))
            high = cut;
        else
            low = cut + 1;
    }
    size_t other = sum - low;
    rotate(sorter, low, middle, other);
    merge(sorter, begin, low, half);
    merge(sorter, half, other, end);
}

void af_sort(void *items, size_t count, size_t size_bytes, af_sort_compare *compare,
             const void *context)
{
    const struct sorter sorter = {items, size_bytes, compare, context};
    assert(size_bytes <= ITEM_BYTES_MAX);
    for (size_t run = 1; run < count; run *= 2) {
        for (size_t begin = 0; begin + run < count; begin += 2 * run)
            merge(&sorter, begin, begin + run,
                  begin + 2 * run < count ? begin + 2 * run : count);
    }
}
