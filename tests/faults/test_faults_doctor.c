/*
 * test_faults_doctor.c: makes allocations fail in turn while `anyflash doctor LOG`
 * runs. It makes thousands, mostly in the reader of its tables: after the first
 * ones only some are tried.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "whole_command.h"

#define LOG AF_TEST_DATA "/fuzz/corpus/fuzz_log/symbol.log"

static void fail_often(const char *const *words, bool all_after)
{
    struct every_allocation each = {.all_after = all_after, .at_least = 40, .skip_part = 12};
    fail_each(each, words, NULL);
}

static void a_diagnosis_survives_lack_of_memory(void **state)
{
    static const char *const words[] = {"anyflash",          "doctor", LOG, "--given",
                                        "torch=2.4.0+cu121", NULL};
    (void)state;
    fail_often(words, false);
    fail_often(words, true);
}

static void a_diagnosis_as_json_survives_lack_of_memory(void **state)
{
    static const char *const words[] = {"anyflash",          "doctor", LOG, "--json", "--given",
                                        "torch=2.4.0+cu121", NULL};
    (void)state;
    fail_often(words, false);
    fail_often(words, true);
}

static void an_explanation_survives_lack_of_memory(void **state)
{
    static const char *const words[] = {"anyflash", "doctor", "--explain", "oom-build", NULL};
    (void)state;
    fail_often(words, false);
    fail_often(words, true);
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
        cmocka_unit_test(a_diagnosis_survives_lack_of_memory),
        cmocka_unit_test(a_diagnosis_as_json_survives_lack_of_memory),
        cmocka_unit_test(an_explanation_survives_lack_of_memory),
    };
    return cmocka_run_group_tests(tests, forget_state, NULL);
}
