/*
 * test_scratch.c: a call takes exactly the announced memory from the caller's
 * allocator, and returns a status if there is none.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "engine/base/mem.h"

#include "small_call.h"
#include "tests/unit/every_allocation.h"

/* An allocator that counts requests and refuses them from number `refuse_at` on. */
struct counted {
    int requests;
    int refuse_at; /* 0: never */
    int living;
    size_t last_bytes;
};

static void *count_allocate(size_t size_bytes, size_t align_bytes, void *user)
{
    struct counted *counted = user;
    counted->requests++;
    counted->last_bytes = size_bytes;
    if (counted->refuse_at != 0 && counted->requests >= counted->refuse_at)
        return NULL;
    char *block = malloc(size_bytes + align_bytes);
    if (block == NULL)
        return NULL;
    counted->living++;
    char *memory = block + align_bytes - (uintptr_t)block % align_bytes;
    ((void **)memory)[-1] = block;
    return memory;
}

static void count_release(void *memory, void *user)
{
    ((struct counted *)user)->living--;
    free(((void **)memory)[-1]);
}

static struct anyflash_context *counted_context(struct counted *counted, int threads)
{
    struct anyflash_context_args args = {.struct_size = sizeof args,
                                         .threads = threads,
                                         .allocate = count_allocate,
                                         .release = count_release,
                                         .user = counted};
    struct anyflash_context *context = NULL;
    assert_int_equal(anyflash_context_new(&args, &context, NULL), ANYFLASH_OK);
    return context;
}

static struct small_call call, want;

static void test_workspace__is_what_the_call_allocates(void **state)
{
    (void)state;
    static const int64_t queries[] = {CALL_ROWS, 1, 7, 0};
    for (int n = 0; n < 12; n++) {
        struct counted counted = {0};
        struct anyflash_context *context = counted_context(&counted, 1 + n % 3);
        size_t bytes = 0;
        call_init(&call, 1, CALL_ROWS);
        call.args.q_len = queries[n / 3];
        assert_int_equal(anyflash_workspace_bytes(context, &call.args, &bytes, NULL),
                         ANYFLASH_OK);
        assert_int_equal(counted.requests, 0);
        assert_int_equal(anyflash_attend(context, &call.args, NULL), ANYFLASH_OK);
        assert_int_equal(counted.requests, 1);
        assert_int_equal(counted.last_bytes, bytes);
        anyflash_context_free(context);
        assert_int_equal(counted.living, 0);
    }
}

static void test_scratch__is_kept_for_the_next_call(void **state)
{
    (void)state;
    struct counted counted = {0};
    struct anyflash_context *context = counted_context(&counted, 2);
    call_init(&call, 1, CALL_ROWS);
    for (int n = 0; n < 3; n++)
        assert_int_equal(anyflash_attend(context, &call.args, NULL), ANYFLASH_OK);
    assert_int_equal(counted.requests, 1);
    anyflash_context_free(context);
    assert_int_equal(counted.living, 0);
}

static void test_scratch__refused_is_a_status_and_the_context_lives_on(void **state)
{
    (void)state;
    struct counted counted = {.refuse_at = 1};
    struct anyflash_error err = {ANYFLASH_OK, ""};
    struct anyflash_context *context = counted_context(&counted, 2);
    call_init(&call, 1, CALL_ROWS);
    want = call;
    assert_int_equal(anyflash_attend(context, &call.args, &err), ANYFLASH_E_NO_MEMORY);
    assert_memory_equal(call.o, want.o, sizeof call.o);
    assert_memory_equal(call.lse, want.lse, sizeof call.lse);
    counted.refuse_at = 0;
    assert_int_equal(anyflash_attend(context, &call.args, &err), ANYFLASH_OK);
    anyflash_context_free(context);
    assert_int_equal(counted.living, 0);
}

/*
 * Makes each allocation of a call without a context fail in turn. Threads that
 * cannot start are not a failure: the call then uses fewer.
 */
static void test_attend__survives_each_failed_allocation(void **state)
{
    (void)state;
    struct every_allocation each = {.at_least = 1};
    call_init(&call, 1, CALL_ROWS);
    want = call;
    assert_int_equal(anyflash_attend(NULL, &want.args, NULL), ANYFLASH_OK);
    assert_int_equal(anyflash_attend(NULL, &call.args, NULL), ANYFLASH_OK);
    want = call;
    size_t refused = 0;
    while (every_allocation_next(&each)) {
        struct anyflash_error err = {ANYFLASH_OK, ""};
        call_clear(&call);
        every_allocation_begin(&each);
        enum anyflash_status status = anyflash_attend(NULL, &call.args, &err);
        every_allocation_end(&each);
        if (status == ANYFLASH_OK) {
            assert_memory_equal(call.o, want.o, sizeof call.o);
            continue;
        }
        assert_int_equal(status, ANYFLASH_E_NO_MEMORY);
        assert_int_equal(((const unsigned char *)call.o)[0], 0x5A);
        assert_true(each.failed);
        refused++;
    }
    assert_true(refused > 0);
}

static void test_context__survives_each_failed_allocation(void **state)
{
    (void)state;
    struct every_allocation each = {.at_least = 1};
    while (every_allocation_next(&each)) {
        struct anyflash_context *context = NULL;
        every_allocation_begin(&each);
        enum anyflash_status status = anyflash_context_new(NULL, &context, NULL);
        every_allocation_end(&each);
        every_allocation_check(&each, status, NULL);
        assert_int_equal(context != NULL, status == ANYFLASH_OK);
        anyflash_context_free(context);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_workspace__is_what_the_call_allocates),
        cmocka_unit_test(test_scratch__is_kept_for_the_next_call),
        cmocka_unit_test(test_scratch__refused_is_a_status_and_the_context_lives_on),
        cmocka_unit_test(test_attend__survives_each_failed_allocation),
        cmocka_unit_test(test_context__survives_each_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
