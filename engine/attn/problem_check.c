/*
 * problem_check.c: the three checks of a problem, in this order, and the wording
 * of errors. Options: numbers one by one, and options that need or exclude each
 * other. Layouts: lists the tensors and arrays with their extents (layout.c
 * checks them). Indexes: lengths that fit their rows, batches and pages that
 * exist, space for what is appended. Called by problem.c.
 */
#include "engine/attn/problem_check.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "engine/attn/layout.h"
#include "engine/attn/mask.h"

#define RULE_BYTES 200
#define SCORE_SCALE_MAX 1e38f

/* With a scale in this range no fp8 number can overflow or underflow in f32. */
#define SCALE_MIN 0x1p-64f
#define SCALE_MAX 0x1p64f

enum anyflash_status af_refuse(struct anyflash_error *err, const char *name, int64_t value,
                               const char *rule, ...)
{
    char text[RULE_BYTES];
    va_list args;
    va_start(args, rule);
    vsnprintf(text, sizeof text, rule, args);
    va_end(args);
    return af_fail(err, ANYFLASH_E_ARGUMENT, "%s is %lld; %s", name, (long long)value, text);
}

/* Fails with ARGUMENT: "NAME[INDEX] is VALUE; RULE". */
static enum anyflash_status AF_PRINTF(5, 6)
    refuse_at(struct anyflash_error *err, const char *name, int64_t index, int64_t value,
              const char *rule, ...)
{
    char text[RULE_BYTES];
    va_list args;
    va_start(args, rule);
    vsnprintf(text, sizeof text, rule, args);
    va_end(args);
    return af_fail(err, ANYFLASH_E_ARGUMENT, "%s[%lld] is %lld; %s", name, (long long)index,
                   (long long)value, text);
}

/* Fails with ARGUMENT if `value` is outside [min, max]. */
static enum anyflash_status check_within(struct anyflash_error *err, const char *name,
                                         int64_t value, int64_t min, int64_t max)
{
    if (value >= min && value <= max)
        return ANYFLASH_OK;
    return af_refuse(err, name, value, "it must be %lld to %lld", (long long)min,
                     (long long)max);
}

static enum anyflash_status check_extents(const struct anyflash_attend_args *a,
                                          struct anyflash_error *err)
{
    const struct {
        const char *name;
        int64_t value, min, max;
    } rows[] = {
        {"batch", a->batch, 0, INT32_MAX},
        {"heads", a->heads, 1, INT32_MAX},
        {"kv_heads", a->kv_heads, 1, INT32_MAX},
        {"q_len", a->q_len, 0, INT32_MAX},
        {"k_len", a->k_len, 0, INT32_MAX},
        {"head_dim", a->head_dim, 1, AF_DIM_MAX},
        {"value_dim", a->value_dim, 1, AF_DIM_MAX},
        {"total_q", a->total_q, 0, a->cu_seqlens_q != NULL ? INT32_MAX : INT64_MAX},
        {"total_k", a->total_k, 0, a->cu_seqlens_k != NULL ? INT32_MAX : INT64_MAX},
        {"new_len", a->new_len, 0, INT32_MAX},
        {"causal", a->causal, 0, 1},
        {"align", a->align, ANYFLASH_ALIGN_BOTTOM_RIGHT, ANYFLASH_ALIGN_OFFSETS},
        {"window_left", a->window_left, -1, INT64_MAX},
        {"window_right", a->window_right, -1, INT64_MAX},
        {"rotary_interleaved", a->rotary_interleaved, 0, 1},
        {"scale_stride", a->scale_stride, 0, INT32_MAX},
        {"scale_per_page", a->scale_per_page, 0, 1},
        {"reserved", a->reserved, 0, 0},
    };
    for (size_t i = 0; i < AF_COUNT(rows); i++) {
        enum anyflash_status status =
            check_within(err, rows[i].name, rows[i].value, rows[i].min, rows[i].max);
        if (status != ANYFLASH_OK)
            return status;
    }
    if (a->heads % a->kv_heads != 0)
        return af_refuse(err, "heads", a->heads, "it must be a multiple of kv_heads, %lld",
                         (long long)a->kv_heads);
    return ANYFLASH_OK;
}

static enum anyflash_status check_factors(const struct anyflash_attend_args *a,
                                          struct anyflash_error *err)
{
    if (!(fabsf(a->scale) <= SCORE_SCALE_MAX || a->scale == ANYFLASH_SCALE_DEFAULT))
        return af_fail(err, ANYFLASH_E_ARGUMENT, "scale is %g; it must be -1e38 to 1e38",
                       (double)a->scale);
    if (!(a->softcap >= 0) || isinf(a->softcap))
        return af_fail(err, ANYFLASH_E_ARGUMENT,
                       "softcap is %g; it must be finite and not negative", (double)a->softcap);
    if (!(a->dropout >= 0 && a->dropout < 1))
        return af_fail(err, ANYFLASH_E_ARGUMENT,
                       "dropout is %g; it must be 0 or more and below 1", (double)a->dropout);
    return ANYFLASH_OK;
}

/* Checks for options that have no effect, or contradict each other, in combination. */
static enum anyflash_status check_combinations(const struct anyflash_attend_args *a,
                                               struct anyflash_error *err)
{
    bool paged = a->block_table != NULL;
    bool append = a->new_len > 0;
    bool rotary = a->rotary_cos != NULL || a->rotary_sin != NULL || a->rotary_dim != 0;
    bool f8 = af_dtype_is_f8(a->k.dtype);
    const struct {
        bool wrong;
        const char *sentence;
    } rows[] = {
        {a->align == ANYFLASH_ALIGN_OFFSETS && a->causal_offsets == NULL && a->batch > 0,
         "causal_offsets is NULL; align 2 (offsets) needs it"},
        {a->align != ANYFLASH_ALIGN_OFFSETS && a->causal_offsets != NULL,
         "causal_offsets is set; it needs align 2 (offsets)"},
        {paged && a->cu_seqlens_k != NULL,
         "block_table is set; pages have no cu_seqlens_k (give the lengths as seqused_k)"},
        {paged && a->cache_batch_idx != NULL,
         "block_table is set; it takes the place of cache_batch_idx"},
        {a->cache_batch_idx != NULL && a->cu_seqlens_k != NULL,
         "cache_batch_idx is set; packed keys (cu_seqlens_k) have no batch to choose"},
        {append && a->cu_seqlens_k != NULL,
         "new_len is set; packed keys (cu_seqlens_k) have no room to append to"},
        {append && a->seqused_k == NULL && a->batch > 0,
         "seqused_k is NULL; appending needs the lengths of the cache"},
        {append && a->k_new.data == NULL && a->batch > 0,
         "k_new is NULL; new_len above 0 needs it"},
        {append && a->v_new.data == NULL && a->batch > 0,
         "v_new is NULL; new_len above 0 needs it"},
        {rotary && !append, "rotary_cos or rotary_dim is set; rotary embedding is applied when "
                            "keys are appended, and new_len is 0"},
        {rotary && a->rotary_cos == NULL, "rotary_cos is NULL; rotary embedding needs it"},
        {rotary && a->rotary_sin == NULL, "rotary_sin is NULL; rotary embedding needs it"},
        {a->k_scales != NULL && !f8, "k_scales is set, but k is not fp8"},
        {a->v_scales != NULL && !f8, "v_scales is set, but v is not fp8"},
        {a->scale_per_page && !paged, "scale_per_page is set; it needs block_table"},
        {a->dropout > 0 && f8, "dropout is set; it cannot be used with fp8 keys"},
    };
    for (size_t i = 0; i < AF_COUNT(rows); i++) {
        if (rows[i].wrong)
            return af_fail(err, ANYFLASH_E_ARGUMENT, "%s", rows[i].sentence);
    }
    return ANYFLASH_OK;
}

static enum anyflash_status check_cache(const struct anyflash_attend_args *a,
                                        struct anyflash_error *err)
{
    enum anyflash_status status = ANYFLASH_OK;
    if (a->cache_batch_idx != NULL)
        status = check_within(err, "cache_batch", a->cache_batch, 0, INT32_MAX);
    if (status != ANYFLASH_OK || a->block_table == NULL)
        return status;
    status = check_within(err, "page_size", a->page_size, 1, INT32_MAX);
    if (status == ANYFLASH_OK)
        status = check_within(err, "page_count", a->page_count, 0, INT32_MAX);
    if (status == ANYFLASH_OK)
        status = check_within(err, "block_table_stride", a->block_table_stride, 0, INT32_MAX);
    if (status == ANYFLASH_OK && a->k_len > a->block_table_stride * a->page_size)
        status = af_refuse(err, "k_len", a->k_len,
                           "block_table_stride %lld with page_size %lld holds %lld keys",
                           (long long)a->block_table_stride, (long long)a->page_size,
                           (long long)(a->block_table_stride * a->page_size));
    return status;
}

static enum anyflash_status check_rotary(const struct anyflash_attend_args *a,
                                         struct anyflash_error *err)
{
    if (a->rotary_cos == NULL)
        return ANYFLASH_OK;
    enum anyflash_status status =
        check_within(err, "rotary_dim", a->rotary_dim, 2, a->head_dim);
    if (status == ANYFLASH_OK && a->rotary_dim % 2 != 0)
        status = af_refuse(err, "rotary_dim", a->rotary_dim, "it must be even");
    if (status == ANYFLASH_OK)
        status = check_within(err, "rotary_rows", a->rotary_rows, 0, INT32_MAX);
    return status;
}

enum anyflash_status af_problem_check_options(const struct anyflash_attend_args *args,
                                              struct anyflash_error *err)
{
    enum anyflash_status status = check_extents(args, err);
    if (status == ANYFLASH_OK)
        status = check_factors(args, err);
    if (status == ANYFLASH_OK)
        status = check_combinations(args, err);
    if (status == ANYFLASH_OK)
        status = check_cache(args, err);
    if (status == ANYFLASH_OK)
        status = check_rotary(args, err);
    return status;
}

static enum anyflash_status add_tensors(struct af_layout *layout,
                                        const struct anyflash_attend_args *a,
                                        struct anyflash_error *err)
{
    bool append = a->new_len > 0;
    bool paged = a->block_table != NULL;
    int64_t q_batch = a->cu_seqlens_q != NULL ? 1 : a->batch;
    int64_t q_rows = a->cu_seqlens_q != NULL ? a->total_q : a->q_len;
    int64_t k_batch = paged                        ? a->page_count
                      : a->cache_batch_idx != NULL ? a->cache_batch
                      : a->cu_seqlens_k != NULL    ? 1
                                                   : a->batch;
    int64_t k_rows = paged ? a->page_size : a->cu_seqlens_k != NULL ? a->total_k : a->k_len;
    const unsigned floats = AF_DTYPE_FLOATS, of_q = af_dtype_bit(a->q.dtype);
    const unsigned of_k = of_q | AF_DTYPE_F8S;
    const unsigned of_v = af_dtype_is_f8(a->k.dtype) ? AF_DTYPE_BIT(a->k.dtype) : of_q;
    const unsigned of_o = of_q | AF_DTYPE_BIT(ANYFLASH_F32);
    const unsigned boolean = AF_DTYPE_BIT(ANYFLASH_BOOL);
    const int64_t heads = a->heads, kv_heads = a->kv_heads, added = a->new_len;
    /* clang-format off */
    /* name, tensor, types, needed, output, extents, elements of a row */
    const struct af_layout_tensor rows[] = {
        {"q", &a->q, floats, true, false, {q_batch, heads, q_rows}, a->head_dim},
        {"k", &a->k, of_k, true, append, {k_batch, kv_heads, k_rows}, a->head_dim},
        {"v", &a->v, of_v, true, append, {k_batch, kv_heads, k_rows}, a->value_dim},
        {"o", &a->o, of_o, true, true, {q_batch, heads, q_rows}, a->value_dim},
        {"bias", &a->bias, floats, false, false, {a->batch, heads, a->q_len}, a->k_len},
        {"mask", &a->mask, boolean, false, false, {a->batch, heads, a->q_len}, a->k_len},
        {"k_new", &a->k_new, of_q, append, false, {a->batch, kv_heads, added}, a->head_dim},
        {"v_new", &a->v_new, of_q, append, false, {a->batch, kv_heads, added}, a->value_dim},
    };
    /* clang-format on */
    return af_layout_tensors(layout, rows, AF_COUNT(rows), err);
}

static enum anyflash_status add_arrays(struct af_layout *layout,
                                       const struct anyflash_attend_args *a,
                                       struct anyflash_error *err)
{
    bool packed = a->cu_seqlens_q != NULL;
    int64_t table = a->block_table_stride, half = a->rotary_dim / 2;
    const int64_t lse_batch = packed ? 1 : a->batch, lse_run = packed ? a->total_q : a->q_len;
    const int64_t scaled = a->scale_per_page ? a->page_count : a->batch;
    /* clang-format off */
    /* name, data, output, extents, strides, elements of a row */
    const struct af_layout_array rows[] = {
        {"lse", a->lse, true, {lse_batch, a->heads, 1},
         {a->lse_batch_stride, a->lse_head_stride, 0}, lse_run},
        {"alibi_slopes", a->alibi_slopes, false, {a->batch, 1, 1},
         {a->alibi_batch_stride, 0, 0}, a->heads},
        {"sinks", a->sinks, false, {1, 1, 1}, {0}, a->heads},
        {"causal_offsets", a->causal_offsets, false, {1, 1, 1}, {0}, a->batch},
        {"cu_seqlens_q", a->cu_seqlens_q, false, {1, 1, 1}, {0}, a->batch + 1},
        {"cu_seqlens_k", a->cu_seqlens_k, false, {1, 1, 1}, {0}, a->batch + 1},
        {"seqused_q", a->seqused_q, false, {1, 1, 1}, {0}, a->batch},
        {"seqused_k", a->seqused_k, false, {1, 1, 1}, {0}, a->batch},
        {"leftpad_k", a->leftpad_k, false, {1, 1, 1}, {0}, a->batch},
        {"cache_batch_idx", a->cache_batch_idx, false, {1, 1, 1}, {0}, a->batch},
        {"block_table", a->block_table, false, {a->batch, 1, 1}, {table, 0, 0}, table},
        {"rotary_cos", a->rotary_cos, false, {1, 1, a->rotary_rows}, {0, 0, half}, half},
        {"rotary_sin", a->rotary_sin, false, {1, 1, a->rotary_rows}, {0, 0, half}, half},
        {"k_scales", a->k_scales, false, {scaled, 1, 1}, {a->scale_stride, 0, 0}, a->kv_heads},
        {"v_scales", a->v_scales, false, {scaled, 1, 1}, {a->scale_stride, 0, 0}, a->kv_heads},
    };
    /* clang-format on */
    return af_layout_arrays(layout, rows, AF_COUNT(rows), err);
}

enum anyflash_status af_layout_forward(struct af_layout *layout,
                                       const struct anyflash_attend_args *args,
                                       struct anyflash_error *err)
{
    layout->count = 0;
    enum anyflash_status status = add_tensors(layout, args, err);
    return status == ANYFLASH_OK ? add_arrays(layout, args, err) : status;
}

enum anyflash_status af_problem_check_layouts(const struct anyflash_attend_args *args,
                                              struct anyflash_error *err)
{
    struct af_layout layout;
    enum anyflash_status status = af_layout_forward(&layout, args, err);
    return status == ANYFLASH_OK ? af_layout_check_apart(&layout, err) : status;
}

#define SEEN_BITS 32768

/* Numbers found so far, modulo SEEN_BITS: "not found" is certain, "found" is not. */
struct seen {
    uint64_t words[SEEN_BITS / 64];
};

static bool seen_before(struct seen *seen, int64_t number)
{
    uint64_t *word = &seen->words[number % SEEN_BITS / 64];
    uint64_t bit = (uint64_t)1 << (number % 64);
    bool before = (*word & bit) != 0;
    *word |= bit;
    return before;
}

static enum anyflash_status check_packed(const char *name, const int32_t *cu_seqlens,
                                         int64_t batch, const char *longest_name,
                                         int64_t longest, const char *total_name, int64_t total,
                                         struct anyflash_error *err)
{
    if (cu_seqlens == NULL)
        return ANYFLASH_OK;
    if (cu_seqlens[0] < 0)
        return refuse_at(err, name, 0, cu_seqlens[0], "it must be 0 or more");
    for (int64_t b = 1; b <= batch; b++) {
        if (cu_seqlens[b] < cu_seqlens[b - 1])
            return refuse_at(err, name, b, cu_seqlens[b],
                             "it must not be below the entry before it, %d",
                             (int)cu_seqlens[b - 1]);
        if (cu_seqlens[b] - cu_seqlens[b - 1] > longest)
            return refuse_at(
                err, name, b, cu_seqlens[b], "that makes a sequence of %d rows, and %s is %lld",
                (int)(cu_seqlens[b] - cu_seqlens[b - 1]), longest_name, (long long)longest);
    }
    if (cu_seqlens[batch] > total)
        return refuse_at(err, name, batch, cu_seqlens[batch], "%s is %lld", total_name,
                         (long long)total);
    return ANYFLASH_OK;
}

/* Keys that sequence `b` has room for. */
static int64_t key_capacity(const struct anyflash_attend_args *a, int64_t b)
{
    return a->cu_seqlens_k == NULL ? a->k_len : a->cu_seqlens_k[b + 1] - a->cu_seqlens_k[b];
}

static enum anyflash_status check_lengths(const struct anyflash_attend_args *a, int64_t b,
                                          const struct af_sequence *s,
                                          struct anyflash_error *err)
{
    int64_t capacity = key_capacity(a, b);
    if (a->seqused_q != NULL && (s->q_count < 0 || s->q_count > s->q_full))
        return refuse_at(err, "seqused_q", b, s->q_count, "it must be 0 to %lld",
                         (long long)s->q_full);
    if (a->seqused_k != NULL && (a->seqused_k[b] < 0 || s->k_count > capacity)) {
        if (a->new_len > 0)
            return refuse_at(err, "seqused_k", b, a->seqused_k[b],
                             "with new_len %lld it must be 0 to %lld", (long long)a->new_len,
                             (long long)(capacity - a->new_len));
        return refuse_at(err, "seqused_k", b, a->seqused_k[b], "it must be 0 to %lld",
                         (long long)capacity);
    }
    if (a->leftpad_k != NULL && (s->k_first < 0 || s->k_first > s->k_count))
        return refuse_at(err, "leftpad_k", b, s->k_first, "it must be 0 to %lld",
                         (long long)s->k_count);
    if (a->cache_batch_idx != NULL && (s->cache < 0 || s->cache >= a->cache_batch))
        return refuse_at(err, "cache_batch_idx", b, s->cache, "cache_batch is %lld",
                         (long long)a->cache_batch);
    return ANYFLASH_OK;
}

/* Rows of rotary_cos that the new keys and the queries of a sequence need. */
static enum anyflash_status check_rotary_rows(const struct anyflash_attend_args *a, int64_t b,
                                              const struct af_sequence *s,
                                              struct anyflash_error *err)
{
    if (a->rotary_cos == NULL)
        return ANYFLASH_OK;
    int64_t past_q = af_rotary_position(a, b, s->q_count - 1) + 1;
    int64_t past_k = a->seqused_k[b] + a->new_len;
    int64_t needed = s->q_count > 0 && past_q > past_k ? past_q : past_k;
    if (needed > a->rotary_rows)
        return af_refuse(err, "rotary_rows", a->rotary_rows,
                         "sequence %lld, whose seqused_k is %lld, needs %lld rows",
                         (long long)b, (long long)a->seqused_k[b], (long long)needed);
    return ANYFLASH_OK;
}

static enum anyflash_status check_pages(const struct anyflash_attend_args *a, int64_t b,
                                        const struct af_sequence *s, struct anyflash_error *err)
{
    int64_t used = a->block_table == NULL ? 0 : (s->k_count + a->page_size - 1) / a->page_size;
    for (int64_t t = 0; t < used; t++) {
        int32_t page = a->block_table[b * a->block_table_stride + t];
        if (page < 0 || page >= a->page_count)
            return refuse_at(err, "block_table", b * a->block_table_stride + t, page,
                             "page_count is %lld", (long long)a->page_count);
    }
    return ANYFLASH_OK;
}

/* Scales [at * scale_stride, + kv_heads) of an array. */
static enum anyflash_status check_scales_at(const struct anyflash_attend_args *a,
                                            const char *name, const float *scales, int64_t at,
                                            struct anyflash_error *err)
{
    for (int64_t n = at * a->scale_stride;
         scales != NULL && n < at * a->scale_stride + a->kv_heads; n++) {
        if (!(scales[n] >= SCALE_MIN && scales[n] <= SCALE_MAX))
            return af_fail(err, ANYFLASH_E_ARGUMENT, "%s[%lld] is %g; it must be %g to %g",
                           name, (long long)n, (double)scales[n], (double)SCALE_MIN,
                           (double)SCALE_MAX);
    }
    return ANYFLASH_OK;
}

/* The scales that sequence `b` uses: its own, or those of its pages. */
static enum anyflash_status check_scales(const struct anyflash_attend_args *a, int64_t b,
                                         const struct af_sequence *s,
                                         struct anyflash_error *err)
{
    int64_t count = a->k_scales == NULL && a->v_scales == NULL ? 0
                    : a->scale_per_page ? (s->k_count + a->page_size - 1) / a->page_size
                                        : 1;
    enum anyflash_status status = ANYFLASH_OK;
    for (int64_t t = 0; status == ANYFLASH_OK && t < count; t++) {
        int64_t at = a->scale_per_page ? af_page_of_key(a, b, t * a->page_size) : b;
        status = check_scales_at(a, "k_scales", a->k_scales, at, err);
        if (status == ANYFLASH_OK)
            status = check_scales_at(a, "v_scales", a->v_scales, at, err);
    }
    return status;
}

/* Pages [first, end) of its block table that sequence `b` appends to. */
static struct af_range written_pages(const struct anyflash_attend_args *a, int64_t b)
{
    int64_t used = a->seqused_k[b];
    struct af_range range = {used / a->page_size,
                             (used + a->new_len + a->page_size - 1) / a->page_size};
    return range;
}

static bool page_written_before(const struct anyflash_attend_args *a, int64_t b, int64_t t)
{
    int32_t page = a->block_table[b * a->block_table_stride + t];
    for (int64_t other = 0; other <= b; other++) {
        struct af_range range = written_pages(a, other);
        for (int64_t u = range.first; u < (other == b ? t : range.end); u++) {
            if (a->block_table[other * a->block_table_stride + u] == page)
                return true;
        }
    }
    return false;
}

/* Two sequences must not append to the same page or batch of the cache. */
static enum anyflash_status check_written_pages(const struct anyflash_attend_args *a,
                                                struct anyflash_error *err)
{
    struct seen seen = {{0}};
    for (int64_t b = 0; b < a->batch; b++) {
        struct af_range range = written_pages(a, b);
        for (int64_t t = range.first; t < range.end; t++) {
            int64_t at = b * a->block_table_stride + t;
            if (seen_before(&seen, a->block_table[at]) && page_written_before(a, b, t))
                return refuse_at(err, "block_table", at, a->block_table[at],
                                 "keys are appended to that page twice");
        }
    }
    return ANYFLASH_OK;
}

static enum anyflash_status check_written_batches(const struct anyflash_attend_args *a,
                                                  struct anyflash_error *err)
{
    struct seen seen = {{0}};
    for (int64_t b = 0; b < a->batch; b++) {
        if (!seen_before(&seen, a->cache_batch_idx[b]))
            continue;
        for (int64_t other = 0; other < b; other++) {
            if (a->cache_batch_idx[other] == a->cache_batch_idx[b])
                return refuse_at(err, "cache_batch_idx", b, a->cache_batch_idx[b],
                                 "keys are appended to that batch twice");
        }
    }
    return ANYFLASH_OK;
}

enum anyflash_status af_problem_check_indexes(const struct af_problem *problem,
                                              struct anyflash_error *err)
{
    const struct anyflash_attend_args *a = &problem->a;
    enum anyflash_status status = check_packed("cu_seqlens_q", a->cu_seqlens_q, a->batch,
                                               "q_len", a->q_len, "total_q", a->total_q, err);
    if (status == ANYFLASH_OK)
        status = check_packed("cu_seqlens_k", a->cu_seqlens_k, a->batch, "k_len", a->k_len,
                              "total_k", a->total_k, err);
    bool indexed = a->seqused_q != NULL || a->seqused_k != NULL || a->leftpad_k != NULL ||
                   a->cache_batch_idx != NULL || a->block_table != NULL ||
                   a->k_scales != NULL || a->v_scales != NULL;
    for (int64_t b = 0; status == ANYFLASH_OK && indexed && b < a->batch; b++) {
        struct af_sequence sequence = af_problem_sequence(problem, b);
        status = check_lengths(a, b, &sequence, err);
        if (status == ANYFLASH_OK)
            status = check_rotary_rows(a, b, &sequence, err);
        if (status == ANYFLASH_OK)
            status = check_pages(a, b, &sequence, err);
        if (status == ANYFLASH_OK)
            status = check_scales(a, b, &sequence, err);
    }
    if (status == ANYFLASH_OK && a->new_len > 0 && a->block_table != NULL)
        status = check_written_pages(a, err);
    if (status == ANYFLASH_OK && a->new_len > 0 && a->cache_batch_idx != NULL)
        status = check_written_batches(a, err);
    return status;
}
