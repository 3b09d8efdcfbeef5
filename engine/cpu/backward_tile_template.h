/*
 * backward_tile_template.h: the state of a backward task; and one tile against keys of a
 * block: P and dS from the scores, then their contributions to dQ, dK and dV, by tiles, or
 * pair by pair where a product with 0 would be NaN. First of the three parts of the
 * backward kernel.
 *
 * Parameters: AF_PAIRS, AF_AMX, TILE_VECS, TILE_ROWS, GRADIENT_ROWS, GRADIENT_VECS
 * (backward_template.h). Defines: struct view, span, back, back_block; weigh_step(),
 * add_queries(), add_gradient(), add_visible(). With AF_AMX backward_amx_template.h has the
 * products.
 */
#ifndef AF_ENGINE_CPU_BACKWARD_TILE_TEMPLATE_H
#define AF_ENGINE_CPU_BACKWARD_TILE_TEMPLATE_H

#if !AF_AMX
#include "engine/cpu/tile_template.h"
#endif

/* Keys that the rows of a tile see, relative to the task's first key. */
struct view {
    int64_t first; /* keys that any row sees: [first, end) */
    int64_t end;
    int64_t all_first; /* keys that every row sees: [all_first, all_end) */
    int64_t all_end;
    int64_t ends[TILE_VECS]; /* no row of this vector or of those before it sees more keys */
    bool finite;             /* q and dout hold no NaN and no infinity */
};

/* The range of a block's keys that a tile uses, relative to the block: [first, end). */
struct span {
    int64_t first;
    int64_t end;
    int64_t ends[TILE_VECS]; /* as in the view */
    bool whole;              /* every row sees every key */
};

/* State of one task. Lanes, rows and results belong to one pass. */
struct back {
    const struct af_backward_task *task;
    const struct af_backward_problem *backward;
    const struct af_problem *problem;
    int64_t row;      /* first of the pass */
    int64_t tiles;    /* of the pass */
    int64_t qk_words; /* words of a packed query */
    int64_t v_words;
    int64_t qk_width; /* D rounded up to AF_LANES */
    int64_t v_width;
    int64_t dq_rows;  /* D rounded up to PAIR_COLUMNS */
    bool featured;    /* scores need more than scaling and a range */
    float *q_lanes;   /* [tiles][qk_words][TILE_LANES] */
    float *do_lanes;  /* [tiles][v_words][TILE_LANES] */
    float *q_panels;  /* [panels][tiles * TILE_WORDS][PANEL] */
    float *do_panels; /* alike */
    float *dq_lanes;  /* [tiles][dq_rows][TILE_LANES] */
    float *lse;       /* [tiles * TILE_LANES] in log2 units unless featured */
    float *delta;     /* [tiles * TILE_LANES] dO.O - dlse */
    bool *single;     /* [tiles * TILE_LANES] sees_one_key() */
    int32_t *first;   /* [tiles * TILE_LANES] visible keys, relative to the task's first */
    int32_t *end;
    int32_t *query;
    int32_t *head;
    struct view *views; /* [tiles] */
    float *p;           /* [GROUP_TILES][BLOCK_KEYS][TILE_WORDS] */
    float *ds;          /* alike */
    float *ds_pairs;    /* [BLOCK_KEYS / WORD][TILE_LANES], AF_PAIRS */
    float *scores;      /* [STEP_KEYS + 1][TILE_LANES], AF_PAIRS */
    float *dp;          /* alike */
    float *bias;        /* [STEP_KEYS][TILE_LANES], featured */
    float *hidden;      /* alike: 1 where the mask hides */
    float *keep;        /* alike: dropout's factor */
    float *dbias;       /* alike */
    float *stage;       /* [TILE_LANES][qk_width or v_width] */
    float *keys;        /* [BLOCK_KEYS][qk_width], copied */
    float *values;      /* [BLOCK_KEYS][v_width], copied */
    /*
     * AF_PAIRS: [dq_rows / PAIR_COLUMNS][BLOCK_KEYS / 2][PAIR_COLUMNS]; AF_AMX:
     * [dq_rows / 16][BLOCK_KEYS / 32][16 columns][16 pairs].
     */
    float *key_pairs;
    float *dk; /* [keys of the task, rounded up to KEY_STEP][qk_width] */
    float *dv; /* alike [v_width] */
};

/* A block of keys and values as words. */
struct back_block {
    int64_t key; /* first, relative to the task's first */
    int64_t count;
    const float *k;
    int64_t k_stride;
    const float *v;
    int64_t v_stride;
    bool finite; /* keys hold no NaN and no infinity */
};

static int64_t round_up(int64_t count, int64_t to)
{
    return (count + to - 1) / to * to;
}

/* The tiles of a group that use key `j` of the block, as bits. */
static unsigned tiles_at(const struct span *spans, int64_t j)
{
    unsigned tiles = 0;
    for (unsigned n = 0; n < GROUP_TILES; n++)
        tiles |= (unsigned)(spans[n].first <= j && j < spans[n].end) << n;
    return tiles;
}

#if AF_AMX
#include "engine/cpu/backward_amx_template.h"
#else
/* The first vector of a tile with a row that may see key `j` of the block or later ones. */
static int first_vec(const struct span *span, int64_t j)
{
    int v = 0;
    while (v < TILE_VECS - 1 && AF_GUARD(span->ends[v] <= j))
        v++;
    return v;
}

/*
 * Multiplies `rows` rows of A by packed lanes: out [rows][TILE_LANES], 0 before
 * vector `from`.
 */
AF_INLINE void product_rows(const int rows, const int from, const float *a, int64_t stride,
                            const float *lanes, int64_t words, float *out)
{
    vec c[TILE_ROWS][TILE_VECS];
    scores_from(rows, from, TILE_VECS, a, stride, lanes, words, c);
    AF_UNROLL
    for (int i = 0; i < rows; i++) {
        AF_UNROLL
        for (int v = 0; v < TILE_VECS; v++)
            vec_store(out + i * TILE_LANES + v * AF_LANES, c[i][v]);
    }
}

/* The same for `count` rows, which belong to keys of the block from `key` on. */
static void product(const struct span *span, int64_t key, const float *a, int64_t stride,
                    int64_t count, const float *lanes, int64_t words, float *out)
{
    int64_t j = 0;
    for (; j + TILE_ROWS <= count; j += TILE_ROWS, out += TILE_ROWS * TILE_LANES) {
        const float *rows = a + j * stride;
        const int from = first_vec(span, key + j);
        if (from == 0)
            product_rows(TILE_ROWS, 0, rows, stride, lanes, words, out);
        else if (from == 1)
            product_rows(TILE_ROWS, 1, rows, stride, lanes, words, out);
        else
            product_rows(TILE_ROWS, 2, rows, stride, lanes, words, out);
    }
    for (; j < count; j++, out += TILE_LANES)
        product_rows(1, 0, a + j * stride, stride, lanes, words, out);
}
#endif

/*
 * Stores P and dS of WORD adjacent keys for one vector of rows: P at p_rows and dS at
 * ds_rows, key by key. With AF_PAIRS it also stores dS as pairs of keys.
 */
AF_INLINE void put_weights(const vec *p, const vec *ds, float *p_rows, float *ds_rows,
                           float *ds_pairs)
{
#if AF_PAIRS
    vec_store_pair(p_rows, p_rows + TILE_WORDS, p[0], p[1]);
    vec_store(ds_pairs, vec_store_pair(ds_rows, ds_rows + TILE_WORDS, ds[0], ds[1]));
#else
    (void)ds_pairs;
    vec_store(p_rows, p[0]);
    vec_store(ds_rows, ds[0]);
#endif
}

/* Inputs and outputs of one step. */
struct step {
    int64_t key; /* first, relative to the task's first */
    int64_t count;
    int64_t lane;  /* first of the tile, in the pass */
    float *scores; /* [count][TILE_LANES] Q.K, afterwards P when the problem is featured */
    float *dp;     /* alike: dO.V, afterwards dS */
    float *p_rows;
    float *ds_rows;
    float *ds_pairs;
};

/* Computes P and dS of a problem without features, or stores those of one with features. */
AF_INLINE void weigh(const bool masked, const bool featured, const struct back *work,
                     const struct step *step)
{
    const vec unit = vec_set(work->problem->a.scale * AF_LOG2E);
    const int32_t *first = work->first + step->lane, *end = work->end + step->lane;
    vec lse[TILE_VECS], delta[TILE_VECS];
    AF_UNROLL
    for (int v = 0; v < TILE_VECS; v++) {
        lse[v] = vec_load(work->lse + step->lane + v * AF_LANES);
        delta[v] = vec_load(work->delta + step->lane + v * AF_LANES);
    }
    const int64_t count = round_up(step->count, KEY_STEP);
    for (int64_t j = 0; j < count; j += WORD) {
        AF_UNROLL
        for (int v = 0; v < TILE_VECS; v++) {
            const int64_t at = j * TILE_LANES + v * AF_LANES;
            const int64_t word = j * TILE_WORDS + v * AF_LANES / WORD;
            vec p[WORD], ds[WORD];
            AF_UNROLL
            for (int w = 0; w < WORD; w++) {
                const int32_t key = (int32_t)(step->key + j + w);
                p[w] = vec_load(step->scores + at + w * TILE_LANES);
                ds[w] = vec_load(step->dp + at + w * TILE_LANES);
                if (!featured) {
                    p[w] = vec_exp2_stored(vec_fms(p[w], unit, lse[v]));
                    ds[w] = vec_mul(p[w], vec_sub(ds[w], delta[v]));
                }
                if (masked) {
                    p[w] = vec_between(p[w], key, first + v * AF_LANES, end + v * AF_LANES,
                                       vec_zero());
                    ds[w] = vec_between(ds[w], key, first + v * AF_LANES, end + v * AF_LANES,
                                        vec_zero());
                }
            }
            put_weights(p, ds, step->p_rows + word, step->ds_rows + word,
                        step->ds_pairs + j / WORD * TILE_LANES + v * AF_LANES);
        }
    }
}

/* Writes one row's bias, mask and dropout for the step's keys to columns. */
static void take_column(const struct back *work, const struct step *step, int64_t lane)
{
    const struct af_problem *problem = work->problem;
    const struct anyflash_attend_args *a = &problem->a;
    const struct af_sequence *sequence = &work->task->sequence;
    const int64_t i = work->query[step->lane + lane], head = work->head[step->lane + lane];
    const int64_t key = work->task->key_begin + step->key;
    float line[STEP_KEYS], factors[STEP_KEYS];
    if (a->bias.data != NULL)
        af_convert_load_floats(&a->bias, sequence->batch, head, i, key, step->count, line);
    if (a->dropout > 0)
        af_dropout_factors(problem, sequence, head, i, key, step->count, factors);
    for (int64_t j = 0; j < step->count; j++) {
        const int64_t at = j * TILE_LANES + lane;
        work->bias[at] = a->bias.data != NULL ? line[j] : 0.0f;
        work->hidden[at] = af_mask_allows(problem, sequence, head, i, key + j) ? 0.0f : 1.0f;
        work->keep[at] = a->dropout > 0 ? factors[j] : 1.0f;
    }
}

/* Writes the columns of all rows of the tile; those of padding rows stay 0. */
static void take_columns(const struct back *work, const struct step *step)
{
    const size_t bytes = (size_t)step->count * TILE_LANES * sizeof(float);
    memset(work->bias, 0, bytes);
    memset(work->hidden, 0, bytes);
    memset(work->keep, 0, bytes);
    for (int64_t lane = 0; lane < TILE_LANES; lane++) {
        if (work->row + step->lane + lane < work->task->rows)
            take_column(work, step, lane);
    }
}

/* Adds dS of the step to dbias, row by row. */
static void add_bias(const struct back *work, const struct step *step)
{
    const struct af_backward_task *task = work->task;
    for (int64_t lane = 0; lane < TILE_LANES; lane++) {
        const int64_t r = step->lane + lane;
        if (work->row + r >= task->rows)
            break;
        float *row = (float *)(void *)af_row_of_tensor(&work->backward->dbias, sizeof(float),
                                                       task->sequence.batch, work->head[r],
                                                       work->query[r]);
        for (int64_t j = 0; j < step->count; j++)
            row[task->key_begin + step->key + j] += work->dbias[j * TILE_LANES + lane];
    }
}

/* Computes P Z and dC of a vector of rows and one key, in place of Q.K and dO.V. */
AF_INLINE void weigh_featured_at(const struct back *work, const struct step *step, int64_t j,
                                 int lane, vec slope, vec place)
{
    const struct anyflash_attend_args *a = &work->problem->a;
    const int64_t at = j * TILE_LANES + lane;
    const int32_t *first = work->first + step->lane + lane;
    const int32_t *end = work->end + step->lane + lane;
    const vec lse = vec_load(work->lse + step->lane + lane);
    const vec delta = vec_load(work->delta + step->lane + lane);
    vec s = vec_mul(vec_load(step->scores + at), vec_set(a->scale));
    vec steep = vec_set(1.0f);
    if (a->softcap > 0) {
        vec t = vec_tanh(vec_mul(s, vec_set(1.0f / a->softcap)));
        s = vec_mul(t, vec_set(a->softcap));
        steep = vec_sub(steep, vec_mul(t, t));
    }
    s = vec_add(s, vec_load(work->bias + at));
    if (a->alibi_slopes != NULL)
        s = vec_sub(s, vec_mul(slope, vec_abs(vec_sub(place, vec_set((float)j)))));
    vec p = vec_exp2(vec_mul(vec_sub(s, lse), vec_set(AF_LOG2E)));
    vec keep = vec_load(work->keep + at), hidden = vec_load(work->hidden + at);
    vec ds = vec_mul(p, vec_fms(vec_load(step->dp + at), keep, delta));
    p = vec_where_small(hidden, 0.5f, vec_mul(p, keep), vec_zero());
    ds = vec_where_small(hidden, 0.5f, ds, vec_zero());
    p = vec_between(p, (int32_t)(step->key + j), first, end, vec_zero());
    ds = vec_between(ds, (int32_t)(step->key + j), first, end, vec_zero());
    vec_store(step->scores + at, p);
    vec_store(work->dbias + at, ds);
    vec_store(step->dp + at, vec_mul(ds, steep));
}

/* Applies softcap, bias, ALiBi, mask and dropout, in the order of the formulas. */
static __attribute__((noinline)) void weigh_featured(const struct back *work,
                                                     const struct step *step)
{
    const struct af_backward_task *task = work->task;
    float slope[TILE_LANES] __attribute__((aligned(64)));
    float place[TILE_LANES] __attribute__((aligned(64)));
    for (int lane = 0; lane < TILE_LANES; lane++) {
        const int64_t r = step->lane + lane;
        slope[lane] = 0;
        if (work->row + r < task->rows)
            slope[lane] = af_alibi_slope(work->problem, task->sequence.batch, work->head[r]);
        place[lane] =
            (float)(work->query[r] + task->sequence.offset - task->key_begin - step->key);
    }
    take_columns(work, step);
    for (int64_t j = 0; j < step->count; j++) {
        for (int lane = 0; lane < TILE_LANES; lane += AF_LANES)
            weigh_featured_at(work, step, j, lane, vec_load(slope + lane),
                              vec_load(place + lane));
    }
    if (work->backward->dbias.data != NULL)
        add_bias(work, step);
    weigh(AF_PAIRS, true, work, step);
}

static __attribute__((noinline)) void weigh_whole(const struct back *work,
                                                  const struct step *step)
{
    weigh(false, false, work, step);
}

static __attribute__((noinline)) void weigh_masked(const struct back *work,
                                                   const struct step *step)
{
    weigh(true, false, work, step);
}

/* Computes P and dS of a tile and keys [j, j + count) of a block. */
static void weigh_step(const struct back *work, const struct back_block *block, int64_t tile,
                       int slot, int64_t j, int64_t count, const struct span *span)
{
    const struct view *view = &work->views[tile];
    const int64_t key = block->key + j;
    const int64_t at = (slot * BLOCK_KEYS + j) * TILE_WORDS;
    struct step step = {
        .key = key,
        .count = count,
        .lane = tile * TILE_LANES,
        .scores = AF_PAIRS ? work->scores : work->p + at,
        .dp = AF_PAIRS ? work->dp : work->ds + at,
        .p_rows = work->p + at,
        .ds_rows = work->ds + at,
        .ds_pairs = work->ds_pairs + j / WORD * TILE_LANES,
    };
    product(span, j, block->k + j * block->k_stride, block->k_stride, count,
            work->q_lanes + tile * work->qk_words * TILE_LANES, work->qk_words, step.scores);
    product(span, j, block->v + j * block->v_stride, block->v_stride, count,
            work->do_lanes + tile * work->v_words * TILE_LANES, work->v_words, step.dp);
    if (work->featured)
        weigh_featured(work, &step);
    else if (AF_GUARD(view->all_first <= key) &&
             AF_GUARD(key + round_up(count, KEY_STEP) <= view->all_end))
        weigh_whole(work, &step);
    else
        weigh_masked(work, &step);
}

#if !AF_AMX
/*
 * C = `rows` columns of A times dS^T. Vector v uses the first ends[v] words of keys, because
 * its rows see none after those; ends never decreases.
 */
AF_INLINE void query_tile(const int rows, const float *a, int64_t stride, const float *ds,
                          const int64_t *ends, vec (*c)[TILE_VECS])
{
    clear(rows, TILE_VECS, c);
    values_from(rows, 0, TILE_VECS, a, stride, ds, 0, ends[0], c);
    /* Not a loop: Clang keeps C in registers only where `from` is a constant. */
    values_from(rows, 1, TILE_VECS, a, stride, ds, ends[0], ends[1], c);
    values_from(rows, 2, TILE_VECS, a, stride, ds, ends[1], ends[2], c);
}

/* dQ^T of a tile += K^T dS^T over the keys of a span; `ds` is that of its first key. */
static void add_queries(const struct back *work, const struct back_block *block, int64_t tile,
                        const float *ds, const struct span *span)
{
    const int64_t dim = AF_PAIRS ? work->dq_rows : work->problem->a.head_dim;
    const int64_t first = span->first;
    float *dq = work->dq_lanes + tile * work->dq_rows * TILE_LANES;
    vec c[TILE_ROWS][TILE_VECS];
    int64_t ends[TILE_VECS], d = 0;
    for (int v = 0; v < TILE_VECS; v++)
        ends[v] = (span->ends[v] - first + WORD - 1) / WORD;
    for (; d + TILE_ROWS <= dim; d += TILE_ROWS, dq += TILE_ROWS * TILE_LANES) {
        const float *a = AF_PAIRS
                             ? work->key_pairs + d * (BLOCK_KEYS / 2) + first / 2 * PAIR_COLUMNS
                             : block->k + first * block->k_stride + d;
        query_tile(TILE_ROWS, a, AF_PAIRS ? PAIR_COLUMNS : block->k_stride, ds, ends, c);
        AF_UNROLL
        for (int i = 0; i < TILE_ROWS; i++) {
            AF_UNROLL
            for (int v = 0; v < TILE_VECS; v++) {
                float *at = dq + i * TILE_LANES + v * AF_LANES;
                vec_store(at, vec_add(vec_load(at), c[i][v]));
            }
        }
    }
    for (; d < dim; d++, dq += TILE_LANES) {
        query_tile(1, block->k + first * block->k_stride + d, block->k_stride, ds, ends, c);
        AF_UNROLL
        for (int v = 0; v < TILE_VECS; v++)
            vec_store(dq + v * AF_LANES, vec_add(vec_load(dq + v * AF_LANES), c[0][v]));
    }
}

/*
 * C [rows keys][vecs * LANES] += weights [rows keys][rows of the group] times
 * their panel, over the tiles of the group that use key `j` of the block, the first.
 */
AF_INLINE void gradient_strip(const int rows, const int vecs, const float *weights,
                              const struct span *spans, int64_t j, const float *panel,
                              float *out, int64_t stride)
{
    vec c[GRADIENT_ROWS][GRADIENT_VECS];
    AF_UNROLL
    for (int i = 0; i < rows; i++) {
        AF_UNROLL
        for (int v = 0; v < vecs; v++)
            c[i][v] = vec_loadu(out + i * stride + v * AF_LANES);
    }
    for (int n = 0; n < GROUP_TILES; n++) {
        int w = TILE_WORDS;
        if (spans[n].first <= j && j < spans[n].end)
            w = first_vec(&spans[n], j) * AF_LANES / WORD;
        const float *a = weights + w, *b = panel + w * PANEL;
        for (; w < TILE_WORDS; w += 4, a += 4, b += 4 * PANEL) {
            AF_UNROLL
            for (int u = 0; u < 4; u++) {
                vec row[GRADIENT_VECS];
                AF_UNROLL
                for (int v = 0; v < vecs; v++)
                    row[v] = vec_load(b + u * PANEL + v * AF_LANES);
                AF_UNROLL
                for (int i = 0; i < rows; i++) {
                    AF_UNROLL
                    for (int v = 0; v < vecs; v++)
                        c[i][v] = vec_mac(vec_word(a + i * TILE_WORDS + u), row[v], c[i][v]);
                }
            }
        }
        weights += BLOCK_KEYS * TILE_WORDS;
        panel += TILE_WORDS * PANEL;
    }
    AF_UNROLL
    for (int i = 0; i < rows; i++) {
        AF_UNROLL
        for (int v = 0; v < vecs; v++)
            vec_storeu(out + i * stride + v * AF_LANES, c[i][v]);
    }
}

/* Adds to one panel of dK or dV for all keys of a block. */
AF_INLINE void gradient_panel(const int vecs, const struct span *spans, int64_t count,
                              const float *weights, const float *panel, float *out,
                              int64_t stride)
{
    int64_t j = 0;
    for (; j + GRADIENT_ROWS <= count; j += GRADIENT_ROWS) {
        if (!AF_GUARD(tiles_at(spans, j) == 0))
            gradient_strip(GRADIENT_ROWS, vecs, weights + j * TILE_WORDS, spans, j, panel,
                           out + j * stride, stride);
    }
    for (; j < count; j++)
        gradient_strip(1, vecs, weights + j * TILE_WORDS, spans, j, panel, out + j * stride,
                       stride);
}

/* The possible widths of a panel, each with specialised loops. */
#define PANEL_OF(vecs)                                                                         \
    static __attribute__((noinline)) void gradient_panel_##vecs(                               \
        const struct span *spans, int64_t count, const float *weights, const float *panel,     \
        float *out, int64_t stride)                                                            \
    {                                                                                          \
        gradient_panel(vecs, spans, count, weights, panel, out, stride);                       \
    }
PANEL_OF(1)
PANEL_OF(2)
#if GRADIENT_VECS >= 3
PANEL_OF(3)
#endif
#if GRADIENT_VECS >= 4
PANEL_OF(4)
#endif
#undef PANEL_OF

/* dK or dV of a block += weights of the group's tiles times their rows. */
static void add_gradient(const struct back *work, int64_t tile, const struct span *spans,
                         int64_t count, const float *weights, const float *panels, float *out,
                         int64_t width)
{
    typedef void run(const struct span *, int64_t, const float *, const float *, float *,
                     int64_t);
    static run *const of_width[] = {
        gradient_panel_1,
        gradient_panel_2,
#if GRADIENT_VECS >= 3
        gradient_panel_3,
#endif
#if GRADIENT_VECS >= 4
        gradient_panel_4
#endif
    };
    for (int64_t d = 0; d < width; d += PANEL) {
        int64_t columns = width - d < PANEL ? width - d : PANEL;
        of_width[columns / AF_LANES - 1](spans, count, weights,
                                         panels + (d * work->tiles + tile * PANEL) * TILE_WORDS,
                                         out + d, width);
    }
}
#endif

/* Reads element d of row r of the pass from panels. */
static float panel_element(const struct back *work, const float *panels, int64_t r, int64_t d)
{
    int64_t begin = d / PANEL * PANEL;
    const float *row = panels + begin * work->tiles * TILE_WORDS + r / WORD * PANEL;
    return af_word_element(row, (d - begin) * WORD + r % WORD);
}

/*
 * Adds the contribution of row r of the pass and key j of the block, which it
 * sees, to dq, dk and dv.
 */
static void add_pair(const struct back *work, const struct back_block *block, int64_t r,
                     int64_t j, float p, float ds)
{
    const struct anyflash_attend_args *a = &work->problem->a;
    const int64_t tile = r / TILE_LANES, lane = r % TILE_LANES;
    float *dk = work->dk + (block->key + j) * work->qk_width;
    float *dv = work->dv + (block->key + j) * work->v_width;
    float *dq = work->dq_lanes + tile * work->dq_rows * TILE_LANES + lane;
    for (int64_t d = 0; d < a->head_dim; d++) {
        dq[d * TILE_LANES] += ds * af_word_element(block->k + j * block->k_stride, d);
        dk[d] += ds * panel_element(work, work->q_panels, r, d);
    }
    for (int64_t d = 0; d < a->value_dim; d++)
        dv[d] += p * panel_element(work, work->do_panels, r, d);
}

/* Adds all contributions of a tile, one visible pair at a time. */
static __attribute__((noinline)) void add_visible(const struct back *work,
                                                  const struct back_block *block, int64_t tile,
                                                  int slot, struct span span)
{
    const struct af_backward_task *task = work->task;
    for (int64_t lane = 0; lane < TILE_LANES; lane++) {
        const int64_t r = tile * TILE_LANES + lane;
        for (int64_t j = span.first; j < span.end; j++) {
            const float *p = work->p + (slot * BLOCK_KEYS + j) * TILE_WORDS;
            const float *ds = work->ds + (slot * BLOCK_KEYS + j) * TILE_WORDS;
            const int64_t key = block->key + j;
            if (key >= work->first[r] && key < work->end[r] &&
                af_mask_allows(work->problem, &task->sequence, work->head[r], work->query[r],
                               task->key_begin + key))
                add_pair(work, block, r, j, af_word_element(p, lane),
                         af_word_element(ds, lane));
        }
    }
}

#endif
