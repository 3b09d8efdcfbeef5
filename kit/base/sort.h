/*
 * sort.h: a stable sort, so that equal items keep their order on every platform.
 */
#ifndef AF_KIT_BASE_SORT_H
#define AF_KIT_BASE_SORT_H

#include <stddef.h>

/*
 * Negative if `a` comes before `b`, 0 if they are equal, positive if `a` comes
 * after `b`.
 */
typedef int af_sort_compare(const void *a, const void *b, const void *context);

/*
 * Sorts `count` items of `size_bytes` (at most 256) in place, without
 * allocating. O(n log^2 n) moves.
 */
void af_sort(void *items, size_t count, size_t size_bytes, af_sort_compare *compare,
             const void *context);

#endif
