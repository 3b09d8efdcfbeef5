/*
 * test_kernel.c: which kernel is chosen, and that kernels which nobody has timed
 * are chosen only on request.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/attn/kernel.h"

/* Every instruction set of this and of other machines. */
static const uint32_t all_sets = AF_CPU_UNMEASURED - 1;

/* A problem of the types that `kernel` is for. */
static struct af_problem problem_for(const struct af_kernel *kernel)
{
    struct af_problem problem = {.a = anyflash_attend_args_init()};
    problem.a.q.dtype = kernel->dtype != 0 ? (int32_t)kernel->dtype : ANYFLASH_F32;
    problem.a.k.dtype = kernel->reads_f8 ? ANYFLASH_F8_E4M3 : problem.a.q.dtype;
    problem.a.scale = 1;
    return problem;
}

static void test_kernel__chooses_the_last_one_that_accepts(void **state)
{
    (void)state;
    size_t count;
    const struct af_kernel *const *kernels = af_kernels(&count);
    for (size_t n = 0; n < count; n++) {
        const struct af_problem problem = problem_for(kernels[n]);
        const struct af_kernel *chosen = af_kernel_choose(
            &problem, kernels[n]->operation, kernels[n]->needs | AF_CPU_UNMEASURED);
        assert_ptr_equal(chosen, kernels[n]);
    }
}

static void test_kernel__is_chosen_untimed_only_on_request(void **state)
{
    (void)state;
    size_t count;
    const struct af_kernel *const *kernels = af_kernels(&count);
    for (size_t n = 0; n < count; n++) {
        const struct af_kernel *kernel = kernels[n];
        const struct af_problem problem = problem_for(kernel);
        assert_false(af_kernel_choose(&problem, kernel->operation, all_sets)->unmeasured);
        if (!kernel->unmeasured)
            continue;
        assert_int_equal(af_kernel_declines(kernel, &problem, all_sets), AF_DECLINE_UNMEASURED);
        assert_int_equal(af_kernel_declines(kernel, &problem, all_sets | AF_CPU_UNMEASURED),
                         AF_DECLINE_NOT);
        assert_non_null(strstr(af_decline_text(AF_DECLINE_UNMEASURED), "cpu_level"));
    }
}

static void test_kernel__that_is_untimed_needs_amx(void **state)
{
    (void)state;
    size_t count;
    const struct af_kernel *const *kernels = af_kernels(&count);
    for (size_t n = 0; n < count; n++)
        assert_int_equal(kernels[n]->unmeasured, kernels[n]->needs == AF_CPU_AMX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernel__chooses_the_last_one_that_accepts),
        cmocka_unit_test(test_kernel__is_chosen_untimed_only_on_request),
        cmocka_unit_test(test_kernel__that_is_untimed_needs_amx),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
