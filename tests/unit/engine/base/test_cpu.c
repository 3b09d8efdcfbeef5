/*
 * test_cpu.c: the instruction sets detected here are consistent.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/base/cpu.h"

static void test_cpu__levels_contain_those_below(void **state)
{
    (void)state;
    uint32_t found = af_cpu_features();
    assert_true((found & AF_CPU_BASE) != 0);
    if ((found & AF_CPU_AMX) != 0)
        assert_true((found & AF_CPU_AVX512BF16) != 0);
    if ((found & AF_CPU_AVX512BF16) != 0)
        assert_true((found & AF_CPU_AVX512) != 0);
    if ((found & AF_CPU_AVX512) != 0)
        assert_true((found & AF_CPU_AVX2) != 0);
}

static void test_cpu__agrees_with_the_compiler(void **state)
{
    (void)state;
#if defined(__x86_64__) && defined(__GNUC__)
    uint32_t found = af_cpu_features();
    __builtin_cpu_init();
    assert_int_equal((found & AF_CPU_AVX2) != 0,
                     (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")));
    assert_int_equal((found & AF_CPU_AVX512) != 0, __builtin_cpu_supports("avx512f") &&
                                                       __builtin_cpu_supports("avx512bw") &&
                                                       __builtin_cpu_supports("avx512dq") &&
                                                       __builtin_cpu_supports("avx512vl"));
    assert_int_equal((found & AF_CPU_AVX512VBMI) != 0,
                     __builtin_cpu_supports("avx512vbmi") != 0);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cpu__levels_contain_those_below),
        cmocka_unit_test(test_cpu__agrees_with_the_compiler),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
