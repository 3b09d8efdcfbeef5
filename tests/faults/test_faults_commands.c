/*
 * test_faults_commands.c: makes each allocation fail in turn in whole commands,
 * from reading the record to the last byte of output. The command must end with
 * exit code 3, never with the code of an internal bug, print no half answer, and
 * leak nothing (checked by the sanitize preset). jansson keeps its own allocator
 * here, because its parser (2.14) corrupts the heap when one of its allocations
 * fails.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "whole_command.h"

#define STALE AF_TEST_DATA "/cases/machines/stale-after-torch-upgrade.json"
#define OLDER AF_TEST_DATA "/../examples/machines/rtx4090-torch2.8.json"
#define NEWER AF_TEST_DATA "/../examples/machines/rtx4090-torch2.15.json"
#define FEW_WHEELS "--catalog=" AF_TEST_DATA "/faults/few_wheels.jsonl"
#define LIBRARY AF_TEST_SEEDS "/fuzz_binary/small.so"
#define PROJECT AF_TEST_DATA "/faults/.project" /* hidden from `check` of this repository */
#define CHECKED AF_TEST_DATA "/faults/.checked" /* with fewer wheels to look up */
#define PINNED AF_TEST_DATA "/faults/.pinned"   /* to a torch that the machine does not have */
#define UNFIT AF_TEST_DATA "/faults/.unfit"     /* no wheel fits what it pins */

#define ROW(code, ...)                                                                         \
    {                                                                                          \
        {"anyflash", __VA_ARGS__}, code                                                        \
    }

static const struct command commands[] = {
    ROW(AF_EXIT_YES, "plan", "--machine", STALE),
    ROW(AF_EXIT_YES, "plan", "--json", "--machine", STALE),
    ROW(AF_EXIT_YES, "plan", "--machine", NEWER, FEW_WHEELS),
    ROW(AF_EXIT_YES, "plan", "--machine", NEWER, FEW_WHEELS, "--json"),
    ROW(AF_EXIT_NO, "plan", "--machine", NEWER, FEW_WHEELS, "--all", "-v"),
    ROW(AF_EXIT_YES, "plan", "--publishers", "mjun0812,kingbri1", "--machine", OLDER),
    ROW(AF_EXIT_NO, "plan", "--given", "torch=2.8.0+cu128"),
    ROW(AF_EXIT_YES, "plan", "--given", "torch=2.8.0+cu128", "--given", "python=3.12"),
    ROW(AF_EXIT_YES, "doctor", "--machine", STALE),
    ROW(AF_EXIT_YES, "doctor", "--json", "--machine", STALE),
    ROW(AF_EXIT_YES, "doctor", "--machine", NEWER, FEW_WHEELS),
    ROW(AF_EXIT_YES, "doctor", "--machine", NEWER, FEW_WHEELS, "--json", "--given",
        "torch=2.8.0+cu128"),
    ROW(AF_EXIT_YES, "doctor", "--explain", "oom-build"),
    ROW(AF_EXIT_NO, "check", CHECKED, FEW_WHEELS, "--github"),
    ROW(AF_EXIT_NO, "check", CHECKED, FEW_WHEELS, "--json", "--fallback", "sdpa"),
    ROW(AF_EXIT_YES, "machine", "--machine", STALE),
    ROW(AF_EXIT_YES, "machine", "--machine", NEWER),
    ROW(AF_EXIT_YES, "machine", "--machine", NEWER, "--tags"),
    ROW(AF_EXIT_YES, "machine", "--schema"),
    ROW(AF_EXIT_YES, "find", "torch=2.9", "python=3.12", "cuda=13"),
    ROW(AF_EXIT_YES, "find", "--json", "torch=2.9", "python=3.12", "cuda=13"),
    ROW(AF_EXIT_NO, "find", "torch=2.9", FEW_WHEELS),
    ROW(AF_EXIT_YES, "find", "--machine", NEWER, FEW_WHEELS, "--json"),
    ROW(AF_EXIT_YES, "config", "uv", "--machine", OLDER, "--project", PROJECT),
    ROW(AF_EXIT_NO, "config", "uv", "--prefer", "build", "--machine", OLDER, "--project",
        PROJECT),
    ROW(AF_EXIT_YES, "config", "uv", "--machine", OLDER, "--project", PINNED),
    ROW(AF_EXIT_NO, "config", "uv", "--machine", OLDER, "--project", UNFIT),
    ROW(AF_EXIT_YES, "config", "pip", "--json", "--machine", OLDER, "--project", PROJECT),
    ROW(AF_EXIT_YES, "config", "pixi", "--machine", OLDER, "--project", PROJECT),
    ROW(AF_EXIT_NO, "inspect", LIBRARY, "--machine", OLDER),
    ROW(AF_EXIT_NO, "inspect", "--json", LIBRARY, "--machine", OLDER),
    ROW(AF_EXIT_YES, "help", "plan"),
    ROW(AF_EXIT_YES, "help", "--man"),
    ROW(AF_EXIT_USAGE, "nosuchcommand"),
};

static void test_commands__survive_each_failed_allocation(void **state)
{
    (void)state;
    for (size_t i = 0; i < AF_COUNT(commands); i++)
        fail_everywhere(&commands[i], false);
}

static void test_commands__survive_lack_of_memory_from_any_allocation_on(void **state)
{
    (void)state;
    for (size_t i = 0; i < AF_COUNT(commands); i++)
        fail_everywhere(&commands[i], true);
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
        cmocka_unit_test(test_commands__survive_each_failed_allocation),
        cmocka_unit_test(test_commands__survive_lack_of_memory_from_any_allocation_on),
    };
    return cmocka_run_group_tests(tests, forget_state, NULL);
}
