/*
 * every_allocation.h: repeats an operation with its 1st allocation failing, then
 * its 2nd, and so on, until a run needs fewer allocations than that:
 *
 *     struct every_allocation each = {.all_after = true};
 *     while (every_allocation_next(&each)) {
 *         ... prepare; allocations succeed here ...
 *         every_allocation_begin(&each);
 *         status = operation();
 *         every_allocation_end(&each);
 *         every_allocation_check(&each, status, NULL);
 *         ... what a failure must leave alone: if (each.failed) ...
 *     }
 *
 * The loop ends after the first run without a failure, and the test fails if no
 * run had one.
 */
#ifndef EVERY_ALLOCATION_H
#define EVERY_ALLOCATION_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/base/base.h"
#include "engine/base/mem.h"

#define EVERY_ALLOCATION_MAX 200000u

struct every_allocation {
    size_t nth;     /* the allocation that fails in this run; set it to skip the first ones */
    bool all_after; /* all later ones fail, too; may change from run to run */
    bool failed;    /* whether the last run reached that allocation */
    size_t failed_count; /* runs in which an allocation failed */
    size_t at_least;     /* how many there must be at least; 0: one */
    size_t
        skip_part; /* when runs take long: after the n-th, n / skip_part are skipped; 0: none */
    size_t run_count; /* private */
};

/* Whether there is another run. */
static inline bool every_allocation_next(struct every_allocation *each)
{
    if (each->run_count++ > 0 && !each->failed) {
        size_t at_least = each->at_least > 0 ? each->at_least : 1;
        if (each->failed_count < at_least)
            fail_msg("%zu runs had a failed allocation; at least %zu were expected",
                     each->failed_count, at_least);
        return false;
    }
    if (each->skip_part > 0)
        each->nth += each->nth / each->skip_part;
    if (++each->nth > EVERY_ALLOCATION_MAX)
        fail_msg("no run succeeds: the operation still needs allocation %zu", each->nth);
    return true;
}

/* From here on allocation number each->nth fails. */
static inline void every_allocation_begin(struct every_allocation *each)
{
    af_mem_fail_nth(each->nth, each->all_after);
}

/* Allocations succeed again; sets each->failed. */
static inline void every_allocation_end(struct every_allocation *each)
{
    each->failed = af_mem_request_count() >= each->nth;
    each->failed_count += each->failed;
    af_mem_fail_nth(0, false);
}

/* A run with a failed allocation must give NO_MEMORY, another one OK. `err` may be NULL. */
static inline void every_allocation_check(const struct every_allocation *each,
                                          enum anyflash_status status,
                                          const struct anyflash_error *err)
{
    enum anyflash_status expected = each->failed ? ANYFLASH_E_NO_MEMORY : ANYFLASH_OK;
    if (status != expected)
        fail_msg("allocation %zu %s: status %d, expected %d%s%s", each->nth,
                 each->failed ? "failed" : "did not fail", (int)status, (int)expected,
                 err != NULL ? ": " : "", err != NULL ? err->message : "");
}

/* Runs the whole loop for an operation that leaves nothing behind; all_after as above. */
static inline void every_allocation_of(enum anyflash_status operation(struct anyflash_error *),
                                       bool all_after)
{
    struct every_allocation each = {.all_after = all_after};
    while (every_allocation_next(&each)) {
        struct anyflash_error err = {0};
        every_allocation_begin(&each);
        enum anyflash_status status = operation(&err);
        every_allocation_end(&each);
        every_allocation_check(&each, status, &err);
    }
}

#endif
