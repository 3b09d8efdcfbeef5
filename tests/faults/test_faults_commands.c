/*
 * test_faults_commands.c: makes each allocation fail in turn in whole commands,
 * from reading the record to the last byte of output. The command must end with
 * exit code 3 (or its normal one, if nothing more was needed), never with the
 * code of an internal bug.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "whole_command.h"

#define RECORD AF_TEST_DATA "/cases/machines/stale-after-torch-upgrade.json"
#define RTX4090 AF_TEST_DATA "/cases/machines/rtx4090-torch2.8.json"
#define LIBRARY AF_TEST_SEEDS "/fuzz_binary/small.so"
#define PROJECT AF_TEST_DATA "/faults/project"

#define TEST(name, ...)                                                                        \
    static void test_##name##__survives_every_lack_of_memory(void **state)                     \
    {                                                                                          \
        static const char *const words[] = {"anyflash", __VA_ARGS__, NULL};                    \
        (void)state;                                                                           \
        fail_everywhere(words, false, NULL);                                                   \
        fail_everywhere(words, true, NULL);                                                    \
    }

TEST(plan, "plan", "--machine", RECORD)
TEST(plan_json, "plan", "--json", "--machine", RECORD)
TEST(doctor, "doctor", "--machine", RECORD)
TEST(doctor_json, "doctor", "--json", "--machine", RECORD)
TEST(machine, "machine", "--machine", RECORD)
TEST(find, "find", "torch=2.9", "python=3.12", "cuda=13")
TEST(find_json, "find", "--json", "torch=2.9", "python=3.12", "cuda=13")
TEST(publishers, "plan", "--publishers", "mjun0812,kingbri1", "--machine", RTX4090)
TEST(given, "plan", "--given", "torch=2.8.0+cu128", "--given", "python=3.12")
TEST(config_uv, "config", "uv", "--machine", RTX4090, "--project", PROJECT)
TEST(config_build, "config", "uv", "--prefer", "build", "--machine", RTX4090, "--project",
     PROJECT)
TEST(config_pip, "config", "pip", "--json", "--machine", RTX4090, "--project", PROJECT)
TEST(config_fragment, "config", "pixi", "--machine", RTX4090, "--project", PROJECT)
TEST(inspect, "inspect", LIBRARY, "--machine", RTX4090)
TEST(inspect_json, "inspect", "--json", LIBRARY, "--machine", RTX4090)
TEST(help, "help", "plan")

/* Caches are skipped if they lack memory; they have their own tests. */
static int forget_state(void **state)
{
    (void)state;
    return setenv("ANYFLASH_STATE", "/dev/null/none", 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plan__survives_every_lack_of_memory),
        cmocka_unit_test(test_plan_json__survives_every_lack_of_memory),
        cmocka_unit_test(test_doctor__survives_every_lack_of_memory),
        cmocka_unit_test(test_doctor_json__survives_every_lack_of_memory),
        cmocka_unit_test(test_machine__survives_every_lack_of_memory),
        cmocka_unit_test(test_find__survives_every_lack_of_memory),
        cmocka_unit_test(test_find_json__survives_every_lack_of_memory),
        cmocka_unit_test(test_publishers__survives_every_lack_of_memory),
        cmocka_unit_test(test_given__survives_every_lack_of_memory),
        cmocka_unit_test(test_config_uv__survives_every_lack_of_memory),
        cmocka_unit_test(test_config_build__survives_every_lack_of_memory),
        cmocka_unit_test(test_config_pip__survives_every_lack_of_memory),
        cmocka_unit_test(test_config_fragment__survives_every_lack_of_memory),
        cmocka_unit_test(test_inspect__survives_every_lack_of_memory),
        cmocka_unit_test(test_inspect_json__survives_every_lack_of_memory),
        cmocka_unit_test(test_help__survives_every_lack_of_memory),
    };
    return cmocka_run_group_tests(tests, forget_state, NULL);
}
