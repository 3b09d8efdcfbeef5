/*
 * test_fit_assume.c: the CUDA build that is assumed of a torch whose version names none.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kit/fit/fit.h"

#include <string.h>

#define DESCRIBE(machine, ...) describe(machine, (const char *const[]){__VA_ARGS__, NULL})

static void describe(struct af_machine *machine, const char *const *words)
{
    const char *unused;
    af_machine_init(machine, "test", "not said");
    for (; *words != NULL; words++)
        assert_int_equal(af_machine_given(machine, *words, &unused, NULL), ANYFLASH_OK);
}

/* What is assumed of a machine with these words. */
static void check(const char *const *words, const char *expected)
{
    struct af_machine machine;
    static const char start[] = "test, assuming ";
    describe(&machine, words);
    assert_int_equal(af_fit_assume(&machine, NULL), ANYFLASH_OK);
    if (expected == NULL)
        assert_string_equal(machine.name, "test");
    else
        assert_string_equal(machine.name + strlen(start), expected);
    af_machine_release(&machine);
}

#define CHECK(expected, ...) check((const char *const[]){__VA_ARGS__, NULL}, expected)
#define LINUX "gpu=H100", "os=linux", "python=3.12"

static void test_assume__fills_in_system_processor_and_python(void **state)
{
    struct af_machine machine;
    (void)state;
    CHECK("os=linux, arch=x86_64, python=3.12", "gpu=T4", "torch=2.9.1+cu128");
    DESCRIBE(&machine, "gpu=T4", "torch=2.9.1+cu128");
    assert_int_equal(af_fit_assume(&machine, NULL), ANYFLASH_OK);
    assert_string_equal(machine.platform.os.value.text, "linux");
    assert_string_equal(machine.platform.os.source, "assumed");
    assert_string_equal(machine.python.version.value.text, "3.12");
    af_machine_release(&machine);
}

static void test_assume__keeps_what_is_stated(void **state)
{
    (void)state;
    CHECK("arch=x86_64", "gpu=RTX 4090", "os=windows", "python=3.11");
    CHECK(NULL, "gpu=T4", "os=linux", "arch=x86_64", "python=3.12");
}

static void test_assume__knows_the_processor_that_comes_with_a_gpu(void **state)
{
    (void)state;
    CHECK("python=3.12", "gpu=GB200");    /* with aarch64 */
    CHECK("python=3.12", "gpu=Apple M3"); /* with macOS */
}

static void test_assume__takes_a_python_that_an_old_torch_has(void **state)
{
    (void)state;
    CHECK("os=linux, arch=x86_64, python=3.11", "gpu=T4", "torch=2.1.2+cu121");
}

static void test_assume__needs_a_gpu(void **state)
{
    (void)state;
    CHECK(NULL, "torch=2.9.1+cu128");
}

static void test_assume__takes_no_gpu_for_as_much_as_a_gpu(void **state)
{
    (void)state;
    CHECK("os=linux, arch=x86_64, python=3.12", "gpu=none");
    CHECK("os=linux, arch=x86_64, python=3.12", "gpu=cpu", "torch=2.9.1+cpu");
    CHECK("arch=x86_64, python=3.12, torch_cuda=cu128", "gpu=none", "os=linux", "torch=2.9.1");
    CHECK("arch=aarch64, python=3.12", "gpu=none", "os=macos");
}

static void test_assume__takes_the_build_that_pip_gets(void **state)
{
    (void)state;
    CHECK("torch_cuda=cu128", LINUX, "arch=x86_64", "torch=2.9.1");
    CHECK("torch_cuda=cu124", LINUX, "arch=x86_64", "torch=2.6");
    CHECK("torch_cuda=cu130", LINUX, "arch=aarch64", "torch=2.11.0");
    CHECK("os=linux, arch=x86_64, python=3.12, torch_cuda=cu128", "gpu=T4", "torch=2.9.1");
}

static void test_assume__leaves_the_build_open_where_pip_gets_none_with_cuda(void **state)
{
    (void)state;
    CHECK(NULL, LINUX, "arch=aarch64", "torch=2.9.1");
    CHECK(NULL, "gpu=RTX 3060", "os=windows", "arch=x86_64", "python=3.12", "torch=2.9.1");
    CHECK(NULL, LINUX, "arch=x86_64", "torch=99.1");
    CHECK(NULL, LINUX, "arch=x86_64", "torch=2.9.0.dev20250801");
}

static void test_assume__keeps_the_build_that_is_stated(void **state)
{
    (void)state;
    CHECK(NULL, LINUX, "arch=x86_64", "torch=2.9.1+cu130");
    CHECK(NULL, LINUX, "arch=x86_64", "torch=2.9.1", "torch_cuda=13.0");
    CHECK(NULL, LINUX, "arch=x86_64", "torch=2.9.1+cpu");
    CHECK(NULL, "arch=x86_64", "torch=2.9.1");
}

int main(void)
{
    const struct CMUnitTest all[] = {
        cmocka_unit_test(test_assume__fills_in_system_processor_and_python),
        cmocka_unit_test(test_assume__keeps_what_is_stated),
        cmocka_unit_test(test_assume__knows_the_processor_that_comes_with_a_gpu),
        cmocka_unit_test(test_assume__takes_a_python_that_an_old_torch_has),
        cmocka_unit_test(test_assume__needs_a_gpu),
        cmocka_unit_test(test_assume__takes_no_gpu_for_as_much_as_a_gpu),
        cmocka_unit_test(test_assume__takes_the_build_that_pip_gets),
        cmocka_unit_test(test_assume__leaves_the_build_open_where_pip_gets_none_with_cuda),
        cmocka_unit_test(test_assume__keeps_the_build_that_is_stated),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}
