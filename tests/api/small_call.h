/*
 * small_call.h: a call of the public API with its tensors, for tests: f32, two
 * heads of size 32, large enough that a pool splits the work.
 */
#ifndef AF_TEST_SMALL_CALL_H
#define AF_TEST_SMALL_CALL_H

#include <anyflash/anyflash.h>

#include <string.h>

#define CALL_HEADS 2
#define CALL_ROWS 150
#define CALL_DIM 32
#define CALL_COUNT (CALL_HEADS * CALL_ROWS * CALL_DIM)

struct small_call {
    struct anyflash_attend_args args;
    float q[CALL_COUNT], k[CALL_COUNT], v[CALL_COUNT], o[CALL_COUNT];
    float lse[CALL_HEADS * CALL_ROWS];
};

static inline void call_fill(float *numbers, uint32_t *state)
{
    for (int i = 0; i < CALL_COUNT; i++) {
        *state = *state * 1664525u + 1013904223u;
        numbers[i] = (float)(*state >> 8) * 0x1p-23f - 1.0f;
    }
}

/* Clears the outputs. */
static inline void call_clear(struct small_call *call)
{
    memset(call->o, 0x5A, sizeof call->o);
    memset(call->lse, 0x5A, sizeof call->lse);
}

/* A causal call over the first `rows` rows; numbers depend on `seed`. */
static inline void call_init(struct small_call *call, uint32_t seed, int64_t rows)
{
    call->args = anyflash_attend_args_init();
    call->args.batch = 1;
    call->args.heads = call->args.kv_heads = CALL_HEADS;
    call->args.q_len = call->args.k_len = rows;
    call->args.head_dim = call->args.value_dim = CALL_DIM;
    call->args.causal = 1;
    call->args.q = anyflash_bshd(call->q, ANYFLASH_F32, CALL_HEADS, rows, CALL_DIM);
    call->args.k = anyflash_bshd(call->k, ANYFLASH_F32, CALL_HEADS, rows, CALL_DIM);
    call->args.v = anyflash_bshd(call->v, ANYFLASH_F32, CALL_HEADS, rows, CALL_DIM);
    call->args.o = anyflash_bshd(call->o, ANYFLASH_F32, CALL_HEADS, rows, CALL_DIM);
    call->args.lse = call->lse;
    call->args.lse_head_stride = rows;
    call->args.lse_batch_stride = CALL_HEADS * rows;
    call_fill(call->q, &seed);
    call_fill(call->k, &seed);
    call_fill(call->v, &seed);
    call_clear(call);
}

/* A context with `threads` threads; the test fails if there is none. */
static inline struct anyflash_context *context_of(int threads)
{
    struct anyflash_context_args args = {.struct_size = sizeof args, .threads = threads};
    struct anyflash_context *context = NULL;
    assert_int_equal(anyflash_context_new(&args, &context, NULL), ANYFLASH_OK);
    return context;
}

#endif
