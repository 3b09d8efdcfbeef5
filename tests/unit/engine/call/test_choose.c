/*
 * test_choose.c: which kernel is chosen.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/call/choose.h"
#include "engine/cpu/kernels.h"

/* A problem of the types that `kernel` is for. */
static struct af_problem problem_for(const struct af_kernel *kernel)
{
    struct af_problem problem = {.a = anyflash_attend_args_init()};
    problem.a.q.dtype = kernel->dtype != 0 ? (int32_t)kernel->dtype : ANYFLASH_F32;
    problem.a.k.dtype = kernel->reads_f8 ? ANYFLASH_F8_E4M3 : problem.a.q.dtype;
    problem.a.scale = 1;
    return problem;
}

static void test_choose__chooses_the_last_one_that_accepts(void **state)
{
    (void)state;
    size_t count;
    const struct af_kernel *const *kernels = af_kernels(&count);
    for (size_t n = 0; n < count; n++) {
        const struct af_problem problem = problem_for(kernels[n]);
        const struct af_kernel *chosen =
            af_kernel_choose(&problem, kernels[n]->operation, kernels[n]->needs);
        assert_ptr_equal(chosen, kernels[n]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_choose__chooses_the_last_one_that_accepts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
