/*
 * backward_template.h: FlashAttention backward with queries in the lanes.
 *
 * Rows are packed PASS_TILES tiles at a time. For each block of BLOCK_KEYS keys
 * and each group of GROUP_TILES tiles:
 *
 *     P^T  = 2^(K Q^T - lse)
 *     dP^T = V dO^T
 *     dS^T = P^T (dP^T - delta)
 *     dQ^T += K^T dS^T
 *     dV   += P dO,  dK += dS Q         head size in the lanes
 *
 * Queries and dO are packed in both layouts. K and V are read in place where
 * possible, otherwise copied a block at a time. With AF_PAIRS P and dS are
 * rounded to bf16 and stored as pairs: of rows for dV and dK, of keys for dQ.
 *
 * Keys that a row does not see have P = 0 and dS = 0. Where that is not enough,
 * because a product with 0 would be NaN, a tile is added element by element.
 *
 * In three parts: backward_tile_template.h has the state of a task and computes one tile,
 * backward_rows_template.h moves rows in and out, this file runs a task. The first part
 * is compiled once for all element types of a file, which have the same words.
 *
 * Error: 2^x to 1.6e-7 relative; sums in f32. Gradients are within twice the
 * error of the plain formulas computed in the type of the tensors, or in f32
 * where that error is larger: delta = dO.O has the rounding error of the given
 * o. So dS of a row that sees one key, with dropout, is that error instead of 0.
 *
 * Parameters, defined before it is included:
 *   AF_FN(name)           name with the suffix of the element type
 *   AF_ELEMENT            type of the tensors in memory
 *   AF_DIRECT             1: rows of AF_ELEMENT can be read as words, without conversion
 *   AF_PAIRS              1: a word is two bf16; 0: a word is one float
 *   AF_AMX                1: kernels_amx.c multiplies, AF_PAIRS is 1, too; 0 if undefined
 *   AF_LOAD(p)            AF_LANES elements as a vec; AF_LOAD_SOME(p, n): n of them
 *   AF_STORE(p, x, n)     n floats of a vec to elements
 *   TILE_VECS, TILE_ROWS  vectors of rows and number of keys of a register tile
 *   GRADIENT_ROWS, GRADIENT_VECS  the same for dK and dV
 * Included before it: engine/attn/rows.h, the vectors of an instruction set, vec.h. Defines
 * AF_FN(scratch_bytes) and AF_FN(run) for a row of the manifest (type_kernels.h).
 */
#ifndef AF_AMX
#define AF_AMX 0
#endif

#define WORD (1 + AF_PAIRS) /* elements in a word */
#define TILE_LANES (TILE_VECS * AF_LANES)
#define TILE_WORDS (TILE_LANES / WORD)
#define BLOCK_KEYS (AF_AMX ? 128 : 96)
#define STEP_KEYS (AF_AMX ? 64 : 48)  /* keys whose scores are kept as floats at a time */
#define SPAN_KEYS (AF_AMX ? 32 : 24)  /* a tile's keys begin and end at multiples of it */
#define KEY_STEP (AF_AMX ? 32 : WORD) /* P and dS are padded to a multiple of this */
#define KEY_GROUP (AF_AMX ? 16 : 1)   /* keys and values are padded to a multiple of this */
#define DIM_STEP (AF_AMX ? 32 : WORD) /* elements to which packed rows are padded */
#define GROUP_TILES 4
#define PASS_TILES ((2048 + TILE_LANES - 1) / TILE_LANES)
#define PANEL (GRADIENT_VECS * AF_LANES)
#define PAIR_COLUMNS (AF_AMX ? 16 : 8)
#define LINE_MAX (AF_DIM_MAX + AF_LANES)
#define LINE_BYTES 64 /* of the cache */
#define PUT_AHEAD 16  /* rows of dk and dv that are prefetched */

#include "engine/cpu/backward_tile_template.h"

#include "engine/cpu/finite_template.h"

#include "engine/cpu/backward_rows_template.h"

/* The range of a block that a tile uses, widened to multiples of SPAN_KEYS. */
static struct span AF_FN(span_of)(const struct back *work, int64_t tile,
                                  const struct back_block *block)
{
    const struct view *view = &work->views[tile];
    struct span span = {0, 0, {0}, false};
    int64_t first = af_clamp(view->first - block->key, 0, block->count);
    int64_t end = af_clamp(view->end - block->key, 0, block->count);
    if (first >= end)
        return span;
    span.first = first / SPAN_KEYS * SPAN_KEYS;
    span.end = af_clamp(round_up(end, SPAN_KEYS), 0, block->count);
    for (int v = 0; v < TILE_VECS; v++)
        span.ends[v] = af_clamp(view->ends[v] - block->key, span.first, span.end);
    span.whole = AF_GUARD(view->all_first <= block->key + span.first) &&
                 AF_GUARD(view->all_end >= block->key + round_up(span.end, KEY_STEP));
    return span;
}

/*
 * Computes P and dS of one tile and a block into `slot`, and dQ. Returns the
 * keys whose dK and dV are still to be added.
 */
static struct span AF_FN(attend_tile)(const struct back *work, const struct back_block *block,
                                      int64_t tile, int slot)
{
    struct span span = AF_FN(span_of)(work, tile, block);
    const float *ds = AF_PAIRS ? work->ds_pairs : work->ds + slot * BLOCK_KEYS * TILE_WORDS;
    for (int64_t j = span.first; j < span.end; j += STEP_KEYS)
        weigh_step(work, block, tile, slot, j,
                   span.end - j < STEP_KEYS ? span.end - j : STEP_KEYS, &span);
    const bool finite = AF_GUARD(block->finite) && AF_GUARD(work->views[tile].finite);
    if (!finite && (!span.whole || !AF_GUARD(work->problem->a.mask.data == NULL))) {
        add_visible(work, block, tile, slot, span);
        return (struct span){0, 0, {0}, false};
    }
    if (span.first < span.end)
        add_queries(work, block, tile, ds + span.first / WORD * TILE_LANES, &span);
    return span;
}

/* Computes GROUP_TILES tiles, or the remaining ones of the pass, against a block. */
static void AF_FN(attend_group)(const struct back *work, const struct back_block *block,
                                int64_t tile)
{
    struct span spans[GROUP_TILES] = {{0, 0, {0}, false}};
    bool any = false;
    for (int slot = 0; slot < GROUP_TILES && tile + slot < work->tiles; slot++) {
        spans[slot] = AF_FN(attend_tile)(work, block, tile + slot, slot);
        any = any || spans[slot].first < spans[slot].end;
    }
    if (!any)
        return;
    add_gradient(work, tile, spans, block->count, work->p, work->do_panels,
                 work->dv + block->key * work->v_width, work->v_width);
    add_gradient(work, tile, spans, block->count, work->ds, work->q_panels,
                 work->dk + block->key * work->qk_width, work->qk_width);
}

/*
 * Computes the bytes of all parts and, unless `memory` is NULL, sets their
 * addresses in it.
 */
static size_t AF_FN(lay_out)(struct back *work, int64_t rows, int64_t keys, char *memory)
{
    size_t used = 0;
    int64_t tiles = (rows + TILE_LANES - 1) / TILE_LANES;
    tiles = tiles < PASS_TILES ? tiles : PASS_TILES;
    const int64_t lanes = tiles * TILE_LANES;
    const int64_t pairs = AF_PAIRS ? BLOCK_KEYS / WORD : 0;
    const int64_t qk_panels = round_up(work->qk_width, PANEL);
    const int64_t v_panels = round_up(work->v_width, PANEL);
    const int64_t widest = work->qk_width > work->v_width ? work->qk_width : work->v_width;
    const int64_t padded_keys = round_up(keys, KEY_STEP);
    const int64_t step = (STEP_KEYS + 1) * TILE_LANES, block = BLOCK_KEYS * TILE_WORDS;
    AF_PART(work->q_lanes, float, lanes * work->qk_words);
    AF_PART(work->do_lanes, float, lanes * work->v_words);
    AF_PART(work->q_panels, float, lanes / WORD * qk_panels);
    AF_PART(work->do_panels, float, lanes / WORD * v_panels);
    AF_PART(work->dq_lanes, float, lanes * work->dq_rows);
    AF_PART(work->lse, float, lanes);
    AF_PART(work->delta, float, lanes);
    AF_PART(work->single, bool, lanes);
    AF_PART(work->first, int32_t, lanes);
    AF_PART(work->end, int32_t, lanes);
    AF_PART(work->query, int32_t, lanes);
    AF_PART(work->head, int32_t, lanes);
    AF_PART(work->views, struct view, tiles);
    AF_PART(work->p, float, GROUP_TILES *block);
    AF_PART(work->ds, float, GROUP_TILES *block);
    AF_PART(work->ds_pairs, float, pairs *TILE_LANES);
    AF_PART(work->scores, float, AF_PAIRS ? step : 0);
    AF_PART(work->dp, float, AF_PAIRS ? step : 0);
    AF_PART(work->bias, float, work->featured ? step : 0);
    AF_PART(work->hidden, float, work->featured ? step : 0);
    AF_PART(work->keep, float, work->featured ? step : 0);
    AF_PART(work->dbias, float, work->featured ? step : 0);
    AF_PART(work->stage, float, TILE_LANES *widest);
    AF_PART(work->keys, float, BLOCK_KEYS * work->qk_width);
    AF_PART(work->values, float, BLOCK_KEYS * work->v_width);
    AF_PART(work->key_pairs, float, pairs * work->dq_rows);
    AF_PART(work->dk, float, padded_keys * work->qk_width);
    AF_PART(work->dv, float, padded_keys * work->v_width);
    return used;
}

static struct back AF_FN(back_of)(const struct af_problem *problem)
{
    struct back work;
    memset(&work, 0, sizeof work);
    work.problem = problem;
    work.qk_words = round_up(problem->a.head_dim, DIM_STEP) / WORD;
    work.v_words = round_up(problem->a.value_dim, DIM_STEP) / WORD;
    work.qk_width = round_up(problem->a.head_dim, AF_LANES);
    work.v_width = round_up(problem->a.value_dim, AF_LANES);
    work.dq_rows = round_up(problem->a.head_dim, PAIR_COLUMNS);
    work.featured = problem->changes_scores || problem->a.dropout > 0;
    return work;
}

static size_t AF_FN(scratch_bytes)(const struct af_problem *problem, int64_t rows, int64_t keys)
{
    struct back work = AF_FN(back_of)(problem);
    return AF_FN(lay_out)(&work, rows, keys, NULL);
}

/* Whether rows of the pass see keys [key, end) of the task. All tiles are packed. */
static bool AF_FN(pass_sees)(const struct back *work, int64_t key, int64_t end)
{
    for (int64_t tile = 0; tile < work->tiles; tile++) {
        if (work->views[tile].first < end && key < work->views[tile].end)
            return true;
    }
    return false;
}

/*
 * Computes the pass against keys [key, end). Its rows are packed as the first block needs
 * them, and dq of a tile is written after the last block that the tile sees, so that both
 * are in caches.
 */
static void AF_FN(run_block)(const struct back *work, int64_t key, int64_t end)
{
    if (key > 0 && AF_GUARD(!AF_FN(pass_sees)(work, key, end)))
        return;
    const struct back_block block = AF_FN(take_block)(work, key, end - key);
    for (int64_t tile = 0; tile < work->tiles; tile += GROUP_TILES) {
        const int64_t group_end =
            tile + GROUP_TILES < work->tiles ? tile + GROUP_TILES : work->tiles;
        for (int64_t t = tile; key == 0 && t < group_end; t++)
            AF_FN(pack_tile)(work, t);
        AF_FN(attend_group)(work, &block, tile);
        for (int64_t t = tile; t < group_end; t++) {
            const int64_t last = work->views[t].end > 0 ? work->views[t].end - 1 : 0;
            if (key <= last && last < end)
                AF_FN(put_tile)(work, t);
        }
    }
}

/* Computes a pass: its rows against all keys of the task, block by block. */
static void AF_FN(run_pass)(const struct back *work)
{
    const struct af_backward_task *task = work->task;
    const struct anyflash_attend_args *a = &work->problem->a;
    const int64_t keys = task->key_end - task->key_begin;
    const bool first = work->row == 0;
    const bool last = work->row + PASS_TILES * TILE_LANES >= task->rows;
    const bool any = AF_FN(set_ranges)(work) || task->partial_dq == NULL;
    for (int64_t key = 0; key < keys; key += BLOCK_KEYS) {
        const int64_t end = key + BLOCK_KEYS < keys ? key + BLOCK_KEYS : keys;
        const size_t sums = (size_t)round_up(end - key, KEY_STEP) * sizeof(float);
        if (first) {
            memset(work->dk + key * work->qk_width, 0, sums * (size_t)work->qk_width);
            memset(work->dv + key * work->v_width, 0, sums * (size_t)work->v_width);
        }
        if (!AF_GUARD(!any))
            AF_FN(run_block)(work, key, end);
        if (last) {
            AF_FN(put_keys)
            (work, &work->backward->dk, work->dk, work->qk_width, a->head_dim, a->scale, key,
             end - key);
            AF_FN(put_keys)
            (work, &work->backward->dv, work->dv, work->v_width, a->value_dim, 1.0f, key,
             end - key);
        }
    }
}

static void AF_FN(run)(const struct af_backward_task *task, struct af_scratch scratch)
{
    struct back work = AF_FN(back_of)(&task->problem->forward);
    work.task = task;
    work.backward = task->problem;
    AF_FN(lay_out)(&work, task->rows, task->key_end - task->key_begin, scratch.memory);
#if AF_AMX
    AF_TILES_CONFIGURE();
#endif
    /* Without rows there is one empty pass, which writes dk and dv. */
    do {
        int64_t tiles = (task->rows - work.row + TILE_LANES - 1) / TILE_LANES;
        work.tiles = tiles < PASS_TILES ? tiles : PASS_TILES;
        AF_FN(run_pass)(&work);
        work.row += PASS_TILES * TILE_LANES;
    } while (work.row < task->rows);
#if AF_AMX
    AF_TILES_RELEASE();
#endif
}

#undef WORD
#undef TILE_LANES
#undef TILE_WORDS
#undef BLOCK_KEYS
#undef STEP_KEYS
#undef SPAN_KEYS
#undef GROUP_TILES
#undef PASS_TILES
#undef PANEL
#undef PAIR_COLUMNS
#undef KEY_STEP
#undef KEY_GROUP
#undef DIM_STEP
#undef LINE_MAX
#undef LINE_BYTES
#undef PUT_AHEAD
