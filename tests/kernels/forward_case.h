/*
 * forward_case.h: one forward problem with tensors between guard pages, its
 * correct result (o and lse from the oracle), and the error of plain formulas
 * in the tensors' own type.
 *
 * Inputs are read-only once the case is sealed. Outputs are filled with a byte
 * that every element must overwrite and every gap between rows must keep.
 */
#ifndef AF_TEST_FORWARD_CASE_H
#define AF_TEST_FORWARD_CASE_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/attn/convert.h"
#include "engine/attn/prepare.h"
#include "engine/attn/rows.h"

#include "tests/oracle/reference.h"

#include "case_random.h"
#include "guard.h"

#define CASE_FILL 0xA5
#define CASE_PERIOD 65521 /* a prime: rows that are the same lie as many rows apart */

struct forward_case {
    struct anyflash_attend_args a;
    uint64_t seed;  /* that names the case */
    uint64_t state; /* of the random numbers */
    int32_t dtype;
    int32_t key_dtype;  /* of k and v: dtype or an fp8 type */
    bool plain_strides; /* no gaps, no broadcast keys */
    bool nan_in_gaps;   /* between the rows of inputs */
    struct guard guards[40];
    int guard_count;
    bool writable[40];
    struct guard *o_guard, *lse_guard;
    double *want_o, *want_lse;         /* [B, H, Sq, Dv], [B, H, Sq] */
    double *plain_o, *plain_lse;       /* of the plain formulas */
    double largest_score, largest_sum; /* of the plain formulas */
};

static inline uint64_t case_word(struct forward_case *c)
{
    return random_word(&c->state);
}

static inline int64_t case_pick(struct forward_case *c, int64_t low, int64_t high)
{
    return random_pick(&c->state, low, high);
}

static inline bool case_one_in(struct forward_case *c, int64_t n)
{
    return random_one_in(&c->state, n);
}

static inline float case_number(struct forward_case *c)
{
    return (float)(int64_t)(case_word(c) % 4096) / 1024 - 2;
}

static inline struct forward_case *case_new(uint64_t seed, int32_t dtype)
{
    struct forward_case *c = calloc(1, sizeof *c);
    c->seed = c->state = seed;
    c->dtype = c->key_dtype = dtype;
    c->a = anyflash_attend_args_init();
    return c;
}

static inline void case_sizes(struct forward_case *c, int64_t batch, int64_t kv_heads,
                              int64_t group, int64_t q_len, int64_t k_len, int64_t dim,
                              int64_t value_dim)
{
    c->a.batch = batch;
    c->a.kv_heads = kv_heads;
    c->a.heads = kv_heads * group;
    c->a.q_len = q_len;
    c->a.k_len = k_len;
    c->a.head_dim = dim;
    c->a.value_dim = value_dim;
}

/* Guarded bytes that live as long as the case; read-only after sealing unless `writable`. */
static inline struct guard *case_bytes(struct forward_case *c, size_t size_bytes, bool writable)
{
    struct guard *guard = &c->guards[c->guard_count];
    c->writable[c->guard_count++] = writable;
    *guard = guard_new(size_bytes, case_one_in(c, 2));
    return guard;
}

static inline int32_t *case_indexes(struct forward_case *c, int64_t count)
{
    return (int32_t *)(void *)case_bytes(c, (size_t)count * sizeof(int32_t), false)->bytes;
}

/* The numbers below `count` in random order. */
static inline int32_t *case_permutation(struct forward_case *c, int64_t count)
{
    int32_t *numbers = case_indexes(c, count);
    for (int64_t n = 0; n < count; n++) {
        int64_t other = case_pick(c, 0, n);
        numbers[n] = numbers[other];
        numbers[other] = (int32_t)n;
    }
    return numbers;
}

static inline float *case_floats(struct forward_case *c, int64_t count)
{
    float *numbers = (float *)(void *)case_bytes(c, (size_t)count * 4, false)->bytes;
    for (int64_t i = 0; i < count; i++)
        numbers[i] = case_number(c);
    return numbers;
}

/* Elements from the first to the last of a tensor. */
static inline int64_t case_span(const struct anyflash_tensor *t, int64_t batch, int64_t heads,
                                int64_t rows, int64_t dim)
{
    if (batch * heads * rows * dim == 0)
        return 0;
    return (batch - 1) * t->batch_stride + (heads - 1) * t->head_stride +
           (rows - 1) * t->row_stride + dim;
}

/* Random numbers, the same again after CASE_PERIOD: large tensors would take long to fill. */
static inline void case_fill(struct forward_case *c, int32_t dtype, void *data, int64_t count)
{
    const size_t bytes = af_dtype_bytes(dtype);
    for (int64_t i = 0; i < count && i < CASE_PERIOD; i++) {
        if (dtype == ANYFLASH_BOOL)
            ((char *)data)[i] = (char)(case_pick(c, 0, 3) > 0);
        else
            af_convert_store(dtype, data, i, case_number(c));
    }
    for (int64_t i = CASE_PERIOD; i < count; i += CASE_PERIOD)
        memcpy((char *)data + (size_t)i * bytes, data,
               (size_t)(count - i < CASE_PERIOD ? count - i : CASE_PERIOD) * bytes);
}

/* Strides of rows or heads first, at times with gaps. */
static inline struct anyflash_tensor case_layout(struct forward_case *c, int32_t dtype,
                                                 int64_t heads, int64_t rows, int64_t dim)
{
    const int64_t run = dim + (!c->plain_strides && case_one_in(c, 3) ? case_pick(c, 1, 9) : 0);
    return case_one_in(c, 2) ? anyflash_bhsd(NULL, dtype, heads, rows, run)
                             : anyflash_bshd(NULL, dtype, heads, rows, run);
}

/* A random tensor between guard pages. */
static inline struct anyflash_tensor case_tensor(struct forward_case *c, int32_t dtype,
                                                 int64_t batch, int64_t heads, int64_t rows,
                                                 int64_t dim, bool writable)
{
    struct anyflash_tensor t = case_layout(c, dtype, heads, rows, dim);
    int64_t count = case_span(&t, batch, heads, rows, dim);
    struct guard *guard = case_bytes(c, (size_t)count * af_dtype_bytes(dtype), writable);
    t.data = guard->bytes;
    case_fill(c, dtype, t.data, count);
    const int64_t run = t.head_stride < t.row_stride ? t.head_stride : t.row_stride;
    const bool spoiled = c->nan_in_gaps && run > dim && dtype != ANYFLASH_BOOL;
    for (int64_t at = dim; spoiled && at < count; at += run)
        af_convert_store(dtype, t.data, at, NAN);
    return t;
}

/* Scales of fp8 keys and values: of each head, sequence and head, or page and head. */
static inline void case_scales(struct forward_case *c)
{
    struct anyflash_attend_args *a = &c->a;
    a->scale_per_page = a->block_table != NULL && case_one_in(c, 2);
    a->scale_stride = a->scale_per_page || case_one_in(c, 2) ? a->kv_heads : 0;
    const int64_t count = ((a->scale_per_page ? a->page_count : a->batch) + 1) * a->kv_heads;
    float *k_scales = case_floats(c, count), *v_scales = case_floats(c, count);
    for (int64_t n = 0; n < count; n++) {
        k_scales[n] = 0.5f + fabsf(k_scales[n]) / 4;
        v_scales[n] = 0.5f + fabsf(v_scales[n]);
    }
    a->k_scales = k_scales;
    a->v_scales = case_one_in(c, 4) ? NULL : v_scales;
}

/* Bias or mask [B or 1, H or 1, Sq or 1, Sk]. */
static inline struct anyflash_tensor case_plane(struct forward_case *c, int32_t dtype)
{
    const bool batch = case_one_in(c, 2), heads = case_one_in(c, 2), rows = !case_one_in(c, 4);
    struct anyflash_tensor plane =
        case_tensor(c, dtype, batch ? c->a.batch : 1, heads ? c->a.heads : 1,
                    rows ? c->a.q_len : 1, c->a.k_len, false);
    plane.batch_stride = batch ? plane.batch_stride : 0;
    plane.head_stride = heads ? plane.head_stride : 0;
    plane.row_stride = rows ? plane.row_stride : 0;
    return plane;
}

/* Key and value tensors: of a batch, packed, of a cache or of pages. */
static inline void case_keys(struct forward_case *c)
{
    struct anyflash_attend_args *a = &c->a;
    const bool writable = a->new_len > 0;
    int64_t batch = a->batch, rows = a->k_len;
    if (a->cu_seqlens_k != NULL) {
        batch = 1;
        rows = a->total_k;
    } else if (a->block_table != NULL) {
        batch = a->page_count;
        rows = a->page_size;
    } else if (a->cache_batch_idx != NULL) {
        batch = a->cache_batch;
    }
    a->k = case_tensor(c, c->key_dtype, batch, a->kv_heads, rows, a->head_dim, writable);
    a->v = case_tensor(c, c->key_dtype, batch, a->kv_heads, rows, a->value_dim, writable);
    if (!writable && !c->plain_strides && case_one_in(c, 8))
        a->k.head_stride = a->v.head_stride = 0;
    if (a->new_len > 0) {
        a->k_new =
            case_tensor(c, c->dtype, a->batch, a->kv_heads, a->new_len, a->head_dim, false);
        a->v_new =
            case_tensor(c, c->dtype, a->batch, a->kv_heads, a->new_len, a->value_dim, false);
    }
}

/* q, k, v, o and lse for the sizes and index arrays in c->a. */
static inline void case_tensors(struct forward_case *c)
{
    struct anyflash_attend_args *a = &c->a;
    const bool packed = a->cu_seqlens_q != NULL;
    const int64_t batch = packed ? 1 : a->batch, rows = packed ? a->total_q : a->q_len;
    const int32_t o_type = case_one_in(c, 3) ? ANYFLASH_F32 : c->dtype;
    a->q = case_tensor(c, c->dtype, batch, a->heads, rows, a->head_dim, false);
    case_keys(c);
    a->o = case_tensor(c, o_type, batch, a->heads, rows, a->value_dim, true);
    c->o_guard = &c->guards[c->guard_count - 1];
    a->lse_head_stride = rows + (c->plain_strides ? 0 : case_pick(c, 0, 3));
    a->lse_batch_stride = a->heads * a->lse_head_stride;
    const int64_t lse_count =
        batch * a->heads * rows == 0 ? 0 : (batch * a->heads - 1) * a->lse_head_stride + rows;
    c->lse_guard = case_bytes(c, (size_t)lse_count * 4, true);
    a->lse = (float *)(void *)c->lse_guard->bytes;
}

static inline struct af_problem case_problem(const struct forward_case *c)
{
    struct anyflash_error err = {0};
    struct af_problem problem;
    if (af_problem_init(&problem, &c->a, &err) != ANYFLASH_OK)
        fail_msg("seed %llu refused: %s", (unsigned long long)c->seed, err.message);
    return problem;
}

static inline void case_free(struct forward_case *c)
{
    for (int n = 0; n < c->guard_count; n++)
        guard_free(&c->guards[n]);
    free(c->want_o);
    free(c->want_lse);
    free(c->plain_o);
    free(c->plain_lse);
    free(c);
}

#endif
