/*
 * forward_template.h: FlashAttention forward with queries in the lanes.
 *
 * A task is a range of rows against a range of keys. A row is a query of one
 * head; heads that share a key head are adjacent. The rows of a task are split
 * into tiles of TILE_VECS * AF_LANES rows. For each block of BLOCK_KEYS keys and each
 * tile:
 *
 *     S^T [keys][rows] = K Q^T               Q^T is packed once
 *     m, p = 2^(S - m), l                    no sum across lanes
 *     O^T [Dv][rows] = alpha O^T + V^T P^T
 *
 * K and V are read in place. They are copied only to convert their type, to
 * gather pages, or (AF_PAIRS) to put the values of two keys side by side, which is done
 * once for adjacent tasks of a head if the pairs of all its keys fit into KEPT_BYTES. With
 * AF_AMX V^T is copied, and K where tiles would reach beyond its rows.
 *
 * fp8 keys and values are widened as they are copied: to f32, times their scales, or
 * (AF_PAIRS) exactly to bf16; then the scales multiply scores and results. Only the
 * scales of pages multiply bf16 values, which are rounded.
 *
 * In three parts: forward_tile_template.h has the state of a task and computes one tile
 * against one block, forward_rows_template.h moves rows in and out, this file runs a
 * task: its blocks, the scratch memory, values that are NaN or infinite. The first part
 * is compiled once for all element types of a file, which have the same words.
 *
 * Error: scores and sums in f32; 2^x to 1.6e-7 relative. The result is within
 * twice the error of the plain formula computed in the type of the tensors.
 *
 * Parameters, defined before it is included:
 *   AF_FN(name)           name with the suffix of the element type
 *   AF_ELEMENT            type of q, k and v in memory; fp8 k and v are widened to it
 *   AF_STORED             type of k and v in memory: AF_ELEMENT, or uint8_t with AF_F8
 *   AF_F8                 1: k and v are fp8 and are widened to AF_ELEMENT, which has 16
 *                         bits; q is of any type or, with AF_PAIRS, bf16
 *   AF_DIRECT             1: rows of AF_ELEMENT can be read as words, without conversion
 *   AF_PAIRS              1: a word is two bf16; 0: a word is one float
 *   AF_AMX                1: kernels_amx.c multiplies, AF_PAIRS is 1, too; 0 if undefined
 *   AF_LOAD(p)            AF_LANES elements as a vec; AF_LOAD_SOME(p, n): n of them
 *   TILE_VECS, TILE_ROWS  vectors of rows and number of keys of a register tile
 * Included before it: engine/attn/rows.h, the vectors, vec.h, with AF_F8 widen_f8.h. Defines
 * AF_FN(scratch_bytes) and AF_FN(run) for a row of the manifest (type_kernels.h).
 */
#ifndef AF_AMX
#define AF_AMX 0
#endif

#define TILE_LANES (TILE_VECS * AF_LANES)
#define BLOCK_KEYS 128
#define WORD (1 + AF_PAIRS) /* elements in a word */
/* A tile starts at a multiple of so many keys of a block; so many are multiplied at once. */
#define KEY_STEP (AF_AMX ? 32 : WORD)
#define KEY_GROUP (AF_AMX ? 16 : 1)   /* keys of a block are padded to so many */
#define DIM_STEP (AF_AMX ? 32 : WORD) /* packed queries and keys are padded to so many */
/*
 * Words of a column of a block's values. Panels of 8 columns are padded by a cache line: at
 * multiples of 2 KiB those of a wide head would share two sets of L1.
 */
#define COLUMN_WORDS (BLOCK_KEYS / WORD + (AF_AMX ? 0 : 2))
/* Values in pairs are kept for the next task of a head if all of them fit into this. */
#define KEPT_BYTES ((int64_t)17 << 16)

/*
 * A row's maximum starts at ROW_LOW, the lowest score that is not hidden, so p of HIDDEN
 * is 0, never NaN.
 */
#define ROW_LOW (-0x1.fffffep127f)
#define HIDDEN (-INFINITY)

#include "engine/cpu/forward_tile_template.h"

#include "engine/cpu/finite_template.h"

#include "engine/cpu/forward_rows_template.h"

/*
 * The keys of a block of `count` from `key` on that a tile uses: [first, end) of
 * the block.
 */
static struct af_range AF_FN(part_of_block)(const struct tile *tile, int64_t key, int64_t count)
{
    struct af_range part;
    /* Values come in steps: with pairs, a tile starts at an even key of the block. */
    part.first = af_clamp(tile->first - key, 0, count) & ~(int64_t)(KEY_STEP - 1);
    part.end = af_clamp(tile->end - key, 0, count);
    return part;
}

/* Whether some row of some tile multiplies a value of the block by 0 without seeing it. */
static bool AF_FN(hides_values)(const struct work *work, int64_t key, int64_t count)
{
    const struct anyflash_attend_args *a = &work->problem->a;
    if (!AF_GUARD(a->mask.data == NULL))
        return true;
    for (int t = 0; t < work->tile_count; t++) {
        const struct tile *tile = &work->tiles[t];
        struct af_range part = AF_FN(part_of_block)(tile, key, count);
        /* A block ends with zeros up to a whole step. */
        bool whole = AF_GUARD(key + part.first >= tile->all_first) &&
                     AF_GUARD(key + part.end <= tile->all_end) &&
                     AF_GUARD(part.end % KEY_STEP == 0 || part.end == count);
        if (part.first < part.end && !whole)
            return true;
    }
    return false;
}

/* Whether all values of keys [from, from + count) are finite. */
static bool AF_FN(has_finite_values)(const struct work *work, int64_t from, int64_t count)
{
    const struct anyflash_attend_args *a = &work->problem->a;
#if AF_F8
    for (int64_t i = 0; i < count; i++) {
        if (!af_row_is_finite((enum anyflash_dtype)a->v.dtype, AF_FN(value_row)(work, from + i),
                              a->value_dim))
            return false;
    }
    return true;
#else
    vec sums[4] = {vec_zero(), vec_zero(), vec_zero(), vec_zero()};
    for (int64_t i = 0; i < count; i++)
        AF_FN(sum_zeros)
    ((const AF_ELEMENT *)(const void *)AF_FN(value_row)(work, from + i), a->value_dim, sums);
    return AF_FN(is_finite)(sums);
#endif
}

/* Zeroes the values of key `i` in a block that was copied to work->values. */
static void AF_FN(blank_values)(const struct work *work, int64_t i)
{
#if AF_AMX
    for (int64_t d = 0; d < work->value_rows; d++) {
        float *column =
            work->values + d / 16 * (COLUMN_WORDS * 16) + i / 32 * 256 + d % 16 * 16;
        memset((char *)column + i % 32 * 2, 0, 2);
    }
#elif AF_PAIRS
    for (int64_t d = 0; d < work->value_rows; d++) {
        char *pair = (char *)(work->values + d / 8 * (COLUMN_WORDS * 8) + i / 2 * 8 + d % 8);
        memset(pair + i % 2 * 2, 0, 2);
    }
#else
    memset(work->values + i * work->value_rows, 0, (size_t)work->value_rows * sizeof(float));
#endif
}

/*
 * 0 times infinity is NaN, so non-finite values would affect rows that do not
 * see them. Lists such keys and zeroes their values, in a copy if the block is
 * the caller's; add_nonfinite() adds them to the rows that see them.
 */
static __attribute__((noinline)) struct block AF_FN(separate_nonfinite)(struct work *work,
                                                                        struct block values,
                                                                        int64_t from,
                                                                        int64_t count)
{
    const struct anyflash_attend_args *a = &work->problem->a;
    for (int64_t i = 0; i < count; i++) {
        const char *row = AF_FN(value_row)(work, from + i);
        if (!af_row_is_finite((enum anyflash_dtype)a->v.dtype, row, a->value_dim))
            work->nonfinite[work->nonfinite_count++] = (uint8_t)i;
    }
    if (AF_DIRECT && !AF_PAIRS && values.data != work->values) {
        for (int64_t i = 0; i < count; i++)
            memcpy(work->values + i * work->value_rows, values.data + i * values.stride,
                   (size_t)a->value_dim * sizeof(float));
        values = (struct block){work->values, work->value_rows};
    }
    for (int w = 0; w < work->nonfinite_count; w++)
        AF_FN(blank_values)(work, work->nonfinite[w]);
#if AF_PAIRS
    for (int64_t i = 0; i < work->value_blocks; i++)
        work->kept[i].count = 0; /* the next task may see values that are blanked here */
#endif
    return values;
}

/* Adds non-finite values to the rows that see their keys, even with a weight of 0. */
static __attribute__((noinline)) void AF_FN(add_nonfinite)(const struct work *work,
                                                           const struct tile *tile,
                                                           int64_t from, struct af_range part)
{
    const struct anyflash_attend_args *a = &work->problem->a;
    const int64_t width = tile->vecs * AF_LANES;
    const float *words = AF_PAIRS ? work->pairs : work->scores;
    float line[AF_DIM_MAX];
    for (int w = 0; w < work->nonfinite_count; w++) {
        const int64_t i = work->nonfinite[w];
        if (i < part.first || i >= part.end)
            continue;
        const char *row = AF_FN(value_row)(work, from + i);
        af_row_floats((enum anyflash_dtype)a->v.dtype, row, a->value_dim, line);
#if AF_F8
        if (!AF_PAIRS || a->scale_per_page)
            af_scale(line,
                     af_scale_of_key(work->problem, a->v_scales, &work->task->sequence,
                                     work->task->kv_head, from + i),
                     a->value_dim);
#endif
        for (int lane = 0; lane < tile->rows; lane++) {
            const int64_t j = i - part.first;
            float p = af_word_element(words + j / WORD * width + lane, j % WORD);
            bool sees = af_sees(work->problem, &work->task->sequence, tile->head[lane],
                                tile->query[lane], from + i);
            for (int64_t d = 0; sees && d < a->value_dim; d++)
                tile->o[d * width + lane] += p * line[d];
        }
    }
}

#if AF_PAIRS
/* Which block of work->kept_values belongs to the block of keys from `key` on. */
static int64_t AF_FN(place_of)(const struct work *work, int64_t key)
{
    return key / BLOCK_KEYS % work->value_blocks;
}

/* Whether that block already holds the values of keys [from, from + count) of the sequence. */
static bool AF_FN(keeps_values)(const struct work *work, int64_t key, int64_t from,
                                int64_t count)
{
    const struct kept *kept = &work->kept[AF_FN(place_of)(work, key)];
    /* A block ends with zeros up to a whole step. */
    return AF_GUARD(kept->from == from) && AF_GUARD(kept->count >= count) &&
           AF_GUARD(kept->count == count || count % KEY_STEP == 0);
}
#endif

/*
 * Returns the values of keys [key, key + count) of the task, which are keys [from, from +
 * count) of the sequence. They are not copied again if the task before has left them here.
 */
static struct block AF_FN(find_values)(struct work *work, int64_t key, int64_t from,
                                       int64_t count)
{
#if AF_PAIRS
    const int64_t place = AF_FN(place_of)(work, key);
    work->values = work->kept_values + place * COLUMN_WORDS * work->value_rows;
    if (AF_FN(keeps_values)(work, key, from, count))
        return (struct block){work->values, AF_AMX ? 16 : 8};
    work->kept[place] = (struct kept){from, count};
#else
    (void)key;
#endif
    return AF_FN(take_values)(work, from, count);
}

/*
 * Adds rows [first, end) of each of `heads` heads, `head_bytes` apart, starting
 * at `row`.
 */
static void AF_FN(add_prefetch)(struct work *work, const char *row, int64_t stride_bytes,
                                int64_t rows, int64_t row_bytes, int64_t heads,
                                int64_t head_bytes)
{
    if (rows > 0)
        work->prefetches[work->prefetch_count++] = (struct prefetch){
            row,      stride_bytes,
            rows,     (rows + work->prefetch_steps - 1) / work->prefetch_steps,
            heads,    head_bytes,
            row_bytes};
}

/*
 * Adds keys or values [j, end) of a task; of paged ones only the first page,
 * since others are elsewhere.
 */
static void AF_FN(prefetch_keys)(struct work *work, const struct af_forward_task *task,
                                 const struct anyflash_tensor *tensor, int64_t dim, int64_t j,
                                 int64_t end)
{
    const struct anyflash_attend_args *a = &task->problem->a;
    if (j >= end)
        return;
    if (a->block_table != NULL)
        end = af_clamp(end, j, j - j % a->page_size + a->page_size);
    AF_FN(add_prefetch)
    (work, af_row_of_key(task->problem, tensor, &task->sequence, task->kv_head, j),
     tensor->row_stride * (int64_t)sizeof(AF_STORED), end - j, dim * (int64_t)sizeof(AF_STORED),
     1, 0);
}

/* Adds the rows of a tile of `tensor`, q or o, that starts at row `first` of a task. */
static void AF_FN(prefetch_tile)(struct work *work, const struct af_forward_task *task,
                                 const struct anyflash_tensor *tensor, int64_t dim,
                                 int64_t first)
{
    const int64_t group = task->problem->group;
    const int64_t bytes = tensor->dtype == ANYFLASH_F32 ? 4 : 2;
    const int64_t end = af_clamp(first + TILE_LANES, first, task->row_end);
    const int64_t query = first / group;
    AF_FN(add_prefetch)
    (work,
     af_row_of_query(tensor, (size_t)bytes, &task->sequence, task->kv_head * group, query),
     tensor->row_stride * bytes, (end + group - 1) / group - query, dim * bytes, group,
     tensor->head_stride * bytes);
}

/*
 * Lists what to prefetch while tile `t` works on `count` keys: its share of the
 * next block's keys and values, unless the task before read them, too; in the
 * first block of the task the queries of the next tile; in the last block the
 * results of the tile and what the next task begins with. A processor drops
 * prefetches when its queue is full, so only a few are issued after the scores of
 * every TILE_ROWS keys. `after` is the first key of the task's next
 * block, which has `next` keys: 0 in the last block.
 */
static void AF_FN(list_prefetches)(struct work *work, int t, int64_t count, int64_t after,
                                   int64_t next, bool starts)
{
    const struct af_forward_task *task = work->task;
    const struct anyflash_attend_args *a = &task->problem->a;
    work->prefetch_count = 0;
    work->prefetch_steps = (count + TILE_ROWS - 1) / TILE_ROWS;
    if (starts && t + 1 < work->tile_count)
        AF_FN(prefetch_tile)(work, task, &a->q, a->head_dim, work->tiles[t + 1].row);
    if (next == 0) {
        if (task->partial_o == NULL)
            AF_FN(prefetch_tile)(work, task, &a->o, a->value_dim, work->tiles[t].row);
        task = task->next;
        if (task == NULL)
            return;
        if (t + 1 == work->tile_count)
            AF_FN(prefetch_tile)(work, task, &a->q, a->head_dim, task->row_begin);
        if (!task->keys_are_new)
            return;
        after = task->key_begin;
        next = af_clamp(task->key_end - after, 0, BLOCK_KEYS);
    } else if (AF_DIRECT && !AF_PAIRS && !task->keys_are_new) {
        return; /* in L2, which is near enough for keys and values that are not copied */
    }
#if AF_PAIRS
    else if (AF_FN(keeps_values)(work, after - task->key_begin, after, next))
        return;
#endif
    const int64_t j = after + next * t / work->tile_count;
    const int64_t end = after + next * (t + 1) / work->tile_count;
    AF_FN(prefetch_keys)(work, task, &a->k, a->head_dim, j, end);
    AF_FN(prefetch_keys)(work, task, &a->v, a->value_dim, j, end);
}

/*
 * Computes all tiles of the task against keys [key, key + count) of the task;
 * the next block has `next` keys. The first block `starts` each tile in turn.
 */
static void AF_FN(attend_block)(struct work *work, int64_t key, int64_t count, int64_t next,
                                bool starts)
{
    int64_t from = work->task->key_begin + key;
    struct block keys = AF_FN(take_keys)(work, from, count);
    struct block values = AF_FN(find_values)(work, key, from, count);
    work->nonfinite_count = 0;
    if (AF_FN(hides_values)(work, key, count) &&
        !AF_GUARD(AF_FN(has_finite_values)(work, from, count)))
        values = AF_FN(separate_nonfinite)(work, values, from, count);
    for (int t = 0; t < work->tile_count; t++) {
        const struct tile *tile = &work->tiles[t];
        struct af_range part = AF_FN(part_of_block)(tile, key, count);
        if (starts)
            AF_FN(start_tile)(work, tile);
        if (part.first >= part.end)
            continue;
        AF_FN(list_prefetches)(work, t, part.end - part.first, from + count, next, starts);
        struct block k = {keys.data + part.first * keys.stride, keys.stride};
        struct block v = {values.data + part.first / WORD * values.stride, values.stride};
        attend_any(work, tile, k, v, key + part.first, part.end - part.first);
        if (work->nonfinite_count != 0)
            AF_FN(add_nonfinite)(work, tile, from, part);
    }
}

/*
 * Computes the bytes of all parts and, unless `memory` is NULL, sets their
 * addresses in it.
 */
static size_t AF_FN(lay_out)(struct work *work, int64_t rows, char *memory)
{
    size_t used = 0;
    AF_PART(work->scores, float, (BLOCK_KEYS + 1) * TILE_LANES);
    AF_PART(work->pairs, float, AF_PAIRS ? (BLOCK_KEYS / WORD + 1) * TILE_LANES : 0);
    AF_PART(work->keys, float, BLOCK_KEYS * work->key_words);
#if AF_PAIRS
    AF_PART(work->kept_values, float, work->value_blocks *COLUMN_WORDS * work->value_rows);
    AF_PART(work->kept, struct kept, work->value_blocks);
#else
    AF_PART(work->values, float, BLOCK_KEYS * work->value_rows);
#endif
    AF_PART(work->extra, float, work->featured ? BLOCK_KEYS *TILE_LANES : 0);
    work->tile_count = 0;
    for (int64_t row = 0; row < rows; row += TILE_LANES) {
        struct tile *tile = &work->tiles[work->tile_count++];
        int64_t left = rows - row < TILE_LANES ? rows - row : TILE_LANES;
        tile->rows = (int)left;
        tile->vecs = (int)((left + AF_LANES - 1) / AF_LANES);
        int64_t width = tile->vecs * AF_LANES;
        AF_PART(tile->q, float, work->words *width);
        AF_PART(tile->o, float, work->value_rows *width);
        AF_PART(tile->m, float, width);
        AF_PART(tile->l, float, width);
        AF_PART(tile->lane_first, int32_t, width);
        AF_PART(tile->lane_end, int32_t, width);
        AF_PART(tile->query, int32_t, width);
        AF_PART(tile->head, int32_t, width);
    }
    return used;
}

static struct work AF_FN(work_of)(const struct af_problem *problem)
{
    struct work work;
    work.problem = problem;
    work.task = NULL;
    const int64_t value_step = AF_AMX ? 16 : 8, key_step = AF_F8 && AF_PAIRS ? 16 : 1;
    work.words = (problem->a.head_dim + DIM_STEP - 1) / DIM_STEP * DIM_STEP / WORD;
    work.key_words = (work.words + key_step - 1) / key_step * key_step;
    work.value_rows = (problem->a.value_dim + value_step - 1) / value_step * value_step;
    const int64_t block_bytes = COLUMN_WORDS * work.value_rows * (int64_t)sizeof(float);
    const int64_t blocks = (problem->a.k_len + BLOCK_KEYS - 1) / BLOCK_KEYS;
    const bool shared = blocks > 0 && !af_first_moves(&problem->a); /* by adjacent tasks */
    work.value_blocks = shared && blocks <= KEPT_BYTES / block_bytes ? blocks : 1;
    work.featured = problem->changes_scores || (AF_F8 && AF_PAIRS && problem->a.scale_per_page);
    work.natural = af_is_natural(problem);
    work.fold = work.featured ? problem->a.scale : problem->a.scale * AF_LOG2E;
    work.unit = work.featured ? 1.0f : problem->a.scale * AF_LOG2E;
    work.result_scale = 1;
    return work;
}

#if AF_F8 && AF_PAIRS
/* Scales of a head or a sequence multiply all scores and results of the task. */
static void AF_FN(take_scales)(struct work *work)
{
    const struct anyflash_attend_args *a = &work->problem->a;
    const struct af_sequence *sequence = &work->task->sequence;
    const int64_t head = work->task->kv_head;
    if (a->scale_per_page)
        return;
    work->result_scale = af_scale_of_key(work->problem, a->v_scales, sequence, head, 0);
    if (!work->featured)
        work->unit *= af_scale_of_key(work->problem, a->k_scales, sequence, head, 0);
}
#endif

static size_t AF_FN(scratch_bytes)(const struct af_problem *problem, int64_t rows, int64_t keys)
{
    (void)keys;
    struct work work = AF_FN(work_of)(problem);
    return AF_FN(lay_out)(&work, rows, NULL);
}

static void AF_FN(run)(const struct af_forward_task *task, struct af_scratch scratch)
{
    struct work work = AF_FN(work_of)(task->problem);
    work.task = task;
#if AF_F8 && AF_PAIRS
    AF_FN(take_scales)(&work);
#endif
    AF_FN(lay_out)(&work, task->row_end - task->row_begin, scratch.memory);
#if AF_PAIRS
    const int64_t rows = task->sequence.q_count * task->problem->group;
    if (AF_CHOICE(task->partial_o != NULL || task->row_end - task->row_begin == rows))
        work.value_blocks = 1; /* no other task reads these keys */
    const bool keeps = AF_GUARD(task->keys_are_kept);
    for (int64_t i = 0; !keeps && i < work.value_blocks; i++)
        work.kept[i].count = 0;
#endif
    int64_t first = task->key_end - task->key_begin;
    int64_t end = 0;
    for (int t = 0; t < work.tile_count; t++) {
        struct tile *tile = &work.tiles[t];
        tile->row = task->row_begin + (int64_t)t * TILE_LANES;
        AF_FN(number_rows)(&work, tile);
        AF_FN(set_ranges)(&work, tile);
        first = tile->first < first ? tile->first : first;
        end = tile->end > end ? tile->end : end;
    }
#if AF_AMX
    AF_TILES_CONFIGURE();
#endif
    for (int64_t key = first; key < end; key += BLOCK_KEYS)
        AF_FN(attend_block)
    (&work, key, af_clamp(end - key, 0, BLOCK_KEYS),
     af_clamp(end - key - BLOCK_KEYS, 0, BLOCK_KEYS), key == first);
#if AF_AMX
    AF_TILES_RELEASE();
#endif
    for (int t = 0; t < work.tile_count; t++) {
        if (first >= end)
            AF_FN(start_tile)(&work, &work.tiles[t]);
        AF_FN(finish_tile)(&work, &work.tiles[t]);
    }
}

#undef TILE_LANES
#undef BLOCK_KEYS
#undef COLUMN_WORDS
#undef KEPT_BYTES
#undef WORD
#undef KEY_STEP
#undef DIM_STEP
#undef KEY_GROUP
#undef ROW_LOW
#undef HIDDEN
