/*
 * test_misuse.c: calls with wrong arguments fail with a message that names
 * them, and write nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "small_call.h"

static struct small_call call, before;

/* The call fails with ARGUMENT and `words` in the message; its outputs are unchanged. */
static void assert_refused(const struct anyflash_attend_args *args, const char *words)
{
    struct anyflash_error err = {ANYFLASH_OK, ""};
    call_clear(&call);
    assert_int_equal(anyflash_attend(NULL, args, &err), ANYFLASH_E_ARGUMENT);
    assert_int_equal(err.status, ANYFLASH_E_ARGUMENT);
    if (strstr(err.message, words) == NULL)
        fail_msg("'%s' does not say '%s'", err.message, words);
    assert_memory_equal(call.o, before.o, sizeof call.o);
    assert_memory_equal(call.lse, before.lse, sizeof call.lse);
    assert_int_equal(anyflash_attend(NULL, args, NULL), ANYFLASH_E_ARGUMENT);
}

static void refuses_context(struct anyflash_context_args args, const char *words)
{
    struct anyflash_error err = {ANYFLASH_OK, ""};
    struct anyflash_context *context = NULL;
    assert_int_equal(anyflash_context_new(&args, &context, &err), ANYFLASH_E_ARGUMENT);
    assert_null(context);
    if (strstr(err.message, words) == NULL)
        fail_msg("'%s' does not say '%s'", err.message, words);
}

static void *allocate_nothing(size_t size_bytes, size_t align_bytes, void *user)
{
    (void)size_bytes;
    (void)align_bytes;
    (void)user;
    return NULL;
}

static void test_context__refuses_wrong_arguments(void **state)
{
    (void)state;
    const struct anyflash_context_args good = {.struct_size = sizeof good};
    struct anyflash_context_args args = good;
    args.struct_size--;
    refuses_context(args, "struct_size");
    struct {
        struct anyflash_context_args args;
        uint64_t option;
    } newer = {good, 1};
    newer.args.struct_size = sizeof newer;
    struct anyflash_context *context = NULL;
    assert_int_equal(anyflash_context_new(&newer.args, &context, NULL), ANYFLASH_E_ARGUMENT);
    newer.option = 0;
    assert_int_equal(anyflash_context_new(&newer.args, &context, NULL), ANYFLASH_OK);
    anyflash_context_free(context);
    args = good;
    args.threads = -1;
    refuses_context(args, "threads is -1");
    args.threads = 1025;
    refuses_context(args, "threads is 1025");
    args = good;
    args.cpu_level = -1;
    refuses_context(args, "cpu_level is -1");
    args.cpu_level = ANYFLASH_CPU_AMX + 1;
    refuses_context(args, "cpu_level is 7");
    args = good;
    args.reserved = 1;
    refuses_context(args, "reserved is 1");
    args = good;
    args.allocate = allocate_nothing;
    refuses_context(args, "release");
}

static void test_context__freeing_none_is_allowed(void **state)
{
    (void)state;
    anyflash_context_free(NULL);
}

static void test_attend__refuses_no_arguments(void **state)
{
    (void)state;
    assert_refused(NULL, "args is NULL");
}

static void test_attend__refuses_a_struct_shorter_than_the_first_header(void **state)
{
    (void)state;
    struct anyflash_attend_args args = call.args;
    args.struct_size = offsetof(struct anyflash_attend_args, k_scales) - 8;
    assert_refused(&args, "struct_size");
    args.struct_size = 0;
    assert_refused(&args, "struct_size is 0");
    args.struct_size = SIZE_MAX;
    assert_refused(&args, "struct_size");
}

/* What lies behind it in the caller's memory is not read. */
static void test_attend__takes_the_struct_of_the_first_header(void **state)
{
    (void)state;
    struct anyflash_attend_args args = call.args;
    args.struct_size = offsetof(struct anyflash_attend_args, k_scales);
    memset((char *)&args + args.struct_size, 0x5a, sizeof args - args.struct_size);
    assert_int_equal(anyflash_attend(NULL, &args, NULL), ANYFLASH_OK);
}

/* The struct of a later header: this one's fields and more. */
struct later_args {
    struct anyflash_attend_args args;
    int64_t later_option;
};

static void test_attend__takes_a_later_struct_unless_its_new_options_are_set(void **state)
{
    (void)state;
    struct later_args later = {.args = call.args};
    later.args.struct_size = sizeof later;
    assert_int_equal(anyflash_attend(NULL, &later.args, NULL), ANYFLASH_OK);
    later.later_option = 1;
    assert_refused(&later.args, "older than the header");
}

static void test_attend__names_the_argument_and_its_value(void **state)
{
    (void)state;
    struct anyflash_attend_args args = call.args;
    args.heads = 3;
    args.kv_heads = 2;
    assert_refused(&args, "heads is 3");
    args = call.args;
    args.head_dim = 577;
    assert_refused(&args, "head_dim is 577");
    args = call.args;
    args.align = 3;
    assert_refused(&args, "align is 3");
    args = call.args;
    args.q_len = -1;
    assert_refused(&args, "q_len is -1");
    args = call.args;
    args.o = args.q;
    assert_refused(&args, "o");
}

static void test_workspace_and_explain__refuse_as_the_call_does(void **state)
{
    (void)state;
    struct anyflash_attend_args args = call.args;
    struct anyflash_error err = {ANYFLASH_OK, ""};
    size_t bytes = 77;
    char text[8] = "before";
    args.head_dim = 0;
    assert_int_equal(anyflash_workspace_bytes(NULL, &args, &bytes, &err), ANYFLASH_E_ARGUMENT);
    assert_non_null(strstr(err.message, "head_dim is 0"));
    assert_int_equal(bytes, 77);
    assert_int_equal(anyflash_explain(NULL, &args, text, sizeof text, &err),
                     ANYFLASH_E_ARGUMENT);
    assert_string_equal(text, "before");
    assert_int_equal(anyflash_workspace_bytes(NULL, &call.args, NULL, &err),
                     ANYFLASH_E_ARGUMENT);
    assert_int_equal(anyflash_explain(NULL, &call.args, NULL, 8, &err), ANYFLASH_E_ARGUMENT);
    assert_int_equal(anyflash_explain(NULL, &call.args, text, 0, &err), ANYFLASH_E_ARGUMENT);
}

static int make_call(void **state)
{
    (void)state;
    call_init(&call, 1, CALL_ROWS);
    before = call;
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_context__refuses_wrong_arguments),
        cmocka_unit_test(test_context__freeing_none_is_allowed),
        cmocka_unit_test(test_attend__refuses_no_arguments),
        cmocka_unit_test(test_attend__refuses_a_struct_shorter_than_the_first_header),
        cmocka_unit_test(test_attend__takes_the_struct_of_the_first_header),
        cmocka_unit_test(test_attend__takes_a_later_struct_unless_its_new_options_are_set),
        cmocka_unit_test(test_attend__names_the_argument_and_its_value),
        cmocka_unit_test(test_workspace_and_explain__refuse_as_the_call_does),
    };
    return cmocka_run_group_tests(tests, make_call, NULL);
}
