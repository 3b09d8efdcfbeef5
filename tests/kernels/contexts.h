/*
 * contexts.h: contexts of 1, 2 and 3 threads, made once for all tests of a program.
 */
#ifndef AF_TEST_CONTEXTS_H
#define AF_TEST_CONTEXTS_H

#include <stddef.h>

#include "anyflash/anyflash.h"

#define POOLS 3

static struct anyflash_context *contexts[POOLS]; /* of 1, 2 and 3 threads */

static inline int make_contexts(void **state)
{
    (void)state;
    for (int n = 0; n < POOLS; n++) {
        struct anyflash_context_args args = {.struct_size = sizeof args, .threads = n + 1};
        if (anyflash_context_new(&args, &contexts[n], NULL) != ANYFLASH_OK)
            return 1;
    }
    return 0;
}

static inline int free_contexts(void **state)
{
    (void)state;
    for (int n = 0; n < POOLS; n++)
        anyflash_context_free(contexts[n]);
    return 0;
}

#endif
