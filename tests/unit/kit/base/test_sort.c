/*
 * test_sort.c: sorting is correct and stable for every length around the run
 * length.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kit/base/sort.h"

#define ITEMS_MAX 300u

struct pair {
    int key;
    int place; /* before sorting */
};

static int by_key(const void *a, const void *b, const void *context)
{
    const struct pair *left = a, *right = b;
    int sign = *(const int *)context;
    return sign * ((left->key > right->key) - (left->key < right->key));
}

static void check(size_t count, unsigned keys, int sign)
{
    struct pair pairs[ITEMS_MAX];
    uint32_t seed = (uint32_t)count * 2654435761u + keys;
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        pairs[i] = (struct pair){(int)(seed >> 16) % (int)keys, (int)i};
    }
    af_sort(pairs, count, sizeof pairs[0], by_key, &sign);
    for (size_t i = 1; i < count; i++) {
        int order = by_key(&pairs[i - 1], &pairs[i], &sign);
        assert_true(order <= 0);
        if (order == 0)
            assert_true(pairs[i - 1].place < pairs[i].place);
    }
}

static void test_sort__keeps_the_order_of_equal_items(void **state)
{
    (void)state;
    for (size_t count = 0; count <= ITEMS_MAX; count++) {
        check(count, 1, 1);
        check(count, 3, -1);
        check(count, 1000, 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sort__keeps_the_order_of_equal_items),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
