/*
 * test_tiles.c: what a call leaves of AMX's tiles: nothing, so that the system does not
 * have to save them and other libraries may configure them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "anyflash/anyflash.h"
#include "engine/base/cpu.h"

#define ROWS 64
#define DIM 64

static uint16_t rows[8][ROWS * DIM];
static float lse[ROWS];

static struct anyflash_tensor tensor(int i)
{
    return anyflash_bhsd(rows[i], ANYFLASH_BF16, 1, ROWS, DIM);
}

static struct anyflash_attend_args problem(void)
{
    struct anyflash_attend_args args = ANYFLASH_ATTEND_ARGS_INIT;
    args.batch = args.heads = args.kv_heads = 1;
    args.q_len = args.k_len = ROWS;
    args.head_dim = args.value_dim = DIM;
    args.q = tensor(0), args.k = tensor(1), args.v = tensor(2), args.o = tensor(3);
    args.lse = lse;
    args.lse_batch_stride = args.lse_head_stride = ROWS;
    return args;
}

/* Whether this thread has state in the tiles or their configuration (XINUSE). */
static bool holds_tiles(void)
{
    uint32_t low = 0;
#if defined(__x86_64__)
    uint32_t high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(1));
#endif
    return (low & 0x60000u) != 0;
}

/* A context in which the calling thread computes everything; skips the test without AMX. */
static struct anyflash_context *context_for_amx(void)
{
    if ((af_cpu_features() & AF_CPU_AMX) == 0) {
        print_message("needs a processor with AMX, and a system that permits its tiles\n");
        skip();
    }
    const struct anyflash_context_args args = {.struct_size = sizeof args, .threads = 1};
    struct anyflash_context *context = NULL;
    assert_int_equal(anyflash_context_new(&args, &context, NULL), ANYFLASH_OK);
    return context;
}

static void test_tiles__are_used_by_default(void **state)
{
    (void)state;
    struct anyflash_context *context = context_for_amx();
    const struct anyflash_attend_args args = problem();
    char text[2000];
    assert_int_equal(anyflash_explain(context, &args, text, sizeof text, NULL), ANYFLASH_OK);
    assert_non_null(strstr(text, "many rows: af_fwd_bf16__amx"));
    assert_non_null(strstr(text, "backward: af_bwd_bf16__amx"));
    anyflash_context_free(context);
}

static void test_tiles__are_free_after_a_call(void **state)
{
    (void)state;
    struct anyflash_context *context = context_for_amx();
    const struct anyflash_attend_args args = problem();
    struct anyflash_attend_backward_args backward = {.struct_size = sizeof backward,
                                                     .forward = &args,
                                                     .dout = tensor(4),
                                                     .dq = tensor(5),
                                                     .dk = tensor(6),
                                                     .dv = tensor(7)};
    assert_int_equal(anyflash_attend(context, &args, NULL), ANYFLASH_OK);
    assert_false(holds_tiles());
    assert_int_equal(anyflash_attend_backward(context, &backward, NULL), ANYFLASH_OK);
    assert_false(holds_tiles());
    anyflash_context_free(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tiles__are_used_by_default),
        cmocka_unit_test(test_tiles__are_free_after_a_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
