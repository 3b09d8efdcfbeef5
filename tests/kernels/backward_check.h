/*
 * backward_check.h: runs a backward case and compares its outputs with the oracle: the error of
 * each may be twice that of the plain formulas plus a few roundings.
 */
#ifndef AF_TEST_BACKWARD_CHECK_H
#define AF_TEST_BACKWARD_CHECK_H

#include "engine/base/cpu.h"
#include "engine/call/context.h"

#include "backward_plain.h"
#include "machine.h"

/* Element e of output n after the call, indexed like the oracle's results. */
static inline double output_at(const struct backward_case *c, const struct af_problem *problem,
                               int n, int64_t e, bool *owned)
{
    const struct anyflash_attend_args *a = &problem->a;
    const bool of_q = n == CASE_DQ;
    const int64_t dim = n == CASE_DV ? a->value_dim : a->head_dim;
    const int64_t heads = of_q ? a->heads : a->kv_heads, rows = of_q ? a->q_len : a->k_len;
    struct anyflash_tensor t = of_q ? c->args.dq : n == CASE_DK ? c->args.dk : c->args.dv;
    const int64_t b = e / dim / rows / heads, h = e / dim / rows % heads, i = e / dim % rows;
    const int32_t *cu = of_q ? a->cu_seqlens_q : a->cu_seqlens_k;
    int64_t row = i;
    *owned = true;
    if (cu != NULL) {
        t.batch_stride = 0;
        row += cu[b];
        *owned = row < cu[b + 1];
    }
    return *owned ? (double)af_convert_load(
                        c->dtype, af_row_of_tensor(&t, af_dtype_bytes(c->dtype), b, h, row),
                        e % dim)
                  : 0;
}

static inline bool same_or_near(double got, double want, double bound)
{
    return got == want || (isnan(got) && isnan(want)) || fabs(got - want) <= bound;
}

/* A weight too small for a float, times an infinity: no float has what the oracle finds. */
static inline bool is_lost_in_float(const struct backward_case *c, int n, int64_t e, double got)
{
    return isnan(got) && !isfinite(c->want[n][e]) && isnan(c->stored[n][e]);
}

/* The largest distance of results from the oracle's. */
static inline double error_of(const struct backward_case *c, int n, const double *results)
{
    double error = 0;
    for (int64_t e = 0; e < c->counts[n]; e++) {
        double apart = fabs(results[e] - c->want[n][e]);
        error = isfinite(apart) && apart > error ? apart : error;
    }
    return error;
}

/*
 * The error of the plain formulas: with every step rounded, or with f32 steps if
 * that error is larger. Both read o as stored, so delta = dO.O includes its
 * rounding: if a row sees one key, with dropout, dP - delta is that rounding
 * error and not 0. Rounding dP as well can cancel it by chance. In a problem of
 * one such row the bound would then be smaller than the error of the kernel's
 * inputs.
 */
static inline double plain_error(const struct backward_case *c, int n)
{
    return fmax(error_of(c, n, c->plain[n]), error_of(c, n, c->stored[n]));
}

static inline double largest(const double *numbers, int64_t count)
{
    double most = 0;
    for (int64_t e = 0; e < count; e++)
        most = isfinite(numbers[e]) && fabs(numbers[e]) > most ? fabs(numbers[e]) : most;
    return most;
}

/*
 * Twice the plain error, plus a few roundings of the largest number, plus the
 * difference of dO.V and dO.O of a row, which cancel if it sees one key: sums of
 * Dv products of up to 4, times a key; for dk and dv over all rows that share a
 * key.
 */
static inline double bound_of(const struct backward_case *c, int n)
{
    double unit = c->dtype == ANYFLASH_F32   ? 0x1p-22
                  : c->dtype == ANYFLASH_F16 ? 0x1p-11
                                             : 0x1p-8;
    double rows = n == CASE_DQ ? 1 : (double)(c->a.q_len * c->a.heads / c->a.kv_heads);
    double cancelled = (double)c->a.value_dim * 0x1p-21 * sqrt(rows > 1 ? rows : 1);
    return 2 * plain_error(c, n) + unit * largest(c->want[n], c->counts[n]) + 1e-5 + cancelled;
}

/* dbias summed over dimensions with stride 0, from the oracle's full result. */
static inline void fold_bias(const struct backward_case *c, double *plane)
{
    const struct anyflash_attend_args *a = &c->a;
    const struct anyflash_tensor *t = &c->args.dbias;
    for (int64_t e = 0; e < c->counts[CASE_DBIAS]; e++) {
        int64_t j = e % a->k_len, i = e / a->k_len % a->q_len;
        int64_t h = e / a->k_len / a->q_len % a->heads, b = e / a->k_len / a->q_len / a->heads;
        int64_t at =
            ((b * (t->batch_stride != 0) * a->heads + h * (t->head_stride != 0)) * a->q_len +
             i * (t->row_stride != 0)) *
                a->k_len +
            j;
        if (at == e)
            continue;
        plane[at] += plane[e];
        plane[e] = 0;
    }
}

/* The expected results and those of the plain formulas. */
static inline void case_solve(struct backward_case *c)
{
    case_forward(c);
    case_oracle(c);
    case_plain(c);
    if (c->args.dbias.data != NULL) {
        fold_bias(c, c->want[CASE_DBIAS]);
        fold_bias(c, c->plain[CASE_DBIAS]);
        fold_bias(c, c->stored[CASE_DBIAS]);
    }
}

static inline bool case_is_for(const struct af_kernel *kernel, const struct backward_case *c)
{
    return kernel->operation == AF_BACKWARD && (int32_t)kernel->dtype == c->dtype &&
           machine_runs(kernel);
}

static inline void case_attend(struct anyflash_context *context, struct backward_case *c,
                               uint32_t features)
{
    struct anyflash_error err = {0};
    context->cpu_features = features;
    if (anyflash_attend_backward(context, &c->args, &err) != ANYFLASH_OK)
        fail_msg("refused: %s", err.message);
    context->cpu_features = af_cpu_features();
}

static inline void check_bias(const struct backward_case *c, const char *kernel, uint64_t seed)
{
    const struct anyflash_attend_args *a = &c->a;
    const double bound = bound_of(c, CASE_DBIAS);
    for (int64_t e = 0; e < c->counts[CASE_DBIAS]; e++) {
        int64_t i = e / a->k_len % a->q_len, h = e / a->k_len / a->q_len % a->heads;
        int64_t b = e / a->k_len / a->q_len / a->heads;
        const struct anyflash_tensor *t = &c->args.dbias;
        if ((t->batch_stride == 0 && b > 0) || (t->head_stride == 0 && h > 0) ||
            (t->row_stride == 0 && i > 0))
            continue;
        double got = (double)((const float *)(const void *)af_row_of_tensor(t, 4, b, h,
                                                                            i))[e % a->k_len];
        if (!same_or_near(got, c->want[CASE_DBIAS][e], bound) &&
            !is_lost_in_float(c, CASE_DBIAS, e, got))
            fail_msg("%s, seed %llu: dbias element %lld is %g, not %g (bound %g)", kernel,
                     (unsigned long long)seed, (long long)e, got, c->want[CASE_DBIAS][e],
                     bound);
    }
}

static inline void check_outputs(const struct backward_case *c, const char *kernel,
                                 uint64_t seed)
{
    static const char *const names[] = {"dq", "dk", "dv"};
    struct af_problem problem = case_problem(c);
    for (int n = 0; n <= CASE_DV; n++) {
        const double bound = bound_of(c, n);
        for (int64_t e = 0; e < c->counts[n]; e++) {
            bool owned;
            double got = output_at(c, &problem, n, e, &owned);
            if (owned && !same_or_near(got, c->want[n][e], bound) &&
                !is_lost_in_float(c, n, e, got))
                fail_msg("%s, seed %llu: %s element %lld is %g, not %g (bound %g)", kernel,
                         (unsigned long long)seed, names[n], (long long)e, got, c->want[n][e],
                         bound);
        }
    }
    if (c->args.dbias.data != NULL)
        check_bias(c, kernel, seed);
    for (int64_t h = 0; c->args.dsinks != NULL && h < c->a.heads; h++) {
        const double got = (double)c->args.dsinks[h], want = c->want[CASE_DSINKS][h];
        if (!same_or_near(got, want, bound_of(c, CASE_DSINKS)) &&
            !is_lost_in_float(c, CASE_DSINKS, h, got))
            fail_msg("%s, seed %llu: dsinks[%lld] is %g, not %g", kernel,
                     (unsigned long long)seed, (long long)h, got, want);
    }
}

static inline void fill_outputs(struct backward_case *c)
{
    for (int n = 0; n <= CASE_DV; n++)
        memset(c->outputs[n]->bytes, CASE_FILL, c->outputs[n]->size_bytes);
    if (c->args.dsinks != NULL)
        memset(c->args.dsinks, CASE_FILL, (size_t)c->a.heads * sizeof *c->args.dsinks);
}

/* Marks the bytes of dq, dk or dv that belong to rows. */
static inline void mark_rows(const struct backward_case *c, const struct af_problem *problem,
                             int n, char *owned)
{
    const struct anyflash_attend_args *a = &problem->a;
    const bool of_q = n == CASE_DQ;
    struct anyflash_tensor t = of_q ? c->args.dq : n == CASE_DK ? c->args.dk : c->args.dv;
    const int32_t *cu = of_q ? a->cu_seqlens_q : a->cu_seqlens_k;
    const int64_t heads = of_q ? a->heads : a->kv_heads;
    const size_t bytes =
        (size_t)(n == CASE_DV ? a->value_dim : a->head_dim) * af_dtype_bytes(c->dtype);
    t.batch_stride *= cu == NULL;
    for (int64_t b = 0; b < a->batch; b++) {
        const int64_t begin = cu != NULL ? cu[b] : 0;
        const int64_t end = cu != NULL ? cu[b + 1] : of_q ? a->q_len : a->k_len;
        for (int64_t at = heads * begin; at < heads * end; at++) {
            const char *row =
                af_row_of_tensor(&t, af_dtype_bytes(c->dtype), b, at % heads, at / heads);
            memset(owned + (row - c->outputs[n]->bytes), 1, bytes);
        }
    }
}

/* Bytes of outputs between rows must keep what fill_outputs() wrote there. */
static inline void check_gaps(const struct backward_case *c, const char *kernel, uint64_t seed)
{
    const struct af_problem problem = case_problem(c);
    for (int n = 0; n <= CASE_DV; n++) {
        const struct guard *guard = c->outputs[n];
        char *owned = calloc(guard->size_bytes + 1, 1);
        mark_rows(c, &problem, n, owned);
        for (size_t at = 0; at < guard->size_bytes; at++) {
            if (!owned[at] && (unsigned char)guard->bytes[at] != CASE_FILL)
                fail_msg("%s, seed %llu: byte %zu between rows was written", kernel,
                         (unsigned long long)seed, at);
        }
        free(owned);
    }
}

/* A sum over the bits of all outputs. */
static inline uint64_t fingerprint(const struct backward_case *c)
{
    const struct anyflash_attend_args *a = &c->a;
    const int64_t rows = a->cu_seqlens_q != NULL ? a->total_q : a->batch * a->q_len;
    const int64_t keys = a->cu_seqlens_k != NULL ? a->total_k : a->batch * a->k_len;
    const size_t bytes = af_dtype_bytes(c->dtype);
    const struct {
        const void *data;
        size_t size;
    } parts[] = {
        {c->args.dq.data, (size_t)(rows * a->heads * a->head_dim) * bytes},
        {c->args.dk.data, (size_t)(keys * a->kv_heads * a->head_dim) * bytes},
        {c->args.dv.data, (size_t)(keys * a->kv_heads * a->value_dim) * bytes},
        {c->args.dbias.data, (size_t)(a->batch * a->heads * a->q_len * a->k_len) * 4},
        {c->args.dsinks, (size_t)a->heads * 4},
    };
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t n = 0; n < AF_COUNT(parts); n++) {
        for (size_t at = 0; parts[n].data != NULL && at < parts[n].size; at++)
            hash = (hash ^ ((const unsigned char *)parts[n].data)[at]) * 0x100000001b3u;
    }
    return hash;
}

#endif
