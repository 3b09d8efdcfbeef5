/*
 * test_probe.c: runs the whole probe on the machine that runs the test.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kit/base/json.h"
#include "kit/probe/probe.h"
#include "tests/unit/every_allocation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct anyflash_error problem;

static void test_probe__knows_this_machine_and_its_record_round_trips(void **state)
{
    (void)state;
    struct af_probe_options options = {.gpu_limit_ms = 20000};
    struct af_machine machine;
    struct af_machine again;
    struct af_text first = {0};
    struct af_text second = {0};
    struct timespec from;
    struct timespec to;
    af_machine_init(&machine, "this machine", "not looked at");
    clock_gettime(CLOCK_MONOTONIC, &from);
    if (af_probe_machine(&machine, &options, &problem) != ANYFLASH_OK)
        fail_msg("%s", problem.message);
    clock_gettime(CLOCK_MONOTONIC, &to);
    print_message("probed in %.1f ms\n", (double)(to.tv_sec - from.tv_sec) * 1e3 +
                                             (double)(to.tv_nsec - from.tv_nsec) / 1e6);
    assert_true(af_fact_is(&machine.platform.os, "linux"));
    assert_true(af_fact_int_or(&machine.resources.cores, 0) > 0);
    assert_true(af_fact_int_or(&machine.resources.memory_available_bytes, 0) > 0);
    assert_true(machine.disks.count > 0);
    assert_int_equal(af_machine_write(&machine, &first, NULL), ANYFLASH_OK);
    if (getenv("SHOW_RECORD") != NULL)
        print_message("%s", first.data);
    af_machine_init(&again, "again", "not looked at");
    if (af_machine_parse(&again, (struct af_span){first.data, first.len}, "record", &problem) !=
        ANYFLASH_OK)
        fail_msg("%s", problem.message);
    af_machine_write(&again, &second, NULL);
    assert_string_equal(first.data, second.data);
    af_text_release(&second);
    af_text_release(&first);
    af_machine_release(&again);
    af_machine_release(&machine);
}

static void test_probe__lack_of_memory_is_reported_and_nothing_is_left_running(void **state)
{
    (void)state;
    struct af_probe_options options = {.gpu_limit_ms = 20000};
    struct every_allocation each = {.all_after = true};
    while (every_allocation_next(&each)) {
        struct af_machine machine;
        af_machine_init(&machine, "this machine", "not looked at");
        every_allocation_begin(&each);
        enum anyflash_status status = af_probe_machine(&machine, &options, &problem);
        every_allocation_end(&each);
        af_machine_release(&machine);
        every_allocation_check(&each, status, &problem);
        each.nth += each.nth / 32; /* each of the first ones, then in larger steps */
    }
}

static void test_record__a_missing_file_is_named(void **state)
{
    (void)state;
    struct af_machine machine;
    af_machine_init(&machine, "test", "not said");
    assert_int_equal(af_probe_record(&machine, "no/such.json", &problem), ANYFLASH_E_NOT_FOUND);
    assert_non_null(strstr(problem.message, "no/such.json"));
    af_machine_release(&machine);
}

int main(void)
{
    af_json_start();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_record__a_missing_file_is_named),
        cmocka_unit_test(test_probe__knows_this_machine_and_its_record_round_trips),
        cmocka_unit_test(test_probe__lack_of_memory_is_reported_and_nothing_is_left_running),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
