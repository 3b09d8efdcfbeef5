/*
 * test_compiler_end.c: how the end of a compiler is classified, and how often
 * it may end that way.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kit/compile/governor/compiler_state.h"

#define MIB (UINT64_C(1) << 20)

static void test_a_kill_from_outside_is_no_want_of_memory(void **state)
{
    static const int signals[] = {SIGKILL, SIGTERM, SIGINT, SIGHUP};
    struct af_end end = {.need_bytes = 100 * MIB, .peak_bytes = 102 * MIB};
    (void)state;
    for (size_t i = 0; i < AF_COUNT(signals); i++) {
        end.code = 128 + signals[i];
        assert_int_equal(af_end_cause(&end), AF_END_SIGNALLED);
    }
    end.code = 128 + SIGKILL;
    end.at_limit = true; /* normal: memory is well used */
    assert_int_equal(af_end_cause(&end), AF_END_SIGNALLED);
}

static void test_the_kernels_count_tells_of_memory(void **state)
{
    const struct af_end end = {.code = 128 + SIGKILL, .kernel_killed = true};
    (void)state;
    assert_int_equal(af_end_cause(&end), AF_END_MEMORY);
}

static void test_without_a_count_a_surprise_at_the_limit_tells(void **state)
{
    struct af_end end = {.code = 128 + SIGKILL,
                         .at_limit = true,
                         .need_bytes = 100 * MIB,
                         .peak_bytes = 130 * MIB};
    (void)state;
    assert_int_equal(af_end_cause(&end), AF_END_MEMORY);
    end.at_limit = false;
    assert_int_equal(af_end_cause(&end), AF_END_SIGNALLED);
}

static void test_a_hidden_kill_is_believed_once(void **state)
{
    struct af_end end = {.code = 1, .kernel_killed = true};
    (void)state;
    assert_int_equal(af_end_cause(&end), AF_END_MEMORY);
    end.alone = true;
    assert_int_equal(af_end_cause(&end), AF_END_FAILED);
}

static void test_what_we_stopped_is_not_its_fault(void **state)
{
    struct af_end end = {.code = 128 + SIGKILL, .stopped = true};
    (void)state;
    assert_int_equal(af_end_cause(&end), AF_END_MEMORY);
    end.stopped = false;
    end.hung = true;
    assert_int_equal(af_end_cause(&end), AF_END_HUNG);
    end.code = 0; /* it succeeded before the signal arrived */
    assert_int_equal(af_end_cause(&end), AF_END_SUCCESS);
}

static void test_crashes_and_failures_are_the_compilers_own(void **state)
{
    struct af_end end = {.code = 128 + SIGSEGV};
    (void)state;
    assert_int_equal(af_end_cause(&end), AF_END_CRASHED);
    end.code = 128 + SIGBUS;
    assert_int_equal(af_end_cause(&end), AF_END_CRASHED);
    end.code = 1;
    assert_int_equal(af_end_cause(&end), AF_END_FAILED);
    end.code = 255;
    assert_int_equal(af_end_cause(&end), AF_END_FAILED);
}

static void test_strikes_are_repeated_three_times_and_crashes_once(void **state)
{
    (void)state;
    assert_int_equal(af_end_retry_limit(AF_END_SIGNALLED), 4);
    assert_int_equal(af_end_retry_limit(AF_END_MEMORY), 4);
    assert_int_equal(af_end_retry_limit(AF_END_CRASHED), 2);
    assert_int_equal(af_end_retry_limit(AF_END_HUNG), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_kill_from_outside_is_no_want_of_memory),
        cmocka_unit_test(test_the_kernels_count_tells_of_memory),
        cmocka_unit_test(test_without_a_count_a_surprise_at_the_limit_tells),
        cmocka_unit_test(test_a_hidden_kill_is_believed_once),
        cmocka_unit_test(test_what_we_stopped_is_not_its_fault),
        cmocka_unit_test(test_crashes_and_failures_are_the_compilers_own),
        cmocka_unit_test(test_strikes_are_repeated_three_times_and_crashes_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
