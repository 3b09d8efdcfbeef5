/*
 * test_assume.c: what is assumed about a machine that is described by its GPU.
 */
#include "kit/machine/assume.h"
#include "tests/unit/every_allocation.h"

#include <string.h>

/* Describes a machine with the words, up to a NULL, and assumes the rest. */
static const char *assume(struct af_machine *machine, const char *const *words)
{
    const char *what, *unused;
    af_machine_init(machine, "test", "not said");
    for (; *words != NULL; words++)
        assert_int_equal(af_machine_given(machine, *words, &unused, NULL), ANYFLASH_OK);
    assert_int_equal(af_machine_assume(machine, &what, NULL), ANYFLASH_OK);
    return what;
}

#define ASSUME(machine, ...) assume(machine, (const char *const[]){__VA_ARGS__, NULL})

static void test_assume__fills_in_system_processor_and_python(void **state)
{
    struct af_machine machine;
    (void)state;
    const char *what = ASSUME(&machine, "gpu=T4", "torch=2.9.1+cu128");
    assert_string_equal(what, "os=linux, arch=x86_64, python=3.12");
    assert_string_equal(machine.platform.os.value.text, "linux");
    assert_string_equal(machine.platform.os.source, "assumed");
    assert_string_equal(machine.python.version.value.text, "3.12");
    af_machine_release(&machine);
}

static void test_assume__keeps_what_is_stated(void **state)
{
    struct af_machine machine;
    (void)state;
    const char *what = ASSUME(&machine, "gpu=RTX 4090", "os=windows", "python=3.11");
    assert_string_equal(what, "arch=x86_64");
    assert_string_equal(machine.platform.os.value.text, "windows");
    assert_string_equal(machine.python.version.value.text, "3.11");
    af_machine_release(&machine);
    assert_null(ASSUME(&machine, "gpu=T4", "os=linux", "arch=x86_64", "python=3.12"));
    af_machine_release(&machine);
}

static void test_assume__knows_the_processor_that_comes_with_a_gpu(void **state)
{
    struct af_machine machine;
    (void)state;
    assert_string_equal(ASSUME(&machine, "gpu=GB200"), "python=3.12");
    assert_string_equal(machine.platform.arch.value.text, "aarch64");
    af_machine_release(&machine);
    assert_string_equal(ASSUME(&machine, "gpu=Apple M3"), "python=3.12");
    assert_string_equal(machine.platform.os.value.text, "macos");
    af_machine_release(&machine);
}

static void test_assume__takes_a_python_that_an_old_torch_has(void **state)
{
    struct af_machine machine;
    (void)state;
    assert_non_null(strstr(ASSUME(&machine, "gpu=T4", "torch=2.1.2+cu121"), "python=3.11"));
    af_machine_release(&machine);
}

static void test_assume__needs_a_gpu(void **state)
{
    struct af_machine machine;
    (void)state;
    assert_null(ASSUME(&machine, "torch=2.9.1+cu128"));
    assert_int_equal(machine.platform.os.state, AF_FACT_UNKNOWN);
    af_machine_release(&machine);
}

static void test_assume__reports_every_failed_allocation(void **state)
{
    struct every_allocation each = {.all_after = true};
    (void)state;
    while (every_allocation_next(&each)) {
        struct af_machine machine;
        struct anyflash_error err = {0};
        const char *what = NULL, *unused;
        every_allocation_begin(&each);
        af_machine_init(&machine, "test", "not said");
        enum anyflash_status status = af_machine_given(&machine, "gpu=T4", &unused, &err);
        if (status == ANYFLASH_OK)
            status = af_machine_assume(&machine, &what, &err);
        every_allocation_end(&each);
        every_allocation_check(&each, status, &err);
        assert_true((what != NULL) == (status == ANYFLASH_OK));
        af_machine_release(&machine);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_assume__fills_in_system_processor_and_python),
        cmocka_unit_test(test_assume__keeps_what_is_stated),
        cmocka_unit_test(test_assume__knows_the_processor_that_comes_with_a_gpu),
        cmocka_unit_test(test_assume__takes_a_python_that_an_old_torch_has),
        cmocka_unit_test(test_assume__needs_a_gpu),
        cmocka_unit_test(test_assume__reports_every_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
