/*
 * backward_case.h: one backward problem: its tensors between guard pages, and its gradients
 * from the oracle.
 *
 * The backward reads the oracle's o and lse, rounded, so forward kernels are not
 * involved.
 */
#ifndef AF_TEST_BACKWARD_CASE_H
#define AF_TEST_BACKWARD_CASE_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/attn/convert.h"
#include "engine/attn/mask.h"

#include "tests/oracle/reference.h"

#include "case_random.h"
#include "guard.h"

#define CASE_FILL 0xA5

enum { CASE_DQ, CASE_DK, CASE_DV, CASE_DBIAS, CASE_DSINKS, CASE_OUTPUTS };

struct backward_case {
    struct anyflash_attend_args a;
    struct anyflash_attend_backward_args args;
    uint64_t seed;
    int32_t dtype;
    bool gaps;        /* between some rows */
    bool nan_in_gaps; /* of inputs */
    int32_t cu_q[8], cu_k[8], used_q[8], used_k[8], leftpad[8], offsets[8];
    float slopes[64], sinks[64];
    struct guard guards[16];
    int guard_count;
    struct guard *outputs[CASE_DV + 1];
    int64_t counts[CASE_OUTPUTS]; /* of the oracle's results */
    double *want[CASE_OUTPUTS];
    double *plain[CASE_OUTPUTS];  /* the plain formulas' results */
    double *stored[CASE_OUTPUTS]; /* the same when only o, lse and results are rounded */
    double *o, *lse;
};

static inline struct backward_case *case_new(uint64_t seed, int32_t dtype)
{
    struct backward_case *c = calloc(1, sizeof *c);
    c->seed = seed;
    c->dtype = dtype;
    c->a = anyflash_attend_args_init();
    c->args.struct_size = sizeof c->args;
    return c;
}

static inline void case_sizes(struct backward_case *c, int64_t batch, int64_t kv_heads,
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

static inline uint64_t case_word(struct backward_case *c)
{
    return random_word(&c->seed);
}

static inline int64_t case_pick(struct backward_case *c, int64_t low, int64_t high)
{
    return random_pick(&c->seed, low, high);
}

static inline bool case_one_in(struct backward_case *c, int64_t n)
{
    return random_one_in(&c->seed, n);
}

static inline float case_number(struct backward_case *c)
{
    return (float)(int64_t)(case_word(c) % 4096) / 1024 - 2;
}

static inline float case_round(int32_t dtype, double x)
{
    return dtype == ANYFLASH_F32   ? (float)x
           : dtype == ANYFLASH_F16 ? af_f32_of_f16(af_f16_of_f32((float)x))
                                   : af_f32_of_bf16(af_bf16_of_f32((float)x));
}

/* `count` random elements between guard pages, that live as long as the case. */
static inline void *case_elements(struct backward_case *c, int32_t dtype, int64_t count)
{
    struct guard *guard = &c->guards[c->guard_count++];
    *guard = guard_new((size_t)count * af_dtype_bytes(dtype), case_one_in(c, 2));
    char *memory = guard->bytes;
    for (int64_t i = 0; i < count; i++) {
        if (dtype == ANYFLASH_BOOL)
            memory[i] = (char)(case_pick(c, 0, 3) > 0);
        else
            af_convert_store(dtype, memory, i, case_number(c));
    }
    return memory;
}

/* A random tensor, at times with gaps between rows. */
static inline struct anyflash_tensor case_tensor(struct backward_case *c, int32_t dtype,
                                                 int64_t batch, int64_t heads, int64_t rows,
                                                 int64_t dim, bool heads_first)
{
    const int64_t gap = c->gaps && case_one_in(c, 2) ? case_pick(c, 1, 9) : 0, run = dim + gap;
    const int64_t count = batch * heads * rows == 0 ? 0 : batch * heads * rows * run - gap;
    void *data = case_elements(c, dtype, count);
    const bool spoiled = c->nan_in_gaps && gap > 0 && dtype != ANYFLASH_BOOL;
    for (int64_t at = dim; spoiled && at < count; at += run)
        af_convert_store(dtype, data, at, NAN);
    return heads_first ? anyflash_bhsd(data, dtype, heads, rows, run)
                       : anyflash_bshd(data, dtype, heads, rows, run);
}

/* dq, dk or dv. */
static inline struct anyflash_tensor case_output(struct backward_case *c, int n, int64_t batch,
                                                 int64_t heads, int64_t rows, int64_t dim,
                                                 bool heads_first)
{
    c->outputs[n] = &c->guards[c->guard_count];
    return case_tensor(c, c->dtype, batch, heads, rows, dim, heads_first);
}

/* lse or dlse, for the strides of lse. */
static inline float *case_lse(struct backward_case *c)
{
    const bool packed = c->a.cu_seqlens_q != NULL;
    const int64_t rows = packed ? c->a.total_q : c->a.q_len, run = c->a.lse_head_stride;
    const int64_t count = (packed ? 1 : c->a.batch) * c->a.heads * run;
    float *lse = case_elements(c, ANYFLASH_F32, count);
    for (int64_t at = 0; c->nan_in_gaps && at < count; at++)
        lse[at] = at % run < rows ? lse[at] : NAN;
    return lse;
}

/*
 * All tensors for the sizes in c->a, packed when cu_seqlens are set; those of the forward with
 * heads first or not.
 */
static inline void case_tensors_of(struct backward_case *c, bool first, int32_t o_type)
{
    struct anyflash_attend_args *a = &c->a;
    const bool packed = a->cu_seqlens_q != NULL, packed_k = a->cu_seqlens_k != NULL;
    const int64_t bq = packed ? 1 : a->batch, rows = packed ? a->total_q : a->q_len;
    const int64_t bk = packed_k ? 1 : a->batch, keys = packed_k ? a->total_k : a->k_len;
    a->q = case_tensor(c, c->dtype, bq, a->heads, rows, a->head_dim, first);
    a->k = case_tensor(c, c->dtype, bk, a->kv_heads, keys, a->head_dim, first);
    a->v = case_tensor(c, c->dtype, bk, a->kv_heads, keys, a->value_dim, first);
    a->o = case_tensor(c, o_type, bq, a->heads, rows, a->value_dim, first);
    a->lse_head_stride = rows + (c->gaps ? case_pick(c, 0, 3) : 0);
    a->lse_batch_stride = a->heads * a->lse_head_stride;
    a->lse = case_lse(c);
    c->args.forward = a;
    c->args.dout = case_tensor(c, o_type, bq, a->heads, rows, a->value_dim, first);
    c->args.dq = case_output(c, CASE_DQ, bq, a->heads, rows, a->head_dim, !first);
    c->args.dk = case_output(c, CASE_DK, bk, a->kv_heads, keys, a->head_dim, !first);
    c->args.dv = case_output(c, CASE_DV, bk, a->kv_heads, keys, a->value_dim, !first);
}

/* The same with a random layout, type of o, and dlse or not. */
static inline void case_tensors(struct backward_case *c)
{
    const bool first = case_one_in(c, 2);
    const int32_t o_type = case_one_in(c, 2) ? ANYFLASH_F32 : c->dtype;
    case_tensors_of(c, first, o_type);
    if (case_one_in(c, 3))
        c->args.dlse = case_lse(c);
}

/* Bias or mask [B or 1, H or 1, Sq or 1, Sk], with broadcast strides. */
static inline struct anyflash_tensor case_plane(struct backward_case *c, int32_t dtype)
{
    struct anyflash_tensor plane =
        case_tensor(c, dtype, c->a.batch, c->a.heads, c->a.q_len, c->a.k_len, true);
    plane.batch_stride = case_one_in(c, 2) ? 0 : plane.batch_stride;
    plane.head_stride = case_one_in(c, 2) ? 0 : plane.head_stride;
    plane.row_stride = case_one_in(c, 4) ? 0 : plane.row_stride;
    return plane;
}

static inline struct af_problem case_problem(const struct backward_case *c)
{
    struct anyflash_error err = {0};
    struct af_problem problem;
    if (af_problem_init(&problem, &c->a, &err) != ANYFLASH_OK)
        fail_msg("refused: %s", err.message);
    return problem;
}

/* Row i of sequence b in a result of the oracle with `rows` rows a sequence. */
static inline int64_t case_at(int64_t b, int64_t heads, int64_t h, int64_t rows, int64_t i)
{
    return (b * heads + h) * rows + i;
}

/* Writes the oracle's o and lse where the backward reads them. */
static inline void case_forward(struct backward_case *c)
{
    struct af_problem problem = case_problem(c);
    const struct anyflash_attend_args *a = &problem.a;
    const int64_t rows = a->batch * a->heads * a->q_len;
    c->o = calloc((size_t)(rows * a->value_dim + 1), sizeof *c->o);
    c->lse = calloc((size_t)rows + 1, sizeof *c->lse);
    assert_int_equal(af_reference_forward(&problem, c->o, c->lse, NULL), ANYFLASH_OK);
    for (int64_t b = 0; b < a->batch; b++) {
        struct af_sequence s = af_problem_sequence(&problem, b);
        for (int64_t h = 0; h < a->heads; h++) {
            for (int64_t i = 0; i < s.q_count; i++) {
                int64_t at = case_at(b, a->heads, h, a->q_len, i);
                char *row = af_row_of_query(&a->o, af_dtype_bytes(a->o.dtype), &s, h, i);
                for (int64_t d = 0; d < a->value_dim; d++)
                    af_convert_store(a->o.dtype, row, d, (float)c->o[at * a->value_dim + d]);
                *af_lse_at(&problem, &s, h, i) = (float)c->lse[at];
            }
        }
    }
}

static inline void case_results(struct backward_case *c, double *results[CASE_OUTPUTS])
{
    for (int n = 0; n < CASE_OUTPUTS; n++)
        results[n] = calloc((size_t)c->counts[n] + 1, sizeof(double));
}

/* The oracle's gradients into c->want. */
static inline void case_oracle(struct backward_case *c)
{
    struct af_problem problem = case_problem(c);
    const struct anyflash_attend_args *a = &problem.a;
    c->counts[CASE_DQ] = a->batch * a->heads * a->q_len * a->head_dim;
    c->counts[CASE_DK] = a->batch * a->kv_heads * a->k_len * a->head_dim;
    c->counts[CASE_DV] = a->batch * a->kv_heads * a->k_len * a->value_dim;
    c->counts[CASE_DBIAS] = a->batch * a->heads * a->q_len * a->k_len;
    c->counts[CASE_DSINKS] = a->heads;
    case_results(c, c->want);
    case_results(c, c->plain);
    case_results(c, c->stored);
    const struct af_gradients gradients = {c->want[CASE_DQ], c->want[CASE_DK], c->want[CASE_DV],
                                           c->want[CASE_DBIAS], c->want[CASE_DSINKS]};
    assert_int_equal(
        af_reference_backward(&problem, &c->args.dout, c->args.dlse, &gradients, NULL),
        ANYFLASH_OK);
}

static inline void case_free(struct backward_case *c)
{
    for (int n = 0; n < c->guard_count; n++)
        guard_free(&c->guards[n]);
    for (int n = 0; n < CASE_OUTPUTS; n++) {
        free(c->want[n]);
        free(c->plain[n]);
        free(c->stored[n]);
    }
    free(c->o);
    free(c->lse);
    free(c);
}

#endif
