/*
 * test_explain.c: anyflash_explain() names the kernel that runs, and why better
 * ones do not run. Run with several ANYFLASH_CPU_MASK.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "engine/cpu/kernels.h"

#include "small_call.h"

static struct small_call call;

static const char *explain(char *text, size_t size_bytes)
{
    struct anyflash_error err = {ANYFLASH_OK, ""};
    if (anyflash_explain(NULL, &call.args, text, size_bytes, &err) != ANYFLASH_OK)
        fail_msg("refused: %s", err.message);
    return text;
}

/* The best f32 kernel of this processor for the operation. */
static const struct af_kernel *best(enum af_kernel_operation operation)
{
    size_t count;
    const struct af_kernel *const *kernels = af_kernels(&count);
    while (count-- > 0) {
        if (kernels[count]->operation == operation && kernels[count]->dtype == ANYFLASH_F32 &&
            (kernels[count]->needs & ~af_cpu_features()) == 0)
            return kernels[count];
    }
    return NULL;
}

static void assert_has_line(const char *text, const char *label, const char *name)
{
    char line[200];
    snprintf(line, sizeof line, "%s: %s\n", label, name);
    if (strstr(text, line) == NULL)
        fail_msg("no line '%s' in:\n%s", line, text);
}

static void test_explain__names_the_kernel_for_many_rows(void **state)
{
    (void)state;
    char text[2000];
    call_init(&call, 1, CALL_ROWS);
    explain(text, sizeof text);
    assert_has_line(text, "many rows", best(AF_FORWARD)->name);
    assert_has_line(text, "backward", best(AF_BACKWARD)->name);
    assert_null(strstr(text, "few rows"));
}

static void test_explain__names_the_kernel_for_few_rows(void **state)
{
    (void)state;
    char text[2000];
    call_init(&call, 1, CALL_ROWS);
    call.args.q_len = 1;
    explain(text, sizeof text);
    assert_has_line(text, "few rows", best(AF_DECODE)->name);
    assert_null(strstr(text, "many rows"));
}

static void test_explain__says_why_better_kernels_decline(void **state)
{
    (void)state;
    size_t count;
    char text[2000], line[200];
    const struct af_kernel *const *kernels = af_kernels(&count);
    call_init(&call, 1, CALL_ROWS);
    explain(text, sizeof text);
    for (size_t k = count; kernels[k - 1] != best(AF_FORWARD); k--) {
        if (kernels[k - 1]->operation != AF_FORWARD || kernels[k - 1]->dtype != ANYFLASH_F32)
            continue;
        snprintf(line, sizeof line, "not %s: needs instructions", kernels[k - 1]->name);
        assert_non_null(strstr(text, line));
    }
}

/*
 * A context of a lower level has that level's kernels, as on a processor without
 * the higher levels.
 */
static void test_explain__keeps_to_the_level_of_the_context(void **state)
{
    (void)state;
    struct anyflash_context_args args = {.struct_size = sizeof args,
                                         .cpu_level = ANYFLASH_CPU_BASE};
    struct anyflash_context *context = NULL;
    char text[2000];
    size_t count;
    call_init(&call, 1, CALL_ROWS);
    assert_int_equal(anyflash_context_new(&args, &context, NULL), ANYFLASH_OK);
    assert_int_equal(anyflash_explain(context, &call.args, text, sizeof text, NULL),
                     ANYFLASH_OK);
    const struct af_kernel *const *kernels = af_kernels(&count);
    assert_has_line(text, "many rows", kernels[0]->name);
    assert_int_equal(anyflash_attend(context, &call.args, NULL), ANYFLASH_OK);
    anyflash_context_free(context);
}

/* A level that the processor lacks has the kernels of the levels before it. */
static void test_explain__accepts_every_level(void **state)
{
    (void)state;
    struct anyflash_context_args args = {.struct_size = sizeof args};
    char text[2000];
    call_init(&call, 1, CALL_ROWS);
    for (int level = ANYFLASH_CPU_ALL; level <= ANYFLASH_CPU_AMX; level++) {
        struct anyflash_context *context = NULL;
        args.cpu_level = level;
        assert_int_equal(anyflash_context_new(&args, &context, NULL), ANYFLASH_OK);
        assert_int_equal(anyflash_explain(context, &call.args, text, sizeof text, NULL),
                         ANYFLASH_OK);
        assert_int_equal(anyflash_attend(context, &call.args, NULL), ANYFLASH_OK);
        anyflash_context_free(context);
    }
}

static void test_explain__is_cut_and_terminated(void **state)
{
    (void)state;
    char whole[2000], part[2000];
    call_init(&call, 1, CALL_ROWS);
    size_t length = strlen(explain(whole, sizeof whole));
    for (size_t size = 1; size <= length + 1; size++) {
        memset(part, 'x', sizeof part);
        explain(part, size);
        assert_int_equal(strlen(part), size - 1);
        assert_memory_equal(part, whole, size - 1);
        assert_int_equal(part[size], 'x');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_explain__names_the_kernel_for_many_rows),
        cmocka_unit_test(test_explain__names_the_kernel_for_few_rows),
        cmocka_unit_test(test_explain__says_why_better_kernels_decline),
        cmocka_unit_test(test_explain__keeps_to_the_level_of_the_context),
        cmocka_unit_test(test_explain__accepts_every_level),
        cmocka_unit_test(test_explain__is_cut_and_terminated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
