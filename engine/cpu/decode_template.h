/*
 * decode_template.h: few queries against many keys, head size in the lanes.
 *
 * Keys are processed in blocks that stay in the first-level cache. For each block:
 *
 *     s [rows][keys]   4 keys by up to 4 rows at a time, summed across lanes
 *                      for AF_LANES keys at once
 *     m, p = 2^(s - m), l   row by row
 *     o [rows][Dv] += p [rows][keys] v [keys][Dv]   in registers per block
 *
 * All rows of a task share a block, so that a group of heads reads its keys and
 * values once. Bound by memory: while one block is computed, the next one is
 * prefetched row by row, for any pages and strides. Each line is prefetched twice, at
 * half a block's distance; once is up to 20 percent slower when caches are large.
 *
 * In three parts: decode_block_template.h computes one block,
 * decode_row_template.h is a faster path for one query, this file runs a task.
 *
 * Error: as in forward_template.h. Probabilities are f32; with AF_PAIRS they are
 * rounded to bf16 after they were summed.
 *
 * Keys and values of 8 bits are widened to 16 bits: block by block in a buffer that
 * stays in the first-level cache or, where an element is loaded only once, in
 * registers. Their scales multiply scores and probabilities.
 *
 * Parameters, defined before it is included:
 *   AF_FN(name)   name with the suffix of the element type
 *   AF_ELEMENT    the C type of the elements that the kernel multiplies
 *   AF_STORED     the C type of k and v in memory: AF_ELEMENT, or uint8_t for fp8
 *   AF_F8         1 if k and v are fp8, else 0. If 1: AF_WIDEN(dtype, from, count, to)
 *                 converts a row to AF_ELEMENT, whose type is AF_WIDE_DTYPE; the result
 *                 times AF_WIDE_UNIT(dtype) is the number
 *   AF_LOAD(p)    AF_LANES elements as a vec; AF_LOAD_SOME(p, n): n of them
 *   AF_PAIRS      1: scores multiply pairs of elements as they lie in memory,
 *                 and values pairs of keys (vec_avx512bf16.h); else 0
 *   DECODE_SUMS   sums that stay in registers: 16, or 8 where there are 16 registers
 * Included before it: engine/attn/rows.h, a vec_*.h, tanh.h, finite_template.h.
 * Defines AF_FN(scratch_bytes) and AF_FN(run) for a row of the manifest
 * (kernels.h).
 */
#define PAGE_BYTES 4096 /* the smallest pages of memory */
#define TOUCH_BLOCKS 8  /* a page is translated as many blocks before it is used */

#include "engine/cpu/decode_block_template.h"

#if !AF_F8 || AF_PAIRS
#include "engine/cpu/decode_row_template.h"
#endif

/* Column `d` of a row of o: pairs come alternately from each half of 8 columns. */
static int64_t AF_FN(column)(int64_t d)
{
    return AF_PAIRS ? d / 32 * 32 + d % 8 / 4 * 16 + d % 32 / 8 * 4 + d % 4 : d;
}

/* The probability of a key for row r. */
static float AF_FN(probability)(const struct AF_FN(work) *work, int r, int key)
{
#if AF_PAIRS
    uint16_t half;
    memcpy(&half, (const char *)(work->s + r * BLOCK_KEYS) + key * 2, sizeof half);
    return af_f32_of_bf16(half);
#else
    return work->s[r * BLOCK_KEYS + key];
#endif
}

/*
 * Non-finite values must not affect rows that do not see them, but 0 times
 * infinity is NaN. Each such row of values of the block from key `j` on is added
 * here to the rows that see it, and replaced by zeros.
 */
static
    __attribute__((noinline)) void AF_FN(add_nonfinite_values)(struct AF_FN(work) *work,
                                                               const void **values, int64_t j)
{
    const int64_t dim = work->problem->a.value_dim;
#if AF_F8
    const enum anyflash_dtype dtype = AF_WIDE_DTYPE;
#else
    const enum anyflash_dtype dtype = (enum anyflash_dtype)work->problem->a.v.dtype;
#endif
    float line[AF_DIM_MAX];
    vec sums[4] = {vec_zero(), vec_zero(), vec_zero(), vec_zero()};
    for (int key = 0; key < work->block; key++)
        AF_FN(sum_zeros)((const AF_ELEMENT *)values[key], dim, sums);
    if (AF_FN(is_finite)(sums))
        return;
    for (int key = 0; key < work->block; key++) {
        if (af_row_is_finite(dtype, values[key], dim))
            continue;
        af_row_floats(dtype, values[key], dim, line);
        values[key] = work->nil;
        for (int r = 0; r < work->padded; r++) {
            float p = AF_FN(probability)(work, r, key);
            bool sees = af_sees(work->problem, &work->task->sequence, work->rows[r].head,
                                work->rows[r].i, j + key);
            for (int64_t d = 0; sees && d < dim; d++)
                work->o[r * work->width + AF_FN(column)(d)] += p * line[d];
        }
    }
}

/* Writes a row's sums to its outputs or to the task's partial results. */
static void AF_FN(finish_row)(const struct AF_FN(work) *work, int r)
{
    const struct af_forward_task *task = work->task;
    const struct AF_FN(row) *row = &work->rows[r];
    const int64_t dim = work->problem->a.value_dim;
    float o[AF_DIM_MAX], l = vec_sum(row->l), lse;
    for (int64_t d = 0; d < work->width; d += 4)
        memcpy(o + d, work->o + r * work->width + AF_FN(column)(d), 4 * sizeof *o);
#if AF_F8
    if (!work->problem->a.scale_per_page)
        af_scale(o,
                 af_scale_of_key(work->problem, work->problem->a.v_scales, &task->sequence,
                                 task->kv_head, 0),
                 dim);
#endif
    if (task->partial_o != NULL) {
        memcpy(task->partial_o + r * dim, o, (size_t)dim * sizeof *o);
        task->partial_ml[r * 2] = row->m;
        task->partial_ml[r * 2 + 1] = l;
        return;
    }
    af_scale(o, af_close_row(work->problem, row->head, row->m, l, &lse), dim);
    af_convert_store_floats(&work->problem->a.o, &task->sequence, row->head, row->i, o, dim);
    float *at = af_lse_at(work->problem, &task->sequence, row->head, row->i);
    if (at != NULL)
        *at = lse;
}

/* Initialises row `r` of the task; padding rows repeat the last one. */
static void AF_FN(start_row)(struct AF_FN(work) *work, int r)
{
    const struct af_forward_task *task = work->task;
    const struct af_problem *problem = work->problem;
    struct AF_FN(row) *row = &work->rows[r];
    int64_t at = task->row_begin + (r < work->count ? r : work->count - 1);
    row->i = at / problem->group;
    row->head = task->kv_head * problem->group + at % problem->group;
    struct af_range seen = af_visible_range(problem, &task->sequence, row->i);
    row->first = af_clamp(seen.first, task->key_begin, task->key_end);
    row->end = af_clamp(seen.end, row->first, task->key_end);
    row->m = ROW_LOW;
    row->l = vec_zero();
    float *q = work->q + r * work->words;
    memset(work->o + r * work->width, 0, (size_t)work->width * sizeof(float));
#if AF_F8 && !AF_PAIRS
    memset(q, 0, (size_t)work->words * sizeof *q);
    af_row_floats((enum anyflash_dtype)problem->a.q.dtype,
                  af_row_of_query(&problem->a.q, problem->element_bytes, &task->sequence,
                                  row->head, row->i),
                  problem->a.head_dim, q);
#else
    const AF_ELEMENT *from = (const AF_ELEMENT *)(const void *)af_row_of_query(
        &problem->a.q, sizeof *from, &task->sequence, row->head, row->i);
    int64_t d = 0;
    for (; d + STEP <= problem->a.head_dim; d += STEP)
        vec_store(q + d / (1 + AF_PAIRS), AF_FN(words)(from + d));
    if (d < problem->a.head_dim)
        vec_store(q + d / (1 + AF_PAIRS),
                  AF_FN(words_some)(from + d, (int)(problem->a.head_dim - d)));
#endif
}

/*
 * Computes the bytes of all parts and, unless `memory` is NULL, sets their
 * addresses in it.
 */
static size_t AF_FN(lay_out)(struct AF_FN(work) *work, const struct af_problem *problem,
                             int64_t rows, char *memory)
{
    const int64_t head_dim = problem->a.head_dim, value_dim = problem->a.value_dim;
    const int64_t larger = head_dim > value_dim ? head_dim : value_dim;
    int64_t row_bytes = (head_dim + value_dim) * (int64_t)sizeof(AF_ELEMENT);
    work->problem = problem;
    work->count = (int)rows;
    work->padded = rows <= 2 ? (int)rows : (int)((rows + 3) / 4 * 4);
    work->block = BLOCK_KEYS;
    while (work->block > AF_LANES && work->block * row_bytes > BLOCK_BYTES)
        work->block /= 2;
    work->words = (head_dim + STEP - 1) / STEP * AF_LANES;
    work->width = (value_dim + STEP - 1) / STEP * STEP;
    size_t q = 0, o = q + (size_t)(work->padded * work->words) * sizeof(float);
    size_t s = o + (size_t)(work->padded * work->width) * sizeof(float);
    size_t nil = s + (size_t)work->padded * BLOCK_KEYS * sizeof(float);
    size_t end = nil + (size_t)larger * sizeof(AF_ELEMENT);
#if AF_F8
    size_t wide = (end + 63) & ~(size_t)63;
    work->wide_row = (larger + 31) / 32 * 32;
    end = wide + (size_t)(work->block * work->wide_row) * sizeof(AF_ELEMENT);
    if (memory != NULL)
        work->wide = (AF_ELEMENT *)(void *)(memory + wide);
#endif
    if (memory != NULL) {
        work->q = (float *)(void *)(memory + q);
        work->o = (float *)(void *)(memory + o);
        work->s = (float *)(void *)(memory + s);
        work->nil = (const AF_ELEMENT *)(void *)(memory + nil);
        memset(memory + nil, 0, (size_t)larger * sizeof(AF_ELEMENT));
    }
    return (end + 63) & ~(size_t)63;
}

static size_t AF_FN(scratch_bytes)(const struct af_problem *problem, int64_t rows, int64_t keys)
{
    (void)keys;
    struct AF_FN(work) work;
    return AF_FN(lay_out)(&work, problem, rows, NULL);
}

/*
 * Prefetches one line of each page of memory in rows [j, end) of keys or values. It makes
 * caches in pages 4 to 8 percent faster: the prefetches of their lines then find the
 * addresses translated.
 */
static void AF_FN(touch_pages)(const struct AF_FN(work) *work,
                               const struct anyflash_tensor *tensor, int64_t j, int64_t end)
{
    const struct anyflash_attend_args *a = &work->problem->a;
    const int64_t row_bytes = tensor->row_stride * (int64_t)sizeof(AF_STORED);
    int64_t step = row_bytes <= 0 ? 1 : af_clamp(PAGE_BYTES / row_bytes, 1, work->block);
    if (a->block_table != NULL && a->page_size < step)
        step = a->page_size;
    for (; j < end; j += step)
        __builtin_prefetch(af_row_of_key(work->problem, tensor, &work->task->sequence,
                                         work->task->kv_head, j));
}

static void AF_FN(attend_keys)(struct AF_FN(work) *work, int64_t first, int64_t end)
{
    const struct anyflash_attend_args *a = &work->problem->a;
    struct AF_FN(rows) keys[2], values[2]; /* of this block and the next, alternating */
    int now = 0;
    int64_t count = af_clamp(end - first, 0, work->block);
    AF_FN(find_rows)(work, &a->k, first, count, &keys[now]);
    AF_FN(find_rows)(work, &a->v, first, count, &values[now]);
    const int64_t soon = af_clamp(end, first, first + TOUCH_BLOCKS * work->block);
    AF_FN(touch_pages)(work, &a->k, first, soon);
    AF_FN(touch_pages)(work, &a->v, first, soon);
    for (int64_t j = first; j < end; j += work->block, now = !now) {
        int64_t next = j + work->block;
        int64_t later = j + TOUCH_BLOCKS * work->block;
        int64_t last = later + work->block < end ? later + work->block : end;
        count = af_clamp(end - next, 0, work->block);
        AF_FN(find_rows)(work, &a->k, next, count, &keys[!now]);
        AF_FN(find_rows)(work, &a->v, next, count, &values[!now]);
        AF_FN(touch_pages)(work, &a->k, later, last);
        AF_FN(touch_pages)(work, &a->v, later, last);
        bool stored = IN_REGISTERS && work->padded == 4; /* each element is loaded once */
        const void **rows =
            stored ? keys[now].at : AF_FN(ready)(work, &keys[now], &a->k, a->head_dim);
        AF_FN(score_block)(work, stored, rows, &values[now], &keys[!now]);
#if AF_F8
        if (j == first || a->scale_per_page)
            AF_FN(find_scales)(work, j, end - j < work->block ? end - j : work->block);
#endif
        bool partly =
            AF_FN(softmax_block)(work, j, end - j < work->block ? end - j : work->block);
        stored = IN_REGISTERS && !partly && (work->padded == 4 || work->padded == 8);
        rows = stored ? values[now].at : AF_FN(ready)(work, &values[now], &a->v, a->value_dim);
        if (partly)
            AF_FN(add_nonfinite_values)(work, rows, j);
        AF_FN(add_block)(work, stored, rows, &keys[!now], &values[!now]);
    }
}

static void AF_FN(run)(const struct af_forward_task *task, struct af_scratch scratch)
{
    struct AF_FN(work) work;
    work.task = task;
    AF_FN(lay_out)(&work, task->problem, task->row_end - task->row_begin, scratch.memory);
    int64_t first = task->key_end, end = task->key_begin;
    for (int r = 0; r < work.padded; r++) {
        const struct AF_FN(row) *row = &work.rows[r];
        AF_FN(start_row)(&work, r);
        first = row->end > row->first && row->first < first ? row->first : first;
        end = row->end > row->first && row->end > end ? row->end : end;
    }
#if AF_F8 && !AF_PAIRS
    struct af_range done = {first, first};
#else
    struct af_range done = AF_FN(attend_row)(&work, first, end);
#endif
    if (first < done.first)
        AF_FN(attend_keys)(&work, first, done.first);
    if (done.end < end)
        AF_FN(attend_keys)(&work, done.end, end);
    for (int r = 0; r < work.count; r++)
        AF_FN(finish_row)(&work, r);
}

#undef PAGE_BYTES
#undef TOUCH_BLOCKS
#undef ROWS_MAX
#undef BLOCK_KEYS
#undef BLOCK_BYTES
#undef SCORE_ROWS
#undef KEY_STEP
#undef QUADS
#undef STEP
#undef LINE
#undef FETCHES
#undef IN_REGISTERS
#undef ROW_LOW
