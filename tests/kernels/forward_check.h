/*
 * forward_check.h: runs a forward case on one level of instruction sets and
 * compares it with the oracle: the error of every element is at most twice that
 * of the plain formulas plus a few roundings, bytes between rows are untouched,
 * and 1, 2 and 3 threads give the same bits.
 */
#ifndef AF_TEST_FORWARD_CHECK_H
#define AF_TEST_FORWARD_CHECK_H

#include "engine/base/cpu.h"
#include "engine/call/context.h"
#include "engine/call/forward_plan.h"

#include "contexts.h"
#include "forward_plain.h"
#include "machine.h"

#define KERNELS_MAX 64

static int64_t tasks_run[KERNELS_MAX]; /* of each kernel of the manifest */

/* Computes the expected results, after appending and rotating; then seals the inputs. */
static inline void case_seal(struct forward_case *c)
{
    struct af_problem problem = case_problem(c);
    const size_t rows = (size_t)(c->a.batch * c->a.heads * c->a.q_len);
    void *turned = malloc(af_prepare_bytes(&problem) + 1);
    af_prepare(&problem, turned);
    c->want_o = calloc(rows * (size_t)c->a.value_dim + 1, sizeof(double));
    c->want_lse = calloc(rows + 1, sizeof(double));
    c->plain_o = calloc(rows * (size_t)c->a.value_dim + 1, sizeof(double));
    c->plain_lse = calloc(rows + 1, sizeof(double));
    assert_int_equal(af_reference_forward(&problem, c->want_o, c->want_lse, NULL), ANYFLASH_OK);
    c->largest_score = plain_forward(&problem, c->plain_o, c->plain_lse, &c->largest_sum);
    free(turned);
    for (int n = 0; n < c->guard_count; n++) {
        if (!c->writable[n])
            guard_freeze(&c->guards[n]);
    }
}

/*
 * Twice the largest error of the plain formulas, `unit` of the largest number,
 * and `floor`. Numbers that are not finite do not count.
 */
static inline double case_bound(const double *want, const double *plain, int64_t count,
                                double unit, double floor)
{
    double error = 0, most = 0;
    for (int64_t e = 0; e < count; e++) {
        double apart = fabs(plain[e] - want[e]), size = fabs(want[e]);
        error = isfinite(apart) && apart > error ? apart : error;
        most = isfinite(size) && size > most ? size : most;
    }
    return 2 * error + unit * most + floor;
}

static inline bool case_near(double got, double want, double bound)
{
    return got == want || (isnan(got) && isnan(want)) || fabs(got - want) <= bound;
}

/* Compares row i of head h of a sequence. */
static inline void check_row(const struct forward_case *c, const char *kernel,
                             const struct af_problem *problem, const struct af_sequence *s,
                             int64_t h, int64_t i, double o_bound, double lse_bound)
{
    const struct anyflash_attend_args *a = &problem->a;
    const int64_t at = (s->batch * a->heads + h) * a->q_len + i;
    const char *row = af_row_of_query(&a->o, af_dtype_bytes(a->o.dtype), s, h, i);
    const float *lse = af_lse_at(problem, s, h, i);
    if (lse != NULL && !case_near((double)*lse, c->want_lse[at], lse_bound))
        fail_msg("%s, seed %llu: lse of (%lld, %lld, %lld) is %.9g, not %.9g (bound %g)",
                 kernel, (unsigned long long)c->seed, (long long)s->batch, (long long)h,
                 (long long)i, (double)*lse, c->want_lse[at], lse_bound);
    for (int64_t d = 0; d < a->value_dim; d++) {
        double got = (double)af_convert_load(a->o.dtype, row, d),
               want = c->want_o[at * a->value_dim + d];
        if (!case_near(got, want, o_bound))
            fail_msg("%s, seed %llu: o(%lld, %lld, %lld, %lld) is %.9g, not %.9g (bound %g)",
                     kernel, (unsigned long long)c->seed, (long long)s->batch, (long long)h,
                     (long long)i, (long long)d, got, want, o_bound);
    }
}

/* Bytes of an output that belong to no row must keep the fill byte. */
static inline void check_gaps(const struct forward_case *c, const char *kernel,
                              const struct guard *guard, const char *owned)
{
    for (size_t at = 0; at < guard->size_bytes; at++) {
        if (!owned[at] && (unsigned char)guard->bytes[at] != CASE_FILL)
            fail_msg("%s, seed %llu: byte %zu between rows was written", kernel,
                     (unsigned long long)c->seed, at);
    }
}

static inline void case_check(const struct forward_case *c, const char *kernel)
{
    const struct af_problem problem = case_problem(c);
    const struct anyflash_attend_args *a = &problem.a;
    const int64_t rows = a->batch * a->heads * a->q_len;
    const size_t o_bytes = af_dtype_bytes(a->o.dtype);
    /*
     * A score is rounded a few times, and so is the sum of its products after each: with 130
     * of them an error of 6 x 2^-24 of their sizes was seen. The error of a score is the
     * relative one of its weight.
     */
    const double of_scores = 0x1p-22 * (1 + c->largest_score + c->largest_sum);
    /* Of bf16 the weights are rounded, too: in a problem of few rows that is seen. */
    const double unit = a->q.dtype == ANYFLASH_BF16  ? 0x1p-8
                        : a->o.dtype == ANYFLASH_F16 ? 0x1p-11
                                                     : 0;
    /*
     * Weights that are rounded to bf16 come from a 2^x with an error of 8e-5,
     * and so does their sum.
     */
    const double of_powers = a->q.dtype == ANYFLASH_BF16 ? 1e-4 : 0;
    /* Weights times the scales of pages are rounded even where the weight is 1. */
    const double of_pages = a->scale_per_page && a->q.dtype == ANYFLASH_BF16 ? 0x1p-8 : 0;
    const double o_bound = case_bound(c->want_o, c->plain_o, rows * a->value_dim,
                                      unit + of_scores + of_powers + of_pages, 1e-6);
    const double lse_bound =
        case_bound(c->want_lse, c->plain_lse, rows, 0x1p-22, of_scores + of_powers);
    char *o_owned = calloc(c->o_guard->size_bytes + 1, 1);
    char *lse_owned = calloc(c->lse_guard->size_bytes + 1, 1);
    for (int64_t b = 0; b < a->batch; b++) {
        struct af_sequence s = af_problem_sequence(&problem, b);
        for (int64_t n = 0; n < a->heads * s.q_full; n++) {
            int64_t h = n / s.q_full, i = n % s.q_full;
            const char *lse = (const char *)af_lse_at(&problem, &s, h, i);
            check_row(c, kernel, &problem, &s, h, i, o_bound, lse_bound);
            memset(o_owned + (af_row_of_query(&a->o, o_bytes, &s, h, i) - c->o_guard->bytes), 1,
                   (size_t)a->value_dim * o_bytes);
            if (lse != NULL)
                memset(lse_owned + (lse - c->lse_guard->bytes), 1, sizeof(float));
        }
    }
    check_gaps(c, kernel, c->o_guard, o_owned);
    check_gaps(c, kernel, c->lse_guard, lse_owned);
    free(o_owned);
    free(lse_owned);
}

/* Computes with `features` on `context` into outputs that were filled before. */
static inline void case_attend(struct forward_case *c, struct anyflash_context *context,
                               uint32_t features)
{
    struct anyflash_error err = {0};
    memset(c->o_guard->bytes, CASE_FILL, c->o_guard->size_bytes);
    memset(c->lse_guard->bytes, CASE_FILL, c->lse_guard->size_bytes);
    context->cpu_features = features;
    if (anyflash_attend(context, &c->a, &err) != ANYFLASH_OK)
        fail_msg("seed %llu refused: %s", (unsigned long long)c->seed, err.message);
    context->cpu_features = af_cpu_features();
}

/* The kernels of this level for the case; counts them as run. */
static inline const char *note_kernels(const struct forward_case *c, uint32_t features)
{
    size_t count;
    const struct af_kernel *const *kernels = af_kernels(&count);
    const char *name = "no kernel";
    const struct af_problem problem = case_problem(c);
    struct af_forward_plan plan;
    struct af_forward_task task;
    assert_int_equal(af_forward_plan_init(&plan, &problem, features, 1, NULL), ANYFLASH_OK);
    char *memory = malloc(plan.total_bytes + 1); /* its tasks are only listed */
    af_forward_plan_place(&plan, memory);
    for (int64_t index = 0; index < plan.schedule.task_count; index++) {
        const struct af_kernel *kernel = af_schedule_task(&plan.schedule, index, &task);
        if (task.row_end - task.row_begin > kernel->rows_max)
            fail_msg("%s, seed %llu: a task has more rows than it takes", kernel->name,
                     (unsigned long long)c->seed);
        for (size_t k = 0; k < count; k++)
            tasks_run[k] += kernels[k] == kernel;
        name = kernel->name;
    }
    free(memory);
    return name;
}

static inline void check_level(struct forward_case *c, uint32_t features)
{
    const char *kernel = note_kernels(c, features);
    const size_t o_bytes = c->o_guard->size_bytes, lse_bytes = c->lse_guard->size_bytes;
    char *first = malloc(o_bytes + lse_bytes + 1);
    for (int n = 0; n < POOLS; n++) {
        case_attend(c, contexts[n], features);
        if (n > 0 && (memcmp(first, c->o_guard->bytes, o_bytes) != 0 ||
                      memcmp(first + o_bytes, c->lse_guard->bytes, lse_bytes) != 0))
            fail_msg("%s, seed %llu: %d threads give other bits", kernel,
                     (unsigned long long)c->seed, n + 1);
        memcpy(first, c->o_guard->bytes, o_bytes);
        memcpy(first + o_bytes, c->lse_guard->bytes, lse_bytes);
    }
    free(first);
    case_check(c, kernel);
}

/* Every level of this machine that has kernels for the case's type. Frees the case. */
static inline void check_case(struct forward_case *c)
{
    size_t count;
    const struct af_kernel *const *kernels = af_kernels(&count);
    bool sealed = false;
    for (size_t k = 0; k < count; k++) {
        if (kernels[k]->operation != AF_FORWARD || (int32_t)kernels[k]->dtype != c->dtype ||
            kernels[k]->reads_f8 || !machine_runs(kernels[k]))
            continue;
        if (!sealed)
            case_seal(c);
        sealed = true;
        /* Each of these needs one instruction set: that and those before it. */
        check_level(c, (2 * kernels[k]->needs - 1) & af_cpu_features());
    }
    case_free(c);
}

#endif
