/*
 * test_built_for.c: finds the torch for which a file was built, from the
 * assertions of torch's headers in it and the symbols that it needs. The lines
 * come from real wheels.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kit/proof/proof_torch.h"

static struct af_arena arena;

static int load(void **state)
{
    (void)state;
    af_arena_init(&arena);
    return 0;
}

static int release(void **state)
{
    (void)state;
    af_arena_release(&arena);
    return 0;
}

/* The only release that is left; NULL if there are none or several. */
static const char *only_minor(const char *const *texts, size_t count)
{
    const struct af_binary binary = {.assertions = {texts, count}};
    const struct af_proof_symbol_needs wants = {.torch = true};
    struct af_built_for built_for;
    const char *found = NULL;
    af_built_for_make(&binary, &wants, ~(af_proof_torch_set)0, NULL, &arena, &built_for);
    for (size_t i = 0; i < af_tables.torch_count; i++) {
        if ((built_for.minors >> i & 1) != 0 && found != NULL)
            return NULL;
        if ((built_for.minors >> i & 1) != 0)
            found = af_tables.torch[i].torch;
    }
    return found;
}

static void test_built_for__by_where_assertions_stand(void **state)
{
    /* torchao 0.15.0, for torch 2.9 */
    static const char *const nine[] = {"ATen/core/ivalue.h:654", "c10/core/TensorImpl.h:1332",
                                       "c10/core/TensorImpl.h:1765"};
    (void)state;
    assert_string_equal(only_minor(nine, 3), "2.9");
}

static void test_built_for__unknown_lines_and_headers_tell_nothing(void **state)
{
    static const char *const texts[] = {"ATen/core/ivalue.h:1",
                                        "mine.h:654",
                                        "ivalue.h",
                                        "ATen/core/ivalue.h:654",
                                        "c10/core/TensorImpl.h:1332",
                                        "c10/core/TensorImpl.h:1765",
                                        "ATen/core/ivalue.h:9x"};
    (void)state;
    assert_null(only_minor(texts, 3));
    assert_string_equal(only_minor(texts, 7), "2.9");
}

static void test_built_for__lines_of_several_releases_tell_nothing(void **state)
{
    static const char *const texts[] = {"c10/core/TensorImpl.h:1300", /* 2.8 */
                                        "c10/core/TensorImpl.h:1332"};
    (void)state;
    assert_null(only_minor(texts, 2));
}

/* Whether torch 2.`minor` exports what the extension for `machine` needs. */
static bool fits(const char *machine, const char *const *names, size_t count, int minor)
{
    static struct af_catalog_torch_symbols symbols;
    struct af_undefined undefined[4] = {{.name = NULL}};
    for (size_t i = 0; i < count; i++)
        undefined[i].name = names[i];
    const struct af_binary binary = {
        .machine = machine, .undefined = undefined, .undefined_count = count};
    if (symbols.builds == NULL)
        assert_int_equal(af_catalog_torch_symbols_load(&symbols, NULL), ANYFLASH_OK);
    uint64_t fitting = af_proof_torch_fitting(&symbols, &binary);
    for (size_t i = 0; i < af_tables.torch_count; i++) {
        if (af_tables.torch[i].torch_minor == minor)
            return (fitting >> i & 1) != 0;
    }
    return false;
}

static void test_built_for__by_the_builds_for_its_processor(void **state)
{
    /* torch has the new C++ ABI since 2.7; its builds for aarch64 since 2.6. */
    static const char *const names[] = {"_ZN3c106detail14torchCheckFailEPKcS2_jRKNSt7__cxx1112"
                                        "basic_stringIcSt11char_traitsIcESaIcEEE"};
    (void)state;
    assert_false(fits("x86_64", names, 1, 6));
    assert_true(fits("x86_64", names, 1, 7));
    assert_false(fits("aarch64", names, 1, 5));
    assert_true(fits("aarch64", names, 1, 6));
    assert_true(fits(NULL, names, 1, 7));
    assert_false(fits("riscv64", names, 1, 6));
}

static void test_built_for__a_cpu_build_says_nothing_about_cuda(void **state)
{
    /* The table has torch before 2.11 for aarch64 only as CPU builds. */
    static const char *const names[] = {"_ZN3c104cuda9SetDeviceEab", /* libc10_cuda, 2.8+ */
                                        "_ZN3c106detail14torchCheckFailEPKcS2_jS2_"};
    (void)state;
    assert_false(fits("aarch64", names, 2, 7));
    assert_true(fits("aarch64", names, 2, 9));
    assert_true(fits("aarch64", names, 2, 11));
}

static void test_built_for__stable_functions_are_there_from_a_release_on(void **state)
{
    static const char *const names[] = {"aoti_torch_get_dim", "torch_call_dispatcher",
                                        "torch_no_such_function"};
    (void)state;
    for (int minor = 0; minor < 16; minor++) /* the table begins with 2.0 */
        assert_int_equal(fits("x86_64", names, 3, minor), minor >= 10);
    assert_true(fits("x86_64", names, 1, 9));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_built_for__by_where_assertions_stand),
        cmocka_unit_test(test_built_for__unknown_lines_and_headers_tell_nothing),
        cmocka_unit_test(test_built_for__lines_of_several_releases_tell_nothing),
        cmocka_unit_test(test_built_for__by_the_builds_for_its_processor),
        cmocka_unit_test(test_built_for__a_cpu_build_says_nothing_about_cuda),
        cmocka_unit_test(test_built_for__stable_functions_are_there_from_a_release_on),
    };
    return cmocka_run_group_tests(tests, load, release);
}
