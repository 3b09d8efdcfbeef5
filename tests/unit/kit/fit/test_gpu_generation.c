/*
 * test_gpu_generation.c: the rows of data/gpu_generations.tsv, and GPUs that no row has.
 */
#include "kit/fit/amd_target.h"
#include "kit/fit/gpu_generation.h"
#include "kit/fit/gpu_targets.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_gpu_generation__a_new_gpu_is_like_its_predecessor(void **state)
{
    (void)state;
    for (int sm = 0; sm < 300; sm++) {
        struct af_sm_generation generation = af_sm_generation_of(sm);
        if (sm < 80 || sm >= 130)
            assert_int_equal(generation.build_target, 0);
        else
            assert_true(generation.build_target <= sm || generation.same_chip != 0);
        if (generation.same_chip != 0)
            assert_int_equal(af_sm_generation_of(generation.same_chip).same_chip, sm);
        assert_int_equal(af_sm_runs(sm, sm), AF_YES);
    }
    assert_int_equal(af_sm_generation_of(88).build_target, 80);
    assert_int_equal(af_sm_generation_of(109).build_target, 100);
    assert_false(af_sm_generation_of(88).is_integrated);
}

/* One row each; a GPU of a family that no row has yet is unknown, and an old one has none. */
static void test_gpu_generation__amd_targets_are_rows(void **state)
{
    static const struct {
        const char *target;
        struct af_amd_target is;
    } known[] = {
        {"gfx942", {AF_AMD_KERNELS_FULL, AF_AMD_BACKEND_CK, true}},
        {"gfx90a", {AF_AMD_KERNELS_FULL, AF_AMD_BACKEND_CK, false}},
        {"gfx906", {AF_AMD_KERNELS_NONE, AF_AMD_BACKEND_NONE, false}},
        {"gfx1030", {AF_AMD_KERNELS_NONE, AF_AMD_BACKEND_NONE, false}},
        {"gfx1100", {AF_AMD_KERNELS_EXPERIMENTAL, AF_AMD_BACKEND_TRITON, false}},
        {"gfx1103", {AF_AMD_KERNELS_UNKNOWN, AF_AMD_BACKEND_TRITON, false}},
        {"gfx1250", {AF_AMD_KERNELS_UNKNOWN, AF_AMD_BACKEND_TRITON, false}},
        {"gfx1300", {AF_AMD_KERNELS_UNKNOWN, AF_AMD_BACKEND_NONE, false}},
        {"", {AF_AMD_KERNELS_UNKNOWN, AF_AMD_BACKEND_NONE, false}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const struct af_amd_target found = af_amd_target_of(known[i].target);
        assert_int_equal(found.kernels, known[i].is.kernels);
        assert_int_equal(found.backend, known[i].is.backend);
        assert_int_equal(found.has_aiter, known[i].is.has_aiter);
    }
}

static void test_gpu_generation__rubin_is_one_row(void **state)
{
    struct af_sm_generation rubin = af_sm_generation_of(107);
    (void)state;
    assert_int_equal(rubin.build_target, 100);
    assert_int_equal(rubin.first_cuda, 128);
    assert_string_equal(rubin.package, "flash_attn_4");
    assert_int_equal(af_sm_runs(100, 107), AF_YES);
    assert_int_equal(af_sm_runs(107, 100), AF_NO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpu_generation__a_new_gpu_is_like_its_predecessor),
        cmocka_unit_test(test_gpu_generation__amd_targets_are_rows),
        cmocka_unit_test(test_gpu_generation__rubin_is_one_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
