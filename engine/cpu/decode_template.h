/*
 * decode_template.h: few queries against many keys, head size in the lanes.
 *
 * Keys are processed in blocks that stay in the first-level cache. For each block:
 *
 *     s [rows][keys]   4 keys by up to 4 rows at a time, summed across lanes
 *                      for AF_LANES keys at once; or 16 keys by 8 rows
 *     m, p = 2^(s - m), l   row by row
 *     o [rows][Dv] += p [rows][keys] v [keys][Dv]   in registers per block
 *
 * All rows of a task share a block, so that a group of heads reads its keys and
 * values once. A task with several key heads computes SPAN_BLOCKS blocks of one head, then
 * the same keys of the next head, because a page often holds the keys of all heads one after
 * the other. Memory is the limit, so while one block is computed, the next one is
 * prefetched, for any pages and strides. Each cache line is prefetched twice, half a block
 * apart. Prefetching it once is up to 20 percent slower when there are many keys.
 *
 * In four parts: decode_load_template.h reads keys and values, decode_block_template.h
 * computes one block, decode_fast_template.h has faster paths for the scores of eight rows and
 * for a single query, this file runs a task.
 *
 * Error: as in forward_template.h. Probabilities are f32; with AF_PAIRS they are exact to
 * 1e-4, and are rounded to bf16 after they were summed.
 *
 * Keys and values of 8 bits are widened to 16 bits. If each element is loaded at most
 * twice, this happens in registers; otherwise once for each block, in a buffer that stays
 * in the first-level cache. Their scales multiply scores and probabilities.
 *
 * Parameters, defined before it is included:
 *   AF_FN(name)   name with the suffix of the element type
 *   AF_ELEMENT    the C type of the elements that the kernel multiplies
 *   AF_STORED     the C type of k and v in memory: AF_ELEMENT or uint8_t, or the largest one
 *   AF_STORED_BYTES(problem)   the bytes of one of their elements; if undefined, AF_STORED's
 *   AF_F8         1 if k and v are fp8 or may be, else 0. The next three are for 1 only
 *   AF_WIDEN(dtype, from, count, to)   converts a row to AF_ELEMENT; with AF_PAIRS it
 *                 writes element d at af_apart(d, count)
 *   AF_WIDE_UNIT(dtype)   factor from a converted number to the stored number
 *   AF_WIDE_DTYPE   the enum anyflash_dtype of AF_ELEMENT
 *   AF_LOAD(p)    AF_LANES elements as a vec; AF_LOAD_SOME(p, n): n of them
 *   AF_PAIRS      1: scores multiply pairs of elements as they lie in memory,
 *                 and values pairs of keys (vec_avx512bf16.h); else 0
 *   DECODE_SUMS   sums that stay in registers: 16, or 8 where there are 16 registers
 *   DECODE_TILE_ROWS   rows whose products with one key take as long as those of a tile of the
 *                 forward kernel
 *   DECODE_ROW_KEYS    keys that take as long as the begin and the end of a row
 *   DECODE_SMALL  1: one loop for all head sizes and strides; undefined: faster ones for some
 * Included before it: engine/attn/rows.h, the vectors of an instruction set, vec.h. Defines
 * AF_FN(scratch_bytes) and AF_FN(run) for a row of the manifest (type_kernels.h).
 */
#ifndef AF_STORED_BYTES
#define AF_STORED_BYTES(problem) ((void)(problem), (int64_t)sizeof(AF_STORED))
#endif

#define PAGE_BYTES 4096 /* the smallest pages of memory */
#define TOUCH_BLOCKS 8  /* a page is translated as many blocks before it is used */
#define SPAN_BLOCKS 2   /* of a key head, before those of the next */
/* attend_row() needs registers for a query and a result of 64 elements. */
#define HAS_ROW (DECODE_SUMS / 2 * AF_LANES >= 64 && (!AF_F8 || AF_PAIRS))

#include "engine/cpu/finite_template.h"

#include "engine/cpu/decode_load_template.h"

#include "engine/cpu/decode_block_template.h"

#include "engine/cpu/decode_fast_template.h"

/* The position of element `d` in a row of `dim` elements that AF_WIDEN has written. */
static int64_t AF_FN(position)(int64_t d, int64_t dim)
{
#if IN_REGISTERS
    return af_apart(d, dim);
#else
    (void)dim;
    return d;
#endif
}

/* The column of o of element `d` of values: pairs come alternately from each half of 8. */
static int64_t AF_FN(column)(int64_t d)
{
    return AF_PAIRS ? d / 32 * 32 + d % 8 / 4 * 16 + d % 32 / 8 * 4 + d % 4 : d;
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
    for (int key = 0; key < work->keys; key++)
        AF_FN(sum_zeros)((const AF_ELEMENT *)values[key], dim, sums);
    if (AF_GUARD(AF_FN(is_finite)(sums)))
        return;
    for (int key = 0; key < work->keys; key++) {
        if (af_row_is_finite(dtype, values[key], dim))
            continue;
        af_row_floats(dtype, values[key], dim, line);
        values[key] = work->nil;
        for (int r = 0; r < work->padded; r++) {
            float p = af_word_element(work->s + r * BLOCK_KEYS, key);
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
        memcpy(o + d, work->o + r * work->width + AF_FN(column)(AF_FN(position)(d, dim)),
               4 * sizeof *o);
#if AF_F8
    if (!work->problem->a.scale_per_page)
        af_scale(o,
                 AF_WIDE_UNIT(work->problem->a.v.dtype) *
                     af_scale_of_key(work->problem, work->problem->a.v_scales, &task->sequence,
                                     work->kv_head, 0),
                 dim);
#endif
    if (task->partial_o != NULL) {
        const int64_t part = (work->kv_head - task->kv_head) * task->partial_stride + r;
        memcpy(task->partial_o + part * dim, o, (size_t)dim * sizeof *o);
        task->partial_ml[part * 2] = row->m;
        task->partial_ml[part * 2 + 1] = l;
        return;
    }
    af_scale(o, af_close_row(work->problem, row->head, row->m, l, &lse), dim);
    af_convert_store_floats(&work->problem->a.o, &task->sequence, row->head, row->i, o, dim);
    float *at = af_lse_at(work->problem, &task->sequence, row->head, row->i);
    if (at != NULL)
        *at = lse;
}

/* Initialises row `r` of the selected head; padding rows repeat the last one. */
static void AF_FN(start_row)(struct AF_FN(work) *work, int r)
{
    const struct af_forward_task *task = work->task;
    const struct af_problem *problem = work->problem;
    struct AF_FN(row) *row = &work->rows[r];
    int64_t at = task->row_begin + (r < work->count ? r : work->count - 1);
    row->i = at / problem->group;
    row->head = work->kv_head * problem->group + at % problem->group;
    struct af_range seen = af_visible_range(problem, &task->sequence, row->i);
    row->first = af_clamp(seen.first, task->key_begin, task->key_end);
    row->end = af_clamp(seen.end, row->first, task->key_end);
    row->m = ROW_LOW;
    row->l = vec_zero();
    float line[AF_DIM_MAX] __attribute__((aligned(64)));
    float *q = work->by_eights ? line : work->q + r * work->words;
    memset(work->o + r * work->width, 0, (size_t)work->width * sizeof(float));
#if AF_F8 && !AF_PAIRS
    memset(q, 0, (size_t)work->words * sizeof *q);
    af_row_floats((enum anyflash_dtype)problem->a.q.dtype,
                  af_row_of_query(&problem->a.q, problem->element_bytes, &task->sequence,
                                  row->head, row->i),
                  problem->a.head_dim, q);
#elif AF_F8
    const char *from =
        af_row_of_query(&problem->a.q, sizeof(AF_ELEMENT), &task->sequence, row->head, row->i);
    memset(q, 0, (size_t)work->words * sizeof *q);
    for (int64_t d = 0, dim = problem->a.head_dim; d < dim; d += 8)
        memcpy((AF_ELEMENT *)(void *)q + AF_FN(position)(d, dim), from + d * 2,
               (size_t)(dim - d < 8 ? dim - d : 8) * sizeof(AF_ELEMENT));
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
    for (int64_t w = 0; work->by_eights && w < work->words; w += 2)
        memcpy(work->q + AF_FN(eights_at)(work, r, w), line + w, 2 * sizeof *line);
}

/* Rows that are computed. */
static int64_t AF_FN(pad_rows)(int64_t rows)
{
    return rows <= 2 ? rows : (rows + 3) / 4 * 4;
}

/*
 * Both kernels take a time for each key and one for the rest, in which the forward kernel could
 * compute about 8 keys; DECODE_TILE_ROWS and DECODE_ROW_KEYS were fitted to the times of 1 to
 * 16 rows and 1 to 4096 keys of 64 elements, on Zen 4. fp8 is widened for each block of keys:
 * there the forward kernel is never faster.
 */
static bool AF_FN(suits)(int64_t rows, int64_t keys)
{
    const int64_t whole = (keys + AF_LANES - 1) / AF_LANES * AF_LANES;
    return AF_F8 ||
           AF_FN(pad_rows)(rows) * (whole + DECODE_ROW_KEYS) <= DECODE_TILE_ROWS * (keys + 8);
}

/*
 * Computes the bytes of all parts for `rows` rows of each of `heads` key heads and, unless
 * `memory` is NULL, sets their addresses in it.
 */
static size_t AF_FN(lay_out)(struct AF_FN(work) *work, const struct af_problem *problem,
                             int64_t rows, int64_t heads, char *memory)
{
    const int64_t head_dim = problem->a.head_dim, value_dim = problem->a.value_dim;
    const int64_t larger = head_dim > value_dim ? head_dim : value_dim;
    int64_t row_bytes = (head_dim + value_dim) * (int64_t)sizeof(AF_ELEMENT);
    work->problem = problem;
    work->count = (int)rows;
    work->padded = (int)AF_FN(pad_rows)(rows);
    work->by_eights = AF_FN(suits_eights)(work->padded, head_dim);
    work->block = BLOCK_KEYS;
    while (work->block > AF_LANES && work->block * row_bytes > BLOCK_BYTES)
        work->block /= 2;
    work->words = (head_dim + STEP - 1) / STEP * AF_LANES;
    work->width = (value_dim + STEP - 1) / STEP * STEP;
    work->head_bytes =
        (size_t)work->padded *
        (sizeof(struct AF_FN(row)) + (size_t)(work->words + work->width) * sizeof(float));
    size_t s = (size_t)heads * work->head_bytes;
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
        work->heads = memory;
        work->s = (float *)(void *)(memory + s);
        work->nil = (const AF_ELEMENT *)(void *)(memory + nil);
        memset(memory + nil, 0, (size_t)larger * sizeof(AF_ELEMENT));
    }
    return (end + 63) & ~(size_t)63;
}

static size_t AF_FN(scratch_bytes)(const struct af_problem *problem, int64_t rows, int64_t span)
{
    struct AF_FN(work) work;
    return AF_FN(lay_out)(&work, problem, rows, span, NULL);
}

/*
 * Prefetches one line of each page of memory in rows [j, end) of keys or values, so that the
 * prefetches of their lines find the addresses translated.
 */
static void AF_FN(touch_pages)(const struct AF_FN(work) *work,
                               const struct anyflash_tensor *tensor, int64_t kv_head, int64_t j,
                               int64_t end)
{
    const struct anyflash_attend_args *a = &work->problem->a;
    const int64_t row_bytes = tensor->row_stride * AF_STORED_BYTES(work->problem);
    int64_t step = row_bytes <= 0 ? 1 : af_clamp(PAGE_BYTES / row_bytes, 1, work->block);
    if (a->block_table != NULL && a->page_size < step)
        step = a->page_size;
    for (; j < end; j += step)
        __builtin_prefetch(
            af_row_of_key(work->problem, tensor, &work->task->sequence, kv_head, j));
}

/* Computes the raw scores of a block. */
static void AF_FN(score_keys)(struct AF_FN(work) *work, bool few, struct AF_FN(rows) *keys,
                              const struct AF_FN(rows) *values,
                              const struct AF_FN(rows) *next_keys)
{
    const struct anyflash_attend_args *a = &work->problem->a;
#if AF_LANES == 16
    if (HAS_EIGHTS && AF_CHOICE(work->by_eights)) {
        AF_FN(score_eights)(work, keys, values, next_keys);
        return;
    }
#endif
    const bool stored = IN_REGISTERS && few && AF_GUARD(a->head_dim % 64 == 0);
    const void **rows = stored ? keys->at : AF_FN(ready)(work, keys, &a->k, a->head_dim);
    AF_FN(score_block)(work, stored, rows, values, next_keys);
}

/* Processes keys [j, j + count) of the selected head, and prefetches the block after them. */
static void AF_FN(attend_block)(struct AF_FN(work) *work, int64_t j, int64_t count,
                                struct AF_FN(rows) *keys, struct AF_FN(rows) *values,
                                const struct AF_FN(rows) *next_keys,
                                const struct AF_FN(rows) *next_values)
{
    const struct anyflash_attend_args *a = &work->problem->a;
    /* With more rows, each element would be widened more than twice. */
    const bool few = AF_CHOICE(work->padded == 4 || work->padded == 8);
    work->keys = (int)((count + AF_LANES - 1) / AF_LANES * AF_LANES);
    AF_FN(score_keys)(work, few, keys, values, next_keys);
#if AF_F8
    if (a->scale_per_page)
        AF_FN(find_scales)(work, j, count);
#endif
    const bool whole = AF_FN(softmax_block)(work, j, count);
    const bool stored = IN_REGISTERS && few && whole && AF_GUARD(a->value_dim % 64 == 0);
    const void **rows = stored ? values->at : AF_FN(ready)(work, values, &a->v, a->value_dim);
    if (!whole)
        AF_FN(add_nonfinite_values)(work, rows, j);
    AF_FN(add_block)(work, stored, rows, next_keys, next_values);
}

/* A block of keys: those of head `kv_head` from `j` on. Its span starts at key `span`. */
struct AF_FN(place) {
    int64_t kv_head;
    int64_t span;
    int64_t j;
};

/* The block after `at`: the rest of the span, the same span of the next head, the next span. */
static struct AF_FN(place)
    AF_FN(place_after)(const struct AF_FN(work) *work, struct AF_FN(place) at, int64_t end)
{
    const struct af_forward_task *task = work->task;
    const int64_t next = at.j + work->block;
    if (next < end && next < at.span + SPAN_BLOCKS * work->block)
        return (struct AF_FN(place)){at.kv_head, at.span, next};
    if (at.kv_head + 1 < task->kv_head + task->kv_head_count)
        return (struct AF_FN(place)){at.kv_head + 1, at.span, at.span};
    return (struct AF_FN(place)){task->kv_head, next, next};
}

static void AF_FN(find_block)(const struct AF_FN(work) *work, struct AF_FN(place) at,
                              int64_t end, struct AF_FN(rows) *keys, struct AF_FN(rows) *values)
{
    const int64_t count = af_clamp(end - at.j, 0, work->block);
    AF_FN(find_rows)(work, at.kv_head, at.j, count, keys, values);
}

/* Groups whose keys are in pages are up to 12 percent faster without it, all others slower. */
static void AF_FN(touch_block)(const struct AF_FN(work) *work, struct AF_FN(place) at,
                               int64_t end)
{
    const struct anyflash_attend_args *a = &work->problem->a;
    if (work->padded > 1 && a->block_table != NULL &&
        AF_FN(is_adjacent)(a, a->k.row_stride, a->head_dim))
        return;
    const int64_t last = at.j + work->block < end ? at.j + work->block : end;
    AF_FN(touch_pages)(work, &a->k, at.kv_head, at.j, last);
    AF_FN(touch_pages)(work, &a->v, at.kv_head, at.j, last);
}

/* Processes keys [first, end) of all heads, span by span. */
static void AF_FN(attend_keys)(struct AF_FN(work) *work, int64_t first, int64_t end)
{
    struct AF_FN(place) at = {work->task->kv_head, first, first}, soon = at;
    struct AF_FN(rows) keys[2], values[2]; /* of this block and the next, alternating */
    int now = 0;
    AF_FN(find_block)(work, at, end, &keys[now], &values[now]);
    for (int b = 0; b < TOUCH_BLOCKS; b++, soon = AF_FN(place_after)(work, soon, end))
        AF_FN(touch_block)(work, soon, end);
    for (; at.j < end; now = !now) {
        const struct AF_FN(place) next = AF_FN(place_after)(work, at, end);
        AF_FN(find_block)(work, next, end, &keys[!now], &values[!now]);
        AF_FN(touch_block)(work, soon, end);
        soon = AF_FN(place_after)(work, soon, end);
        AF_FN(select_head)(work, at.kv_head);
        AF_FN(attend_block)
        (work, at.j, end - at.j < work->block ? end - at.j : work->block, &keys[now],
         &values[now], &keys[!now], &values[!now]);
        at = next;
    }
}

static void AF_FN(run)(const struct af_forward_task *task, struct af_scratch scratch)
{
    const int64_t head_end = task->kv_head + task->kv_head_count;
    struct AF_FN(work) work;
    work.task = task;
    AF_FN(lay_out)
    (&work, task->problem, task->row_end - task->row_begin, task->kv_head_count,
     scratch.memory);
    int64_t first = task->key_end, end = task->key_begin;
    for (int64_t h = task->kv_head; h < head_end; h++) {
        AF_FN(select_head)(&work, h);
        for (int r = 0; r < work.padded; r++) {
            const struct AF_FN(row) *row = &work.rows[r];
            AF_FN(start_row)(&work, r);
            first = row->end > row->first && row->first < first ? row->first : first;
            end = row->end > row->first && row->end > end ? row->end : end;
        }
    }
#if HAS_ROW
    struct af_range done = AF_FN(attend_row)(&work, first, end);
#else
    struct af_range done = {first, first};
#endif
    if (first < done.first)
        AF_FN(attend_keys)(&work, first, done.first);
    if (done.end < end)
        AF_FN(attend_keys)(&work, done.end, end);
    for (int64_t h = task->kv_head; h < head_end; h++) {
        AF_FN(select_head)(&work, h);
        for (int r = 0; r < work.count; r++)
            AF_FN(finish_row)(&work, r);
    }
}

#undef PAGE_BYTES
#undef TOUCH_BLOCKS
#undef SPAN_BLOCKS
#undef HAS_ROW
#undef ROWS_MAX
#undef BLOCK_KEYS
#undef BLOCK_BYTES
#undef SCORE_ROWS
#undef KEY_STEP
#undef QUADS
#undef STEP
#undef STEP_BYTES
#undef FETCH_LINES
#undef FETCH_BYTES
#undef FETCHES
#undef IN_REGISTERS
#undef HAS_EIGHTS
#undef ROW_LOW
