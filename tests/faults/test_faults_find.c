/*
 * test_faults_find.c: makes allocations of `anyflash find --matrix` fail in turn. There
 * are thousands, mostly one decision for each cell: after the first ones only some are
 * tried.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "whole_command.h"

#define FEW_WHEELS AF_TEST_DATA "/faults/few_wheels.jsonl"
#define RTX4090 AF_TEST_DATA "/cases/machines/rtx4090-torch2.8.json"

static void test_json__survives_lack_of_memory(void **state)
{
    const char *const words[] = {"anyflash", "find",      "--matrix", "--catalog",
                                 FEW_WHEELS, "--machine", RTX4090,    NULL};
    (void)state;
    for (int all_after = 0; all_after <= 1; all_after++) {
        const struct every_allocation each = {
            .all_after = all_after == 1, .at_least = 40, .skip_part = 12};
        fail_each(each, words, NULL);
    }
}

/* Caches are skipped if they lack memory. */
static int forget_state(void **state)
{
    (void)state;
    return setenv("ANYFLASH_STATE", "/dev/null/none", 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_json__survives_lack_of_memory)};
    return cmocka_run_group_tests(tests, forget_state, NULL);
}
