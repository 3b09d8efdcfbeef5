/*
 * test_bench_faults.c: makes each allocation of anyflash-bench fail in turn:
 * exit code 3.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bench/bench_program.h"

#define PROGRAM_MAIN af_bench_program
#define PRINTS_EARLY true
#include "tests/faults/whole_command.h"

static void test_bench__survives_every_lack_of_memory(void **state)
{
    (void)state;
    static const struct command command = {
        {"anyflash-bench", "--quick", "--filter", "call Sk1", "--threads", "2"}, AF_EXIT_YES};
    fail_everywhere(&command, false);
}

static void test_bench_json__survives_every_lack_of_memory(void **state)
{
    (void)state;
    static const struct command command = {
        {"anyflash-bench", "--quick", "--json", "--filter", "call Sk1"}, AF_EXIT_YES};
    fail_everywhere(&command, true);
}

static void test_bench_peers__survives_every_lack_of_memory(void **state)
{
    (void)state;
    static const struct command command = {
        {"anyflash-bench", "--quick", "--peers", "/bin/false", "--filter", "call Sk1"},
        AF_EXIT_YES};
    fail_everywhere(&command, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bench__survives_every_lack_of_memory),
        cmocka_unit_test(test_bench_json__survives_every_lack_of_memory),
        cmocka_unit_test(test_bench_peers__survives_every_lack_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
