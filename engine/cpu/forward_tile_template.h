/*
 * forward_tile_template.h: the state of a forward task; and one tile against one block of
 * keys: scores and their maximum, softcap, bias, mask and ALiBi, softmax with the running
 * maximum and sum, dropout, values. First of the three parts of the forward kernel.
 *
 * Parameters: AF_PAIRS, AF_AMX, TILE_VECS, TILE_ROWS (forward_template.h). Defines: struct
 * tile, work, block, prefetch, kept; attend_any(). With AF_AMX forward_amx_template.h has the
 * products.
 */
#ifndef AF_ENGINE_CPU_FORWARD_TILE_TEMPLATE_H
#define AF_ENGINE_CPU_FORWARD_TILE_TEMPLATE_H

#if !AF_AMX
#include "engine/cpu/tile_template.h"
#endif

/* State of a tile between blocks. */
struct tile {
    int vecs;      /* vectors in use: 1 to TILE_VECS */
    int64_t row;   /* first row of the task's numbering */
    int rows;      /* rows in use */
    int64_t first; /* keys that any row sees: [first, end) */
    int64_t end;
    int64_t all_first; /* keys that every row sees: [all_first, all_end) */
    int64_t all_end;
    int64_t vec_end[TILE_VECS]; /* keys that any row of a vector sees end here; never falls */
    float *q;                   /* [words][vecs * LANES] packed queries */
    float *o;                   /* [value_rows][vecs * LANES] */
    float *m;                   /* [vecs * LANES] running maximum, log2 units */
    float *l;                   /* [vecs * LANES] running sum */
    int32_t *lane_first;        /* [vecs * LANES], relative to the task's first key */
    int32_t *lane_end;
    int32_t *query; /* [vecs * LANES] which query and which head a row is; rows */
    int32_t *head;  /* beyond the last repeat the last */
};

/* Rows needed soon: the part that is not yet prefetched. */
struct prefetch {
    const char *row;
    int64_t stride_bytes;
    int64_t rows;
    int64_t rows_a_step;
    int64_t heads; /* of each row, head_bytes apart */
    int64_t head_bytes;
    int64_t row_bytes;
};

/* The keys whose values a block of work->kept_values holds: [from, from + count). */
struct kept {
    int64_t from;
    int64_t count;
};

/* State of one task, with pointers to the parts of the worker's scratch. */
struct work {
    const struct af_forward_task *task;
    const struct af_problem *problem;
    int64_t words;      /* of one packed query */
    int64_t key_words;  /* of one copied key */
    int64_t value_rows; /* Dv rounded up to 8, or to 16 with AF_AMX */
    bool featured;      /* scores need more than scaling and a range */
    float fold;         /* factor of the queries, applied when packing */
    bool natural;       /* scores end in natural units: af_is_natural() */
    float unit;         /* factor from a stored score to its units in the softmax */
    float result_scale; /* factor of the results: that of fp8 values, or 1 */
    int tile_count;
    struct tile tiles[AF_TILES_MAX];
    float *scores; /* [BLOCK_KEYS + 1][TILE_LANES] */
    float *pairs;  /* [BLOCK_KEYS / WORD + 1][TILE_LANES], AF_PAIRS */
    float *keys;   /* [BLOCK_KEYS][key_words]: a converted, gathered or padded block */
    /*
     * [BLOCK_KEYS][value_rows]; AF_PAIRS: [value_rows / 8][COLUMN_WORDS][8]; AF_AMX:
     * [value_rows / 16][BLOCK_KEYS / 32][16 columns][16 pairs].
     */
    float *values;
    /* AF_PAIRS: `values` is one of these blocks, which stay for the next task of the head. */
    float *kept_values;
    struct kept *kept; /* [value_blocks] */
    int64_t value_blocks;
    float *extra; /* [BLOCK_KEYS][TILE_LANES] bias */
    struct prefetch prefetches[4];
    int prefetch_count;
    int64_t prefetch_steps; /* over which the prefetches are spread */
    int nonfinite_count;    /* of nonfinite; 0 where no row could meet them */
    uint8_t nonfinite[BLOCK_KEYS];
};

/* Address and stride, in words, of keys or values [j, j + count). */
struct block {
    const float *data;
    int64_t stride;
};

/* Prefetches the next rows of each entry in the list. */
static __attribute__((noinline)) void issue_prefetches(struct work *work)
{
    for (int i = 0; i < work->prefetch_count; i++) {
        struct prefetch *prefetch = &work->prefetches[i];
        int64_t rows =
            prefetch->rows < prefetch->rows_a_step ? prefetch->rows : prefetch->rows_a_step;
        prefetch->rows -= rows;
        for (; rows > 0; rows--, prefetch->row += prefetch->stride_bytes) {
            for (int64_t head = 0; head < prefetch->heads; head++) {
                const char *row = prefetch->row + head * prefetch->head_bytes;
                AF_ROLLED /* few iterations: Clang would compute more than it prefetches */
                for (int64_t at = 0; at < prefetch->row_bytes; at += 64)
                    __builtin_prefetch(row + at, 0, 3);
            }
        }
    }
}

#if AF_AMX
#include "engine/cpu/forward_amx_template.h"
#else
/*
 * Computes and stores the scores of `rows` keys from `key` on, and updates the
 * running maximum.
 */
AF_INLINE void score_keys(const int rows, const int from, const int vecs, const bool masked,
                          const struct tile *tile, struct block keys, int64_t words,
                          int64_t key, float *scores, vec *top)
{
    vec c[TILE_ROWS][TILE_VECS];
    vec most[TILE_VECS]; /* in registers, which `top` is not: its address is passed on */
    scores_from(rows, from, vecs, keys.data, keys.stride, tile->q, words, c);
    AF_UNROLL
    for (int v = 0; v < vecs; v++)
        most[v] = top[v];
    AF_UNROLL
    for (int i = 0; i < rows; i++) {
        AF_UNROLL
        for (int v = 0; v < vecs; v++) {
            if (v < from)
                c[i][v] = vec_set(HIDDEN);
            else if (masked)
                c[i][v] =
                    vec_between(c[i][v], (int32_t)(key + i), tile->lane_first + v * AF_LANES,
                                tile->lane_end + v * AF_LANES, vec_set(HIDDEN));
            most[v] = vec_max(most[v], c[i][v]);
            vec_store(scores + (i * vecs + v) * AF_LANES, c[i][v]);
        }
    }
    AF_UNROLL
    for (int v = 0; v < vecs; v++)
        top[v] = most[v];
}

/* Computes the scores of a block; `masked`: some row does not see some key of it. */
AF_INLINE void score_block(const int vecs, const bool masked, struct work *work,
                           const struct tile *tile, struct block keys, int64_t key,
                           int64_t count, vec *top)
{
    const int64_t words = work->words;
    float *scores = work->scores;
    const int64_t last = count - TILE_ROWS;
    /* The last group overlaps the one before it: keys one by one take longer. */
    for (int64_t j = 0; last >= 0; j = j + TILE_ROWS < last ? j + TILE_ROWS : last) {
        issue_prefetches(work);
        const int64_t at = key + j;
        float *to = scores + j * vecs * AF_LANES;
        struct block rows = {keys.data + j * keys.stride, keys.stride};
        if (!masked ||
            (AF_GUARD(at >= tile->all_first) && AF_GUARD(at + TILE_ROWS <= tile->all_end)))
            score_keys(TILE_ROWS, 0, vecs, false, tile, rows, words, at, to, top);
        else if (vecs > 2 && AF_GUARD(at >= tile->vec_end[vecs > 2 ? 1 : 0]))
            score_keys(TILE_ROWS, 2, vecs, true, tile, rows, words, at, to, top);
        else if (vecs > 1 && AF_GUARD(at >= tile->vec_end[0]))
            score_keys(TILE_ROWS, 1, vecs, true, tile, rows, words, at, to, top);
        else
            score_keys(TILE_ROWS, 0, vecs, true, tile, rows, words, at, to, top);
        if (j == last)
            break;
    }
    for (int64_t j = 0; last < 0 && j < count; j++) {
        struct block rows = {keys.data + j * keys.stride, keys.stride};
        score_keys(1, 0, vecs, masked, tile, rows, words, key + j, scores + j * vecs * AF_LANES,
                   top);
    }
}
#endif

/* Writes what a row adds to its scores of keys [j, j + count) to a column of `extra`. */
static void take_bias(const struct work *work, int64_t head, int64_t i, int64_t j,
                      int64_t count, float *column, int64_t width)
{
    const struct af_problem *problem = work->problem;
    const struct af_forward_task *task = work->task;
    float line[BLOCK_KEYS];
    memset(line, 0, sizeof line);
    if (problem->a.bias.data != NULL)
        af_convert_load_floats(&problem->a.bias, task->sequence.batch, head, i, j, count, line);
    if (problem->a.mask.data != NULL) {
        const char *seen =
            af_row_of_tensor(&problem->a.mask, 1, task->sequence.batch, head, i) + j;
        for (int64_t key = 0; key < count; key++)
            line[key] = seen[key] != 0 ? line[key] : HIDDEN;
    }
    for (int64_t key = 0; key < count; key++)
        column[key * width] = line[key];
}

/*
 * Applies softcap, bias, mask and ALiBi to stored scores, in the order of the
 * formula; afterwards they are in log2 units, masked, and included in the
 * maximum.
 */
static __attribute__((noinline)) void modify(const struct work *work, const struct tile *tile,
                                             int64_t key, int64_t count, vec *top)
{
    const struct anyflash_attend_args *a = &work->problem->a;
    const struct af_forward_task *task = work->task;
    const int64_t width = tile->vecs * AF_LANES;
    const bool lines = a->bias.data != NULL || a->mask.data != NULL;
    float slope[TILE_LANES] __attribute__((aligned(64)));
    float place[TILE_LANES] __attribute__((aligned(64)));
    for (int lane = 0; lane < width; lane++) {
        int32_t i = tile->query[lane];
        slope[lane] = af_alibi_slope(work->problem, task->sequence.batch, tile->head[lane]);
        place[lane] = (float)(i + task->sequence.offset - task->key_begin);
        if (lines)
            take_bias(work, tile->head[lane], i, task->key_begin + key, count,
                      work->extra + lane, width);
    }
    const vec cap = vec_set(a->softcap), inverse = vec_set(1.0f / a->softcap);
    vec natural = vec_set(AF_PAIRS ? a->scale : 1.0f);
    for (int64_t j = 0; j < count; j++) {
        const vec at = vec_set((float)(key + j));
        if (AF_PAIRS && a->k_scales != NULL)
            natural =
                vec_set(a->scale * af_scale_of_key(work->problem, a->k_scales, &task->sequence,
                                                   task->kv_head, task->key_begin + key + j));
        for (int v = 0; v < tile->vecs; v++) {
            float *stored = work->scores + (j * tile->vecs + v) * AF_LANES;
            vec s = vec_mul(vec_load(stored), natural);
            if (a->softcap > 0)
                s = vec_mul(cap, vec_tanh(vec_mul(s, inverse)));
            if (lines) {
                vec line = vec_load(work->extra + j * width + v * AF_LANES);
                s = vec_hide(vec_add(s, line), line);
            }
            if (a->alibi_slopes != NULL) {
                vec away = vec_abs(vec_sub(vec_load(place + v * AF_LANES), at));
                s = vec_sub(s, vec_mul(vec_load(slope + v * AF_LANES), away));
            }
            if (AF_PAIRS && !work->natural)
                s = vec_mul(s, vec_set(AF_LOG2E));
            s = vec_between(s, (int32_t)(key + j), tile->lane_first + v * AF_LANES,
                            tile->lane_end + v * AF_LANES, vec_set(HIDDEN));
            top[v] = vec_max(top[v], s);
            vec_store(stored, s);
        }
    }
}

/* Computes the new maximum, the factor for earlier sums, p and its sum. */
AF_INLINE void softmax_block(const int vecs, const struct work *work, const struct tile *tile,
                             int64_t count, const vec *top, float *alpha)
{
    const vec unit = vec_set(work->unit);
    vec m[TILE_VECS], l[TILE_VECS];
    AF_UNROLL
    for (int v = 0; v < vecs; v++) {
        vec old = vec_load(tile->m + v * AF_LANES);
        m[v] = vec_max(old, AF_PAIRS ? vec_mul(top[v], unit) : top[v]);
        vec a = vec_exp2(vec_sub(old, m[v]));
        l[v] = vec_mul(vec_load(tile->l + v * AF_LANES), a);
        vec_store(tile->m + v * AF_LANES, m[v]);
        vec_store(alpha + v * AF_LANES, a);
    }
#if AF_PAIRS
    for (; count % KEY_STEP != 0; count++) {
        AF_UNROLL
        for (int v = 0; v < vecs; v++)
            vec_store(work->scores + (count * vecs + v) * AF_LANES, vec_set(HIDDEN));
    }
    for (int64_t j = 0; j < count; j += 2) {
        const float *s = work->scores + j * vecs * AF_LANES;
        AF_UNROLL
        for (int v = 0; v < vecs; v++) {
            vec even = vec_load(s + v * AF_LANES);
            vec odd = vec_load(s + (vecs + v) * AF_LANES);
            even = vec_exp2_stored(vec_fms(even, unit, m[v]));
            odd = vec_exp2_stored(vec_fms(odd, unit, m[v]));
            l[v] = vec_add(l[v], vec_add(even, odd));
            vec_store(work->pairs + (j / 2 * vecs + v) * AF_LANES, vec_pair(even, odd));
        }
    }
#else
    for (int64_t j = 0; j < count; j++) {
        float *s = work->scores + j * vecs * AF_LANES;
        AF_UNROLL
        for (int v = 0; v < vecs; v++) {
            vec p = vec_exp2_stored(vec_sub(vec_load(s + v * AF_LANES), m[v]));
            l[v] = vec_add(l[v], p);
            vec_store(s + v * AF_LANES, p);
        }
    }
#endif
    AF_UNROLL
    for (int v = 0; v < vecs; v++)
        vec_store(tile->l + v * AF_LANES, l[v]);
}

/* The same for scores in natural units, one vector of rows after the other. */
static __attribute__((noinline)) void softmax_natural(const struct work *work,
                                                      const struct tile *tile, int64_t count,
                                                      const vec *top, float *alpha)
{
    const vec log2e = vec_set(AF_LOG2E);
    const int64_t width = tile->vecs * AF_LANES;
    for (; count % KEY_STEP != 0; count++) {
        for (int64_t lane = 0; lane < width; lane++)
            work->scores[count * width + lane] = HIDDEN;
    }
    for (int v = 0; v < tile->vecs; v++) {
        float *s = work->scores + v * AF_LANES;
        const vec old = vec_load(tile->m + v * AF_LANES), m = vec_max(old, top[v]);
        const vec a = vec_exp2(vec_mul(vec_sub(old, m), log2e));
        vec l = vec_mul(vec_load(tile->l + v * AF_LANES), a);
        vec_store(tile->m + v * AF_LANES, m);
        vec_store(alpha + v * AF_LANES, a);
        for (int64_t j = 0; j < count; j += WORD) {
            vec p[WORD];
            AF_UNROLL
            for (int w = 0; w < WORD; w++) {
                const vec x = vec_mul(vec_sub(vec_load(s + (j + w) * width), m), log2e);
                p[w] = vec_exp2_stored(x);
            }
#if AF_PAIRS
            l = vec_add(l, vec_add(p[0], p[1]));
            vec_store(work->pairs + j / 2 * width + v * AF_LANES, vec_pair(p[0], p[1]));
#else
            l = vec_add(l, p[0]);
            vec_store(s + j * width, p[0]);
#endif
        }
        vec_store(tile->l + v * AF_LANES, l);
    }
}

#if !AF_PAIRS
/*
 * Applies dropout: zeroes dropped probabilities and scales the others; the sums
 * do not change.
 */
static __attribute__((noinline)) void drop(const struct work *work, const struct tile *tile,
                                           int64_t key, int64_t count)
{
    const struct af_problem *problem = work->problem;
    const struct af_forward_task *task = work->task;
    const int64_t width = tile->vecs * AF_LANES;
    float factors[BLOCK_KEYS];
    for (int lane = 0; lane < tile->rows; lane++) {
        af_dropout_factors(problem, &task->sequence, tile->head[lane], tile->query[lane],
                           task->key_begin + key, count, factors);
        for (int64_t j = 0; j < count; j++)
            work->scores[j * width + lane] *= factors[j];
    }
}
#endif

#if !AF_AMX
/*
 * O^T[d .. d + rows) = alpha O^T + V^T P^T. Vector v uses the first ends[v]
 * words of keys, because its rows see none after those; ends never decreases.
 */
AF_INLINE void add_values(const int rows, const int vecs, const float *values, int64_t stride,
                          const float *p, const int64_t *ends, float *o, const float *alpha)
{
    vec c[TILE_ROWS][TILE_VECS];
    clear(rows, vecs, c);
    values_from(rows, 0, vecs, values, stride, p, 0, ends[0], c);
    /* Not a loop: Clang keeps C in registers only where `from` is a constant. */
    if (vecs > 1)
        values_from(rows, 1, vecs, values, stride, p, ends[0], ends[1], c);
    if (vecs > 2)
        values_from(rows, 2, vecs, values, stride, p, ends[1], ends[2], c);
    AF_UNROLL
    for (int i = 0; i < rows; i++) {
        AF_UNROLL
        for (int v = 0; v < vecs; v++) {
            float *at = o + (i * vecs + v) * AF_LANES;
            vec_store(at, vec_fma(vec_load(at), vec_load(alpha + v * AF_LANES), c[i][v]));
        }
    }
}

AF_INLINE void value_block(const int vecs, const struct work *work, const struct tile *tile,
                           struct block values, int64_t key, int64_t count, const float *alpha)
{
    const int64_t width = vecs * AF_LANES;
    int64_t ends[TILE_VECS];
    for (int v = 0; v < vecs; v++)
        ends[v] = (af_clamp(tile->vec_end[v] - key, 0, count) + WORD - 1) / WORD;
#if AF_PAIRS
    for (int64_t d = 0; d < work->value_rows; d += 8)
        add_values(8, vecs, values.data + d / 8 * (COLUMN_WORDS * 8), values.stride,
                   work->pairs, ends, tile->o + d * width, alpha);
#else
    int64_t d = 0;
    for (; d + TILE_ROWS <= work->problem->a.value_dim; d += TILE_ROWS)
        add_values(TILE_ROWS, vecs, values.data + d, values.stride, work->scores, ends,
                   tile->o + d * width, alpha);
    for (; d < work->problem->a.value_dim; d++)
        add_values(1, vecs, values.data + d, values.stride, work->scores, ends,
                   tile->o + d * width, alpha);
#endif
}
#endif

/* The first half of a tile: the factor alpha, and p in work->scores or work->pairs. */
AF_INLINE void weigh_block(const int vecs, struct work *work, const struct tile *tile,
                           struct block keys, int64_t key, int64_t count, float *alpha)
{
    vec top[TILE_VECS];
    AF_UNROLL
    for (int v = 0; v < vecs; v++)
        top[v] = vec_set(ROW_LOW);
    const bool whole =
        AF_GUARD(key >= tile->all_first) && AF_GUARD(key + count <= tile->all_end);
    if (whole || work->featured)
        score_block(vecs, false, work, tile, keys, key, count, top);
    else
        score_block(vecs, true, work, tile, keys, key, count, top);
    if (work->featured) {
        for (int v = 0; v < vecs; v++)
            top[v] = vec_set(ROW_LOW);
        modify(work, tile, key, count, top);
    }
    if (work->natural)
        softmax_natural(work, tile, count, top, alpha);
    else
        softmax_block(vecs, work, tile, count, top, alpha);
#if !AF_PAIRS
    if (work->problem->a.dropout > 0)
        drop(work, tile, key, count);
#endif
}

/*
 * Computes one tile against keys [key, key + count) of the task, each visible to
 * some row: for each possible width with specialised loops. The halves are functions
 * of their own, because GCC keeps a vector of the loop over values on the stack if
 * they are one.
 */
#define TILE_OF(vecs)                                                                          \
    static __attribute__((noinline)) void weigh_block_##vecs(                                  \
        struct work *work, const struct tile *tile, struct block keys, int64_t key,            \
        int64_t count, float *alpha)                                                           \
    {                                                                                          \
        weigh_block(vecs, work, tile, keys, key, count, alpha);                                \
    }                                                                                          \
    static __attribute__((noinline)) void value_block_##vecs(                                  \
        const struct work *work, const struct tile *tile, struct block values, int64_t key,    \
        int64_t count, const float *alpha)                                                     \
    {                                                                                          \
        value_block(vecs, work, tile, values, key, count, alpha);                              \
    }                                                                                          \
    static void attend_tile_##vecs(struct work *work, const struct tile *tile,                 \
                                   struct block keys, struct block values, int64_t key,        \
                                   int64_t count)                                              \
    {                                                                                          \
        float alpha[TILE_LANES] __attribute__((aligned(64)));                                  \
        weigh_block_##vecs(work, tile, keys, key, count, alpha);                               \
        value_block_##vecs(work, tile, values, key, count, alpha);                             \
    }
TILE_OF(1)
#if TILE_VECS >= 2
TILE_OF(2)
#endif
#if TILE_VECS >= 3
TILE_OF(3)
#endif
#undef TILE_OF

static void attend_any(struct work *work, const struct tile *tile, struct block keys,
                       struct block values, int64_t key, int64_t count)
{
#if TILE_VECS >= 3
    if (tile->vecs == 3)
        attend_tile_3(work, tile, keys, values, key, count);
    else
#endif
#if TILE_VECS >= 2
        if (tile->vecs == 2)
        attend_tile_2(work, tile, keys, values, key, count);
    else
#endif
        attend_tile_1(work, tile, keys, values, key, count);
}

#endif
