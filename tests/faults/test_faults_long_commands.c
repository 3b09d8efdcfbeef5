/*
 * test_faults_long_commands.c: as test_faults_commands.c for commands that make
 * thousands of allocations, mostly in the reader of the doctor's tables or one
 * decision for each cell: after the first ones only some are tried.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "whole_command.h"

#define LOG AF_TEST_SEEDS "/fuzz_log/symbol.log"

static const struct command commands[] = {
    {{"anyflash", "doctor", LOG, "--given", "torch=2.4.0+cu121"}, AF_EXIT_YES},
    {{"anyflash", "doctor", LOG, "--json", "--given", "torch=2.4.0+cu121"}, AF_EXIT_YES},
};

static void test_long_commands__survive_lack_of_memory(void **state)
{
    (void)state;
    for (size_t i = 0; i < AF_COUNT(commands) * 2; i++) {
        struct every_allocation each = {
            .all_after = i % 2 == 1, .at_least = 30, .skip_part = 12};
        fail_each(each, &commands[i / 2]);
    }
}

/* Caches are skipped if they lack memory; they have their own tests. */
static int forget_state(void **state)
{
    (void)state;
    return setenv("ANYFLASH_STATE", "/dev/null/none", 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_long_commands__survive_lack_of_memory),
    };
    return cmocka_run_group_tests(tests, forget_state, NULL);
}
