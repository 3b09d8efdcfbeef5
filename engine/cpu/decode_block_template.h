/*
 * decode_block_template.h: the state of a decode task, and the steps for one
 * block of keys: raw scores, softmax with the running maximum and sum, values.
 * First of the three parts of the decode kernel; decode_template.h has the
 * formula and includes all of them.
 *
 * Parameters: AF_FN, AF_ELEMENT, AF_STORED, AF_F8, AF_PAIRS, AF_LOAD,
 * AF_LOAD_SOME, DECODE_SUMS (decode_template.h). Defines, with names made by AF_FN():
 * the structs row, rows and work, and find_rows(), score_block(), softmax_block(),
 * add_block().
 */

#define ROWS_MAX AF_DECODE_ROWS_MAX
#define BLOCK_KEYS 64
#define BLOCK_BYTES 16384
#define SCORE_ROWS (DECODE_SUMS / 4)
#define KEY_STEP (1 + AF_PAIRS) /* keys per step of the values */
#define QUADS (AF_LANES / 4)
#define STEP ((1 + AF_PAIRS) * AF_LANES)   /* elements per step of a score */
#define LINE (64 / (int)sizeof(AF_STORED)) /* elements */
#define FETCHES (AF_F8 ? 1 : 2)            /* fp8 is bound by widening */
#define IN_REGISTERS (AF_F8 && AF_PAIRS)   /* fp8 can be widened as it is loaded */
#define ROW_LOW (-0x1p126f)                /* below any real score */

struct AF_FN(row) {
    int64_t i; /* query */
    int64_t head;
    int64_t first; /* keys that it sees: [first, end) of the sequence */
    int64_t end;
    float m; /* running maximum, log2 units */
    vec l;   /* running sum, in parts */
};

/* Pointers to the rows of a block of keys or values in memory. */
struct AF_FN(rows) {
    const void *at[BLOCK_KEYS]; /* of AF_STORED */
};

struct AF_FN(work) {
    const struct af_forward_task *task;
    const struct af_problem *problem;
    int count;             /* number of rows */
    int padded;            /* computed rows: 1, 2 or a multiple of 4 */
    int block;             /* keys of a block */
    int64_t words;         /* of a packed query */
    int64_t width;         /* Dv rounded up to AF_LANES */
    float *q;              /* [padded][words] */
    float *o;              /* [padded][width] */
    float *s;              /* [padded][BLOCK_KEYS] scores, then probabilities */
    const AF_ELEMENT *nil; /* a row of zeros, for missing keys */
#if AF_F8
    AF_ELEMENT *wide; /* [block][wide_row] keys or values, widened to AF_ELEMENT */
    int64_t wide_row;
    const void *wide_rows[BLOCK_KEYS];
    float k_scales[BLOCK_KEYS] __attribute__((aligned(64)));
    float v_scales[BLOCK_KEYS] __attribute__((aligned(64)));
#endif
    struct AF_FN(row) rows[ROWS_MAX];
};

/*
 * The next line of a block to prefetch, row after row. Lines are spread evenly over the
 * arithmetic: a burst of prefetches fills the queue of misses, and the arithmetic waits.
 */
struct AF_FN(fetch) {
    const void *const *row;
    const void *const *last;
    int64_t at; /* element of the row */
    int64_t dim;
};

AF_INLINE struct AF_FN(fetch)
    AF_FN(fetch_of)(const struct AF_FN(work) *work, const struct AF_FN(rows) *rows, int64_t dim)
{
    return (struct AF_FN(fetch)){rows->at, rows->at + work->block - 1, 0, dim};
}

/* Prefetches `share` elements of FETCHES blocks at step `step`: whole lines at some. */
AF_INLINE void AF_FN(fetch_some)(const int share, int64_t step, struct AF_FN(fetch) fetch[2])
{
    if (share < LINE && step % (LINE / share) != 0)
        return;
    AF_UNROLL
    for (int b = 0; b < FETCHES; b++) {
        AF_UNROLL
        for (int i = 0; i < share; i += LINE) {
            __builtin_prefetch((const AF_STORED *)*fetch[b].row + fetch[b].at);
            fetch[b].at += LINE;
            if (fetch[b].at >= fetch[b].dim) {
                fetch[b].at = 0;
                fetch[b].row += fetch[b].row < fetch[b].last;
            }
        }
    }
}

/* Finds rows [j, j + count) of keys or values; the rest are rows of zeros. */
static void AF_FN(find_rows)(const struct AF_FN(work) *work,
                             const struct anyflash_tensor *tensor, int64_t j, int64_t count,
                             struct AF_FN(rows) *rows)
{
    const struct anyflash_attend_args *a = &work->problem->a;
    int64_t key = 0;
    while (key < count) {
        const AF_STORED *row = (const AF_STORED *)(const void *)af_row_of_key(
            work->problem, tensor, &work->task->sequence, work->task->kv_head, j + key);
        int64_t end = count;
        if (a->block_table != NULL && a->page_size - (j + key) % a->page_size < count - key)
            end = key + a->page_size - (j + key) % a->page_size;
        for (; key < end; key++, row += tensor->row_stride)
            rows->at[key] = row;
    }
    for (; key < work->block; key++)
        rows->at[key] = work->nil;
}

#if AF_F8
/*
 * Sets the scales of the block's keys, [j, j + count) and some after them. The scale of
 * values is applied to o, exactly, unless it depends on the page.
 */
static void AF_FN(find_scales)(struct AF_FN(work) *work, int64_t j, int64_t count)
{
    const struct af_problem *problem = work->problem;
    const struct anyflash_attend_args *a = &problem->a;
    const struct af_sequence *sequence = &work->task->sequence;
    const float unit = AF_WIDE_UNIT(a->k.dtype);
    for (int64_t key = 0, end; key < work->block; key = end) {
        const int64_t at = key < count ? j + key : j;
        end = a->scale_per_page && key < count
                  ? af_clamp(key + a->page_size - at % a->page_size, 0, work->block)
                  : work->block;
        float k = af_scale_of_key(problem, a->k_scales, sequence, work->task->kv_head, at);
        float v = a->scale_per_page
                      ? af_scale_of_key(problem, a->v_scales, sequence, work->task->kv_head, at)
                      : 1;
        for (int64_t n = key; n < end; n++) {
            work->k_scales[n] = k * unit;
            work->v_scales[n] = v * unit;
        }
    }
}
#endif

/* The rows of a block, of AF_ELEMENT. */
static const void **AF_FN(ready)(struct AF_FN(work) *work, struct AF_FN(rows) *rows,
                                 const struct anyflash_tensor *tensor, int64_t dim)
{
#if AF_F8
    for (int key = 0; key < work->block; key++) {
        AF_ELEMENT *wide = work->wide + key * work->wide_row;
        AF_WIDEN(tensor->dtype, (const AF_STORED *)rows->at[key], dim, wide);
        work->wide_rows[key] = wide;
    }
    return work->wide_rows;
#else
    (void)work, (void)tensor, (void)dim;
    return rows->at;
#endif
}

AF_INLINE vec AF_FN(words)(const AF_ELEMENT *p)
{
#if AF_PAIRS
    return vec_load_pairs(p);
#else
    return AF_LOAD(p);
#endif
}

AF_INLINE vec AF_FN(words_some)(const AF_ELEMENT *p, int count)
{
#if AF_PAIRS
    return vec_load_some_pairs(p, count);
#else
    return AF_LOAD_SOME(p, count);
#endif
}

/*
 * Loads a vector of a row from element `d` on, or only `some` elements if it is not 0. If
 * `stored`, the row is fp8 and is converted by `table`; otherwise its elements are AF_ELEMENT.
 */
AF_INLINE vec AF_FN(row_words)(const bool stored, const int some, const vec *table,
                               const void *row, int64_t d)
{
#if IN_REGISTERS
    const uint8_t *f8 = (const uint8_t *)row + d;
    if (stored)
        return af_widen_pairs(table, some != 0 ? _mm256_maskz_loadu_epi8((1u << some) - 1, f8)
                                               : _mm256_loadu_si256((const void *)f8));
#else
    (void)stored, (void)table;
#endif
    const AF_ELEMENT *p = (const AF_ELEMENT *)row + d;
    return some != 0 ? AF_FN(words_some)(p, some) : AF_FN(words)(p);
}

AF_INLINE void AF_FN(load_table)(const bool stored, const struct AF_FN(work) *work, vec *table)
{
#if IN_REGISTERS
    if (stored)
        af_load_table(work->problem->a.k.dtype, table);
#else
    (void)stored, (void)work, (void)table;
#endif
}

AF_INLINE vec AF_FN(mac)(vec a, vec b, vec c)
{
#if AF_PAIRS
    return vec_dot_pairs(a, b, c);
#else
    return vec_fma(a, b, c);
#endif
}

/* c[rows][4 keys] += products of `rows` queries from `q` on with words k of 4 keys. */
AF_INLINE void AF_FN(score_step)(const int rows, const float *q, int64_t words, const vec *k,
                                 vec (*c)[4])
{
    AF_UNROLL
    for (int r = 0; r < rows; r++) {
        const vec one = vec_load(q + r * words);
        AF_UNROLL
        for (int i = 0; i < 4; i++)
            c[r][i] = AF_FN(mac)(one, k[i], c[r][i]);
    }
}

/*
 * Multiplies `rows` queries by 4 keys, summed to a quad each; each step prefetches
 * `share` elements.
 */
AF_INLINE void AF_FN(score_quad)(const int rows, const bool stored, const vec *table,
                                 const float *q, int64_t words, const void *const *keys,
                                 int64_t dim, const int share, struct AF_FN(fetch) fetch[2],
                                 float *quads)
{
    const void *const k_rows[4] = {keys[0], keys[1], keys[2], keys[3]};
    vec c[4][4], k[4];
    AF_UNROLL
    for (int r = 0; r < rows; r++) {
        AF_UNROLL
        for (int i = 0; i < 4; i++)
            c[r][i] = vec_zero();
    }
    int64_t d = 0;
    for (; d + STEP <= dim; d += STEP) {
        AF_UNROLL
        for (int i = 0; i < 4; i++)
            k[i] = AF_FN(row_words)(stored, 0, table, k_rows[i], d);
        AF_FN(score_step)(rows, q + d / (1 + AF_PAIRS), words, k, c);
        AF_FN(fetch_some)(share, d / STEP, fetch);
    }
    if (d < dim) {
        AF_UNROLL
        for (int i = 0; i < 4; i++)
            k[i] = AF_FN(row_words)(stored, (int)(dim - d), table, k_rows[i], d);
        AF_FN(score_step)(rows, q + d / (1 + AF_PAIRS), words, k, c);
        AF_FN(fetch_some)(share, d / STEP, fetch);
    }
    AF_UNROLL
    for (int r = 0; r < rows; r++)
        vec_store(quads + r * QUADS * AF_LANES,
                  vec_sum_quad(c[r][0], c[r][1], c[r][2], c[r][3]));
}

/* Computes raw scores of `rows` rows from `row` on with a block. */
AF_INLINE void AF_FN(score_rows)(const int rows, const bool stored, const int64_t dim,
                                 const int share, const struct AF_FN(work) *work, int row,
                                 const void *const *keys, struct AF_FN(fetch) fetch[2])
{
    vec table[4] = {vec_zero()};
    AF_FN(load_table)(stored, work, table);
    const float *q = work->q + row * work->words;
    float quads[4][QUADS][AF_LANES] __attribute__((aligned(64)));
    for (int key = 0; key < work->block; key += AF_LANES) {
        AF_ROLLED
        for (int i = 0; i < QUADS; i++)
            AF_FN(score_quad)
        (rows, stored, table, q, work->words, keys + key + 4 * i, dim, share, fetch,
         quads[0][i]);
        AF_UNROLL
        for (int r = 0; r < rows; r++) {
            vec parts[QUADS];
            AF_UNROLL
            for (int i = 0; i < QUADS; i++)
                parts[i] = vec_load(quads[r][i]);
            vec_store(work->s + (row + r) * BLOCK_KEYS + key, vec_join_quads(parts));
        }
    }
}

/* Every step prefetches; the passes over the block share the work. */
AF_INLINE void AF_FN(score_all)(const int64_t dim, const struct AF_FN(work) *work,
                                const bool stored, const void *const *keys,
                                struct AF_FN(fetch) fetch[2])
{
    const int passes = work->padded / SCORE_ROWS;
    if (work->padded == 1)
        AF_FN(score_rows)(1, false, dim, 4 * STEP, work, 0, keys, fetch);
    else if (work->padded == 2)
        AF_FN(score_rows)(2, false, dim, 4 * STEP, work, 0, keys, fetch);
    for (int row = 0; work->padded > 2 && row < work->padded; row += SCORE_ROWS) {
        if (IN_REGISTERS && stored)
            AF_FN(score_rows)(SCORE_ROWS, true, dim, 4 * STEP, work, row, keys, fetch);
        else if (passes == 1)
            AF_FN(score_rows)(SCORE_ROWS, false, dim, 4 * STEP, work, row, keys, fetch);
        else if (passes < 4)
            AF_FN(score_rows)(SCORE_ROWS, false, dim, 2 * STEP, work, row, keys, fetch);
        else
            AF_FN(score_rows)(SCORE_ROWS, false, dim, STEP, work, row, keys, fetch);
    }
}

/*
 * Computes the raw scores of a block; meanwhile prefetches the keys of the next block for the
 * first time and the values of this block for the second. Common head sizes have specialised
 * loops.
 */
static void AF_FN(score_block)(const struct AF_FN(work) *work, bool stored,
                               const void *const *keys, const struct AF_FN(rows) *values,
                               const struct AF_FN(rows) *next_keys)
{
    const int64_t dim = work->problem->a.head_dim;
    struct AF_FN(fetch) fetch[2] = {AF_FN(fetch_of)(work, next_keys, dim),
                                    AF_FN(fetch_of)(work, values, work->problem->a.value_dim)};
    if (dim == 64)
        AF_FN(score_all)(64, work, stored, keys, fetch);
    else if (dim == 128)
        AF_FN(score_all)(128, work, stored, keys, fetch);
    else
        AF_FN(score_all)(dim, work, stored, keys, fetch);
}

/*
 * Applies softcap, bias and ALiBi to the scores of keys [j, j + count), in
 * natural units.
 */
static void AF_FN(modify)(const struct AF_FN(work) *work, const struct AF_FN(row) *row,
                          int64_t j, int64_t count, float *s)
{
    const struct af_problem *problem = work->problem;
    const struct anyflash_attend_args *a = &problem->a;
    const int64_t batch = work->task->sequence.batch;
    float line[BLOCK_KEYS] __attribute__((aligned(64)));
    memset(line, 0, sizeof line);
    if (a->bias.data != NULL)
        af_convert_load_floats(&a->bias, batch, row->head, row->i, j, count, line);
    const vec scale = vec_set(a->scale),
              slope = vec_set(af_alibi_slope(problem, batch, row->head));
    const vec cap = vec_set(a->softcap), inverse = vec_set(1.0f / a->softcap);
    for (int key = 0; key < work->block; key += AF_LANES) {
        vec x = vec_mul(vec_load(s + key), scale);
        if (a->softcap > 0)
            x = vec_mul(cap, vec_tanh(vec_mul(x, inverse)));
        if (a->bias.data != NULL)
            x = vec_hide(vec_add(x, vec_load(line + key)), vec_load(line + key));
        if (a->alibi_slopes != NULL) {
            float away[AF_LANES] __attribute__((aligned(64)));
            for (int i = 0; i < AF_LANES; i++)
                away[i] = (float)(row->i + work->task->sequence.offset - j - key - i);
            x = vec_sub(x, vec_mul(slope, vec_abs(vec_load(away))));
        }
        vec_store(s + key, x);
    }
}

/*
 * Hides the keys of the block that `row` does not see: their scores times `unit`
 * are -infinity.
 */
static void AF_FN(hide)(const struct AF_FN(work) *work, const struct AF_FN(row) *row, int64_t j,
                        float unit, float *s)
{
    const struct af_sequence *sequence = &work->task->sequence;
    const float hidden = unit < 0 ? INFINITY : -INFINITY;
    for (int64_t key = 0; key < work->block; key++) {
        bool visible = j + key >= row->first && j + key < row->end &&
                       af_mask_allows(work->problem, sequence, row->head, row->i, j + key);
        s[key] = visible ? s[key] : hidden;
    }
}

/* Stores the probabilities of keys [key, key + AF_LANES) of a row. */
AF_INLINE void AF_FN(store_p)(float *row, int key, vec p)
{
#if AF_PAIRS
    vec_store_rounded((char *)row + key * 2, p);
#else
    vec_store(row + key, p);
#endif
}

#if AF_F8
/* Multiplies raw scores by the scales of their keys. */
static void AF_FN(scale_scores)(const struct AF_FN(work) *work, float *s)
{
    for (int key = 0; key < work->block; key += AF_LANES)
        vec_store(s + key, vec_mul(vec_load(s + key), vec_load(work->k_scales + key)));
}
#endif

/* The factors of the values of keys from `key` on, whose probabilities are `p`. */
AF_INLINE vec AF_FN(weights)(const struct AF_FN(work) *work, int key, vec p)
{
#if AF_F8
    return vec_mul(p, vec_load(work->v_scales + key));
#else
    (void)work, (void)key;
    return p;
#endif
}

/*
 * Converts a row's scores to probabilities; rescales its sum and its o to the
 * new maximum.
 */
static void AF_FN(softmax_row)(const struct AF_FN(work) *work, int r, float unit,
                               struct AF_FN(row) *row)
{
    float *s = work->s + r * BLOCK_KEYS, *o = work->o + r * work->width;
    const vec units = vec_set(unit);
    vec highest = vec_mul(vec_load(s), units);
    for (int key = AF_LANES; key < work->block; key += AF_LANES)
        highest = vec_max(highest, vec_mul(vec_load(s + key), units));
    if (vec_any_above(highest, vec_set(row->m))) {
        const float top = vec_top(highest);
        const vec alpha = vec_set(row->m > ROW_LOW ? exp2f(row->m - top) : 0);
        row->m = top;
        row->l = vec_mul(row->l, alpha);
        for (int64_t d = 0; d < work->width; d += AF_LANES)
            vec_store(o + d, vec_mul(vec_load(o + d), alpha));
    }
    const vec m = vec_set(row->m);
    for (int key = 0; key < work->block; key += AF_LANES) {
        vec p = vec_exp2(vec_fms(vec_load(s + key), units, m));
        row->l = vec_add(row->l, p);
        AF_FN(store_p)(s, key, AF_FN(weights)(work, key, p));
    }
}

/*
 * Converts raw scores to probabilities; returns whether some row may not see the
 * whole block.
 */
static bool AF_FN(softmax_block)(struct AF_FN(work) *work, int64_t j, int64_t count)
{
    const struct af_problem *problem = work->problem;
    const bool featured = (problem->features & AF_FEATURES_OF_SCORES) != 0;
    const float unit = featured ? AF_LOG2E : problem->a.scale * AF_LOG2E;
    bool partly = problem->a.mask.data != NULL;
    for (int r = 0; r < work->padded; r++) {
        struct AF_FN(row) *row = &work->rows[r];
        float *s = work->s + r * BLOCK_KEYS;
        bool whole = j >= row->first && j + work->block <= row->end;
#if AF_F8
        AF_FN(scale_scores)(work, s);
#endif
        if (featured)
            AF_FN(modify)(work, row, j, count, s);
        if (!whole || problem->a.mask.data != NULL)
            AF_FN(hide)(work, row, j, unit, s);
        AF_FN(softmax_row)(work, r, unit, row);
        partly = partly || !whole;
    }
    return partly;
}

/*
 * Reads `vecs` vectors, or `some` columns, of the values of a key from element `d` on, or of
 * two keys as pairs. row_words() explains `stored` and `table`.
 */
AF_INLINE void AF_FN(take_values)(const int vecs, const int some, const bool stored,
                                  const vec *table, const void *even, const void *odd,
                                  int64_t d, vec *x)
{
#if AF_PAIRS
    AF_UNROLL
    for (int v = 0; v < vecs; v += 2) {
        vec a = AF_FN(row_words)(stored, some, table, even, d + v * AF_LANES);
        vec b = AF_FN(row_words)(stored, some, table, odd, d + v * AF_LANES);
        x[v] = vec_pair_low(a, b);
        x[v + 1] = vec_pair_high(a, b);
    }
#else
    (void)odd;
    AF_UNROLL
    for (int v = 0; v < vecs; v++)
        x[v] = AF_FN(row_words)(stored, some, table, even, d + v * AF_LANES);
#endif
}

/* Broadcasts the probability of key `key`, or of two keys as a pair, to every lane. */
AF_INLINE vec AF_FN(spread)(const float *p, int key)
{
#if AF_PAIRS
    return vec_set_word(p + key / 2);
#else
    return vec_set(p[key]);
#endif
}

/*
 * o[rows][d ...] += p v for `vecs` vectors of values, or for the last `some`
 * columns; each step prefetches `share` elements.
 */
AF_INLINE void AF_FN(add_strip)(const int rows, const int vecs, const int some, const int share,
                                const bool stored, const struct AF_FN(work) *work, int row,
                                const void *const *values, struct AF_FN(fetch) fetch[2],
                                int64_t d)
{
    vec table[4] = {vec_zero()};
    AF_FN(load_table)(stored, work, table);
    const float *p = work->s + row * BLOCK_KEYS;
    float *o = work->o + row * work->width + d;
    vec c[8][8];
    AF_UNROLL
    for (int r = 0; r < rows; r++) {
        AF_UNROLL
        for (int v = 0; v < vecs; v++)
            c[r][v] = vec_load(o + r * work->width + v * AF_LANES);
    }
    for (int key = 0; key < work->block; key += KEY_STEP) {
        vec x[8];
        AF_FN(take_values)
        (vecs, some, stored, table, values[key], values[key + AF_PAIRS], d, x);
        AF_FN(fetch_some)(share, key / KEY_STEP, fetch);
        AF_UNROLL
        for (int r = 0; r < rows; r++) {
            const vec one = AF_FN(spread)(p + r * BLOCK_KEYS, key);
            AF_UNROLL
            for (int v = 0; v < vecs; v++)
                c[r][v] = AF_FN(mac)(one, x[v], c[r][v]);
        }
    }
    AF_UNROLL
    for (int r = 0; r < rows; r++) {
        AF_UNROLL
        for (int v = 0; v < vecs; v++)
            vec_store(o + r * work->width + v * AF_LANES, c[r][v]);
    }
}

/* Adds to `rows` rows from `row` on, which is one of `passes` passes over the block. */
AF_INLINE void AF_FN(add_rows)(const int rows, const int passes, const bool stored,
                               const struct AF_FN(work) *work, int row,
                               const void *const *values, struct AF_FN(fetch) fetch[2])
{
    const int vecs = DECODE_SUMS / rows < 8 ? DECODE_SUMS / rows : 8;
    const int share = AF_LANES * KEY_STEP / passes; /* of a vector */
    const int64_t dim = work->problem->a.value_dim;
    int64_t d = 0;
    for (; d + vecs * AF_LANES <= dim; d += vecs * AF_LANES)
        AF_FN(add_strip)(rows, vecs, 0, vecs * share, stored, work, row, values, fetch, d);
    for (; vecs > 4 && d + 4 * AF_LANES <= dim; d += 4 * AF_LANES)
        AF_FN(add_strip)(rows, 4, 0, 4 * share, stored, work, row, values, fetch, d);
    for (; vecs > KEY_STEP && d + STEP <= dim; d += STEP)
        AF_FN(add_strip)(rows, KEY_STEP, 0, KEY_STEP * share, stored, work, row, values, fetch,
                         d);
    if (d < dim)
        AF_FN(add_strip)
    (rows, KEY_STEP, (int)(dim - d), KEY_STEP * share, stored, work, row, values, fetch, d);
}

/*
 * Adds the values of a block; meanwhile prefetches the values of the next block for the first
 * time and its keys for the second.
 */
static void AF_FN(add_block)(const struct AF_FN(work) *work, bool stored,
                             const void *const *values, const struct AF_FN(rows) *next_keys,
                             const struct AF_FN(rows) *next_values)
{
    struct AF_FN(fetch) fetch[2] = {
        AF_FN(fetch_of)(work, next_values, work->problem->a.value_dim),
        AF_FN(fetch_of)(work, next_keys, work->problem->a.head_dim)};
    if (work->padded == 16) {
        AF_FN(add_rows)(8, 2, false, work, 0, values, fetch);
        AF_FN(add_rows)(8, 2, false, work, 8, values, fetch);
        return;
    }
    if (IN_REGISTERS && stored && work->padded == 8)
        AF_FN(add_rows)(8, 1, true, work, 0, values, fetch);
    else if (work->padded >= 8)
        AF_FN(add_rows)(8, 1, false, work, 0, values, fetch);
    if (IN_REGISTERS && stored && work->padded == 4)
        AF_FN(add_rows)(4, 1, true, work, 0, values, fetch);
    else if (work->padded % 8 == 4)
        AF_FN(add_rows)(4, 1, false, work, work->padded - 4, values, fetch);
    else if (work->padded == 2)
        AF_FN(add_rows)(2, 1, false, work, 0, values, fetch);
    else if (work->padded == 1)
        AF_FN(add_rows)(1, 1, false, work, 0, values, fetch);
}
