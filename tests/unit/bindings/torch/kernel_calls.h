/*
 * kernel_calls.h: calls the kernels over fake_torch.c as torch's dispatcher
 * does, and computes attention in double precision to compare with.
 */
#ifndef KERNEL_CALLS_H
#define KERNEL_CALLS_H

#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "anyflash/anyflash_torch.h"
#include "engine/base/mem.h"
#include "fake_torch.h"

#define SDPA "_scaled_dot_product_flash_attention_for_cpu"
#define SDPA_BACKWARD "_scaled_dot_product_flash_attention_for_cpu_backward"
#define FLASH "_flash_attention_forward"
#define FLASH_OUT "_flash_attention_forward_no_dropout_inplace"
#define FLASH_BACKWARD "_flash_attention_backward"

enum { D = 8, HEADS = 4, GROUPS = 2, ROWS = 5, KEYS = 7, STACK = 20 };

static inline uint64_t slot_of(const void *pointer)
{
    uint64_t slot = 0;
    memcpy(&slot, &pointer, sizeof pointer);
    return slot;
}

static inline struct fake_tensor *in_slot(uint64_t slot)
{
    struct fake_tensor *tensor;
    memcpy(&tensor, &slot, sizeof tensor);
    return tensor;
}

static inline uint64_t float_slot(double number)
{
    uint64_t slot;
    memcpy(&slot, &number, sizeof number);
    return slot;
}

static inline struct fake_tensor *floats(int64_t dim, const int64_t *sizes, unsigned seed)
{
    struct fake_tensor *tensor = fake_tensor_new(FAKE_F32, dim, sizes);
    int64_t count = 1;
    for (int64_t i = 0; i < dim; i++)
        count *= sizes[i];
    for (int64_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        ((float *)tensor->data)[i] = (float)(seed >> 8) / (float)(1 << 23) - 1.0f;
    }
    return tensor;
}

static inline struct fake_tensor *integers(int64_t count, const int32_t *values)
{
    struct fake_tensor *tensor = fake_tensor_new(FAKE_I32, 1, &count);
    memcpy(tensor->data, values, (size_t)count * sizeof *values);
    return tensor;
}

/* A problem of torch's: packed [total, H, D] for flash, [B, H, S, D] for SDPA. */
struct problem {
    struct fake_tensor *q, *k, *v;
};

static inline struct problem packed_problem(void)
{
    const int64_t q[3] = {ROWS, HEADS, D}, k[3] = {KEYS, GROUPS, D};
    return (struct problem){floats(3, q, 1), floats(3, k, 2), floats(3, k, 3)};
}

static inline struct problem sdpa_problem(void)
{
    const int64_t q[4] = {1, HEADS, ROWS, D}, k[4] = {1, GROUPS, KEYS, D};
    return (struct problem){floats(4, q, 1), floats(4, k, 2), floats(4, k, 3)};
}

static inline void free_problem(struct problem *p)
{
    fake_tensor_free(p->q);
    fake_tensor_free(p->k);
    fake_tensor_free(p->v);
}

/* Strides of row, head in elements, of tensors of either kind. */
static inline double at(const struct fake_tensor *t, int64_t row, int64_t head, int64_t d)
{
    bool packed = t->dim == 3;
    int64_t r = t->strides[packed ? 0 : 2], h = t->strides[1];
    return (double)((const float *)t->data)[row * r + head * h + d * t->strides[t->dim - 1]];
}

/* Probabilities of one row over the keys [first, end) that it sees; returns the logsumexp. */
static inline double row_weights(const struct problem *p, int64_t row, int64_t head,
                                 int64_t first, int64_t end, double weights[KEYS])
{
    double sum = 0;
    for (int64_t j = first; j < end; j++) {
        double score = 0;
        for (int64_t d = 0; d < D; d++)
            score += at(p->q, row, head, d) * at(p->k, j, head / (HEADS / GROUPS), d);
        sum += weights[j] = exp(score / sqrt((double)D));
    }
    for (int64_t j = first; j < end; j++)
        weights[j] /= sum;
    return log(sum);
}

static inline void check_row(const struct problem *p, const struct fake_tensor *o, double lse,
                             int64_t row, int64_t head, int64_t first, int64_t end)
{
    double weights[KEYS] = {0};
    double want_lse = row_weights(p, row, head, first, end, weights);
    for (int64_t d = 0; d < D; d++) {
        double want = 0;
        for (int64_t j = first; j < end; j++)
            want += weights[j] * at(p->v, j, head / (HEADS / GROUPS), d);
        assert_true(fabs(at(o, row, head, d) - want) < 1e-5);
    }
    if (first == end)
        assert_true(isinf(lse) && lse > 0);
    else
        assert_true(fabs(lse - want_lse) < 1e-5);
}

static inline void push_problem(const struct problem *p, uint64_t *stack)
{
    stack[0] = slot_of(fake_tensor_view(p->q));
    stack[1] = slot_of(fake_tensor_view(p->k));
    stack[2] = slot_of(fake_tensor_view(p->v));
}

/* q, k, v, dropout, causal, no mask, no scale */
static inline void push_sdpa(const struct problem *p, bool causal, uint64_t *stack)
{
    push_problem(p, stack);
    stack[3] = float_slot(0.0);
    stack[4] = 0xab00u | causal; /* the other bytes of a bool are noise */
    stack[5] = stack[6] = 0;
}

static const int32_t cu_q_values[3] = {0, 2, ROWS}, cu_k_values[3] = {0, 3, KEYS};

/* All 17 arguments of the newest schema: two sequences, causal. */
static inline void push_flash(const struct problem *p, uint64_t *stack)
{
    memset(stack, 0, (STACK - 1) * sizeof *stack);
    push_problem(p, stack);
    stack[3] = fake_cell(slot_of(integers(3, cu_q_values)));
    stack[4] = fake_cell(slot_of(integers(3, cu_k_values)));
    stack[5] = 3;
    stack[6] = 4;
    stack[7] = float_slot(0.0);
    stack[8] = 1;
}

static inline void drop_results(uint64_t *stack, int count)
{
    for (int i = 0; i < count; i++)
        if (stack[i] != 0)
            fake_tensor_free(in_slot(stack[i]));
}

static inline int set_up(void **state)
{
    (void)state;
    struct anyflash_error err = {0};
    void *library = dlopen(AF_FAKE_TORCH, RTLD_NOW);
    assert_non_null(library);
    fake_refuse_own(false);
    assert_int_equal(anyflash_torch_enable(library, ANYFLASH_TORCH_ALL, &err), ANYFLASH_OK);
    dlclose(library);
    return 0;
}

static inline void push_backward(const struct problem *p, uint64_t o, uint64_t lse,
                                 uint64_t rng, uint64_t *stack)
{
    uint64_t forward[STACK];
    push_flash(p, forward);
    memset(stack, 0, STACK * sizeof *stack);
    stack[0] = slot_of(floats(3, p->q->sizes, 9));
    memcpy(stack + 1, forward, 3 * sizeof *stack);
    stack[4] = slot_of(fake_tensor_view(in_slot(o)));
    stack[5] = slot_of(fake_tensor_view(in_slot(lse)));
    for (int i = 0; i < 2; i++) { /* not optional here */
        uint64_t *cell = (uint64_t *)(uintptr_t)forward[3 + i];
        stack[6 + i] = *cell;
        fake_cell_free(cell);
    }
    stack[8] = forward[5];
    stack[9] = forward[6];
    stack[10] = forward[7];
    stack[11] = forward[8];
    stack[12] = slot_of(fake_tensor_view(in_slot(rng)));
    stack[13] = slot_of(fake_tensor_view(in_slot(rng)));
}

#endif
