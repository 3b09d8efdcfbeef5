/*
 * test_threads.c: several threads call forward and backward at once, with a
 * shared context, with one each and with none. Each gets the same bits as a
 * single call. Also run under ThreadSanitizer.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "small_call.h"

#define CALLERS 4
#define ROUNDS 20

/* The backward of a small call, whose o is also its dout. */
struct gradients {
    float dq[CALL_COUNT], dk[CALL_COUNT], dv[CALL_COUNT];
};

struct caller {
    pthread_t thread;
    struct anyflash_context *context;
    struct small_call call;
    struct small_call want;
    struct gradients gradients;
    struct gradients want_gradients;
    int rounds;
    int wrong; /* rounds that failed or gave other bits */
};

static struct caller callers[CALLERS];

static enum anyflash_status attend_backward(struct anyflash_context *context,
                                            const struct small_call *call,
                                            struct gradients *gradients)
{
    const struct anyflash_attend_args *a = &call->args;
    struct anyflash_attend_backward_args args = {
        .struct_size = sizeof args,
        .forward = a,
        .dout = a->o,
        .dq = anyflash_bshd(gradients->dq, ANYFLASH_F32, CALL_HEADS, a->q_len, CALL_DIM),
        .dk = anyflash_bshd(gradients->dk, ANYFLASH_F32, CALL_HEADS, a->k_len, CALL_DIM),
        .dv = anyflash_bshd(gradients->dv, ANYFLASH_F32, CALL_HEADS, a->k_len, CALL_DIM)};
    return anyflash_attend_backward(context, &args, NULL);
}

static void *call_often(void *argument)
{
    struct caller *caller = argument;
    for (int n = 0; n < caller->rounds; n++) {
        call_clear(&caller->call);
        memset(&caller->gradients, 0, sizeof caller->gradients);
        if (anyflash_attend(caller->context, &caller->call.args, NULL) != ANYFLASH_OK ||
            memcmp(caller->call.o, caller->want.o, sizeof caller->want.o) != 0 ||
            memcmp(caller->call.lse, caller->want.lse, sizeof caller->want.lse) != 0)
            caller->wrong++;
        if (attend_backward(caller->context, &caller->call, &caller->gradients) !=
                ANYFLASH_OK ||
            memcmp(&caller->gradients, &caller->want_gradients, sizeof caller->gradients) != 0)
            caller->wrong++;
    }
    return NULL;
}

/* The expected results, from a context with one thread. Sizes differ. */
static void make_callers(void)
{
    struct anyflash_context *alone = context_of(1);
    for (int n = 0; n < CALLERS; n++) {
        struct caller *caller = &callers[n];
        caller->rounds = ROUNDS;
        caller->wrong = 0;
        caller->context = NULL;
        call_init(&caller->want, (uint32_t)n, CALL_ROWS - 37 * n);
        call_init(&caller->call, (uint32_t)n, CALL_ROWS - 37 * n);
        memset(&caller->want_gradients, 0, sizeof caller->want_gradients);
        assert_int_equal(anyflash_attend(alone, &caller->want.args, NULL), ANYFLASH_OK);
        assert_int_equal(attend_backward(alone, &caller->want, &caller->want_gradients),
                         ANYFLASH_OK);
    }
    anyflash_context_free(alone);
}

static void run_callers(void)
{
    for (int n = 0; n < CALLERS; n++)
        assert_int_equal(pthread_create(&callers[n].thread, NULL, call_often, &callers[n]), 0);
    for (int n = 0; n < CALLERS; n++) {
        pthread_join(callers[n].thread, NULL);
        assert_int_equal(callers[n].wrong, 0);
    }
}

static void test_threads__share_one_context(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 3; threads++) {
        struct anyflash_context *context = context_of(threads);
        make_callers();
        for (int n = 0; n < CALLERS; n++)
            callers[n].context = context;
        run_callers();
        anyflash_context_free(context);
    }
}

static void test_threads__with_a_context_each(void **state)
{
    (void)state;
    make_callers();
    for (int n = 0; n < CALLERS; n++)
        callers[n].context = context_of(2);
    run_callers();
    for (int n = 0; n < CALLERS; n++)
        anyflash_context_free(callers[n].context);
}

static void test_threads__without_a_context(void **state)
{
    (void)state;
    make_callers();
    for (int n = 0; n < CALLERS; n++)
        callers[n].rounds = 3;
    run_callers();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads__share_one_context),
        cmocka_unit_test(test_threads__with_a_context_each),
        cmocka_unit_test(test_threads__without_a_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
