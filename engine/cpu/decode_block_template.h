/*
 * decode_block_template.h: the arithmetic of a decode task for one block of keys: raw scores,
 * softmax with running maximum and sum, products with the values. Second of the four parts of
 * the decode kernel.
 *
 * Parameters: AF_FN, AF_F8, AF_PAIRS, DECODE_SUMS (decode_template.h). Uses
 * decode_load_template.h. Defines store_p() and take_values() and, for whole
 * blocks, score_block(), softmax_block() and add_block(). AF_FN() adds a suffix to these names.
 */

/* c[rows][4 keys] += products of `rows` queries from `q` on with words k of 4 keys. */
AF_INLINE void AF_FN(score_step)(const int rows, const float *q, int64_t words, const vec *k,
                                 vec (*c)[4])
{
    AF_UNROLL
    for (int r = 0; r < rows; r++) {
        const vec one = vec_load(q + r * words);
        AF_UNROLL
        for (int i = 0; i < 4; i++)
            c[r][i] = vec_mac(one, k[i], c[r][i]);
    }
}

/*
 * Multiplies `rows` queries by 4 keys and writes a quad of sums (vec_sum_quad()) for each
 * query. fetch_some() explains `pauses`; elements before `d` are those of earlier quads.
 */
AF_INLINE void AF_FN(score_quad)(const int rows, const bool stored, const bool halves,
                                 const vec *table, const float *q, int64_t words,
                                 const void *const *keys, int64_t dim, int pauses, int before,
                                 struct AF_FN(fetch) fetch[2], float *quads)
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
    AF_ROLLED
    for (; stored && d < dim; d += 2 * STEP) {
        vec wide[4][2];
        AF_UNROLL
        for (int i = 0; i < 4; i++)
            AF_FN(two_words)(true, table, k_rows[i], d, wide[i]);
        AF_UNROLL
        for (int half = 0; half < 2; half++) {
            AF_UNROLL
            for (int i = 0; i < 4; i++)
                k[i] = wide[i][half];
            AF_FN(score_step)(rows, q + (d + half * STEP) / (1 + AF_PAIRS), words, k, c);
            AF_FN(fetch_some)(halves, pauses, before + (int)d + half * STEP, fetch);
        }
    }
    AF_ROLLED
    for (; d + STEP <= dim; d += STEP) {
        AF_UNROLL
        for (int i = 0; i < 4; i++)
            k[i] = AF_FN(row_words)(0, k_rows[i], d);
        AF_FN(score_step)(rows, q + d / (1 + AF_PAIRS), words, k, c);
        AF_FN(fetch_some)(halves, pauses, before + (int)d, fetch);
    }
    if (d < dim) {
        AF_UNROLL
        for (int i = 0; i < 4; i++)
            k[i] = AF_FN(row_words)((int)(dim - d), k_rows[i], d);
        AF_FN(score_step)(rows, q + d / (1 + AF_PAIRS), words, k, c);
        AF_FN(fetch_some)(halves, pauses, before + (int)d, fetch);
    }
    AF_UNROLL
    for (int r = 0; r < rows; r++)
        vec_store(quads + r * QUADS * AF_LANES,
                  vec_sum_quad(c[r][0], c[r][1], c[r][2], c[r][3]));
}

/* Computes raw scores of `rows` rows from `row` on with a block. */
AF_INLINE void AF_FN(score_rows)(const int rows, const bool stored, const bool halves,
                                 const int64_t dim, int pauses, const struct AF_FN(work) *work,
                                 int row, const void *const *keys, struct AF_FN(fetch) fetch[2])
{
    vec table[4] = {vec_zero()};
    AF_FN(load_table)(stored, work, table);
    const float *q = work->q + row * work->words;
    float quads[4][QUADS][AF_LANES] __attribute__((aligned(64)));
    for (int key = 0; key < work->keys; key += AF_LANES) {
        AF_ROLLED
        for (int i = 0; i < QUADS; i++)
            AF_FN(score_quad)
        (rows, stored, halves, table, q, work->words, keys + key + 4 * i, dim, pauses,
         i * (int)((dim + STEP - 1) / STEP * STEP), fetch, quads[0][i]);
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

/*
 * The passes over the block share the prefetches: of four or more passes, each does a quarter.
 * The fastest loops are compiled once for each share.
 */
AF_INLINE void AF_FN(score_all)(const bool halves, const int64_t dim,
                                const struct AF_FN(work) *work, const bool stored,
                                const void *const *keys, struct AF_FN(fetch) fetch[2])
{
    const int passes = work->padded / SCORE_ROWS;
    const int all = FETCH_BYTES / STEP_BYTES; /* steps for a prefetch if each is used once */
    const int four = (all / 4 - 1) * STEP, two = (all / 2 - 1) * STEP, one = (all - 1) * STEP;
    const int pauses = passes < 2 ? four : passes < 4 ? two : one;
    if (work->padded == 1)
        AF_FN(score_rows)(1, false, halves, dim, four, work, 0, keys, fetch);
    else if (SCORE_ROWS > 2 && work->padded == 2)
        AF_FN(score_rows)(2, false, halves, dim, four, work, 0, keys, fetch);
    for (int row = 0; row < passes * SCORE_ROWS; row += SCORE_ROWS) {
        if (IN_REGISTERS && stored)
            AF_FN(score_rows)(SCORE_ROWS, true, halves, dim, pauses, work, row, keys, fetch);
        else if (halves)
            AF_FN(score_rows)(SCORE_ROWS, false, halves, dim, pauses, work, row, keys, fetch);
        else if (passes == 1)
            AF_FN(score_rows)(SCORE_ROWS, false, halves, dim, four, work, row, keys, fetch);
        else if (passes < 4)
            AF_FN(score_rows)(SCORE_ROWS, false, halves, dim, two, work, row, keys, fetch);
        else
            AF_FN(score_rows)(SCORE_ROWS, false, halves, dim, one, work, row, keys, fetch);
    }
}

/*
 * Functions of their own, because compilers keep fewer numbers in registers in long functions:
 * for common head sizes, for all others, and for short rows. Those of fp8 prefetch any rows:
 * it is bound by widening.
 */
#define SCORE_OF(name, halves, dim)                                                            \
    static __attribute__((noinline)) void AF_FN(name)(                                         \
        const struct AF_FN(work) *work, bool stored, const void *const *keys,                  \
        const struct AF_FN(rows) *values, const struct AF_FN(rows) *next_keys)                 \
    {                                                                                          \
        const struct anyflash_attend_args *a = &work->problem->a;                              \
        struct AF_FN(fetch) fetch[2] = {AF_FN(fetch_of)(work, next_keys, a->head_dim),         \
                                        AF_FN(fetch_of)(work, values, a->value_dim)};          \
        AF_FN(score_all)(halves, dim, work, stored, keys, fetch);                              \
    }
SCORE_OF(score_any, AF_F8, a->head_dim)
#ifndef DECODE_SMALL
SCORE_OF(score_64, AF_F8, 64)
SCORE_OF(score_128, AF_F8, 128)
#endif
#if !AF_F8
SCORE_OF(score_short, true, a->head_dim)
#endif
#undef SCORE_OF

/*
 * Computes the raw scores of a block; meanwhile prefetches the keys of the next block for the
 * first time and the values of this block for the second.
 */
static void AF_FN(score_block)(const struct AF_FN(work) *work, bool stored,
                               const void *const *keys, const struct AF_FN(rows) *values,
                               const struct AF_FN(rows) *next_keys)
{
#if !AF_F8
    if (AF_CHOICE(AF_FN(has_short)(work, next_keys, values))) {
        AF_FN(score_short)(work, stored, keys, values, next_keys);
        return;
    }
#endif
#ifndef DECODE_SMALL
    const int64_t dim = work->problem->a.head_dim;
    if (AF_CHOICE(dim == 64)) {
        AF_FN(score_64)(work, stored, keys, values, next_keys);
        return;
    }
    if (AF_CHOICE(dim == 128)) {
        AF_FN(score_128)(work, stored, keys, values, next_keys);
        return;
    }
#endif
    AF_FN(score_any)(work, stored, keys, values, next_keys);
}

/*
 * Multiplies the scores of keys [j, j + count) by `factor` and applies softcap, bias and
 * ALiBi to them, in natural units.
 */
static void AF_FN(modify)(const struct AF_FN(work) *work, const struct AF_FN(row) *row,
                          float factor, int64_t j, int64_t count, float *s)
{
    const struct af_problem *problem = work->problem;
    const struct anyflash_attend_args *a = &problem->a;
    const int64_t batch = work->task->sequence.batch;
    float line[BLOCK_KEYS] __attribute__((aligned(64)));
    memset(line, 0, sizeof line);
    if (a->bias.data != NULL)
        af_convert_load_floats(&a->bias, batch, row->head, row->i, j, count, line);
    const vec scale = vec_set(factor),
              slope = vec_set(af_alibi_slope(problem, batch, row->head));
    const vec cap = vec_set(a->softcap), inverse = vec_set(1.0f / a->softcap);
    for (int key = 0; key < work->keys; key += AF_LANES) {
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
 * Hides the keys of the block from key `j` on that `row` does not see, and those from `end`
 * on, which are rows of zeros: their scores times `unit` are -infinity.
 */
static void AF_FN(hide)(const struct AF_FN(work) *work, const struct AF_FN(row) *row, int64_t j,
                        int64_t end, float unit, float *s)
{
    const struct af_sequence *sequence = &work->task->sequence;
    const float hidden = unit < 0 ? INFINITY : -INFINITY;
    for (int64_t key = 0; key < work->keys; key++) {
        bool visible = j + key >= row->first && j + key < end &&
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
    for (int key = 0; key < work->keys; key += AF_LANES)
        vec_store(s + key, vec_mul(vec_load(s + key), vec_load(work->k_scales + key)));
}
#endif

/*
 * The factors of the values of keys from `key` on, whose probabilities are `p`. `by_key`: the
 * values have scales of their own.
 */
AF_INLINE vec AF_FN(weights)(const bool by_key, const struct AF_FN(work) *work, int key, vec p)
{
#if AF_F8
    return by_key ? vec_mul(p, vec_load(work->v_scales + key)) : p;
#else
    (void)by_key, (void)work, (void)key;
    return p;
#endif
}

/*
 * Converts a row's scores, times `unit`, to probabilities; rescales its sum and its o to the
 * new maximum. Products are rounded as that maximum was, so that the weight of the largest
 * score is 1, and a row that sees one key gives its value.
 */
AF_INLINE void AF_FN(softmax_row)(const bool by_key, const bool natural,
                                  const struct AF_FN(work) *work, int r, float unit,
                                  struct AF_FN(row) *row)
{
    float *s = work->s + r * BLOCK_KEYS, *o = work->o + r * work->width;
    const vec units = vec_set(unit);
    vec highest = vec_mul(vec_load(s), units);
    for (int key = AF_LANES; key < work->keys; key += AF_LANES)
        highest = vec_max(highest, vec_mul(vec_load(s + key), units));
    if (vec_any_above(highest, vec_set(row->m))) {
        const float top = vec_top(highest);
        const vec alpha = vec_set(row->m > ROW_LOW ? af_exp_of(natural, row->m - top) : 0);
        row->m = top;
        row->l = vec_mul(row->l, alpha);
        for (int64_t d = 0; d < work->width; d += AF_LANES)
            vec_store(o + d, vec_mul(vec_load(o + d), alpha));
    }
    const vec m = vec_set(row->m);
    vec l = row->l;
    for (int key = 0; key < work->keys; key += AF_LANES) {
        vec x = vec_load(s + key);
        if (natural)
            x = vec_mul(vec_sub(x, m), vec_set(AF_LOG2E));
        else
            x = vec_sub(vec_mul(x, units), m);
        vec p = vec_exp2_stored(x);
        l = vec_add(l, p);
        AF_FN(store_p)(s, key, AF_FN(weights)(by_key, work, key, p));
    }
    row->l = l;
}

/*
 * Converts the raw scores of keys [j, j + count) to probabilities; those of the rest of the
 * block become 0, also where a row sees keys that are not in it. Returns whether all rows see
 * the whole block.
 */
static bool AF_FN(softmax_block)(struct AF_FN(work) *work, int64_t j, int64_t count)
{
    const struct af_problem *problem = work->problem;
    const bool natural = af_is_natural(problem);
    const bool by_key = AF_F8 && problem->a.scale_per_page;
    const float factor = problem->a.scale * AF_FN(key_scale)(work);
    const float unit = natural ? 1 : factor * AF_LOG2E;
    bool all_whole = true;
    for (int r = 0; r < work->padded; r++) {
        struct AF_FN(row) *row = &work->rows[r];
        float *s = work->s + r * BLOCK_KEYS;
        const int64_t end = row->end < j + count ? row->end : j + count;
        const bool whole = AF_GUARD(j >= row->first) && AF_GUARD(j + work->keys <= end) &&
                           AF_GUARD(problem->a.mask.data == NULL);
#if AF_F8
        if (by_key)
            AF_FN(scale_scores)(work, s);
#endif
        if (natural)
            AF_FN(modify)(work, row, factor, j, count, s);
        if (!whole)
            AF_FN(hide)(work, row, j, end, unit, s);
        if (natural)
            AF_FN(softmax_row)(by_key, true, work, r, unit, row);
        else if (by_key)
            AF_FN(softmax_row)(true, false, work, r, unit, row);
        else
            AF_FN(softmax_row)(false, false, work, r, unit, row);
        all_whole = all_whole && whole;
    }
    return AF_GUARD(all_whole);
}

#if IN_REGISTERS
/*
 * Widens fp8 values of two keys to `vecs` vectors of pairs, from element `d` on: 64 values of
 * each key at a time or, if `vecs` is 2, one half of them.
 */
AF_INLINE void AF_FN(widen_values)(const int vecs, const vec *table, const uint8_t *even,
                                   const uint8_t *odd, int64_t d, vec *x)
{
    AF_UNROLL
    for (int v = 0; v < vecs; v += 4) {
        const int64_t at = d / 64 * 64 + v * AF_LANES;
        const __m512i a = _mm512_loadu_si512(even + at), b = _mm512_loadu_si512(odd + at);
        if (vecs > 2 || d % 64 == 0)
            af_widen_bytes(table, _mm512_unpacklo_epi8(a, b), x + v);
        if (vecs > 2)
            af_widen_bytes(table, _mm512_unpackhi_epi8(a, b), x + v + 2);
        else if (d % 64 != 0)
            af_widen_bytes(table, _mm512_unpackhi_epi8(a, b), x);
    }
}
#endif

/*
 * Reads `vecs` vectors of values from element `d` on; only `some` elements if `some` is not 0.
 * They are the values of the key `even` or, with AF_PAIRS, pairs of `even` and `odd`.
 * two_words() explains `stored` and `table`.
 */
AF_INLINE void AF_FN(take_values)(const int vecs, const int some, const bool stored,
                                  const vec *table, const void *even, const void *odd,
                                  int64_t d, vec *x)
{
#if IN_REGISTERS
    if (stored) {
        AF_FN(widen_values)(vecs, table, even, odd, d, x);
        return;
    }
#else
    (void)stored, (void)table;
#endif
#if AF_PAIRS
    AF_UNROLL
    for (int v = 0; v < vecs; v += 2) {
        vec a = AF_FN(row_words)(some, even, d + v * AF_LANES);
        vec b = AF_FN(row_words)(some, odd, d + v * AF_LANES);
        x[v] = vec_pair_low(a, b);
        x[v + 1] = vec_pair_high(a, b);
    }
#else
    (void)odd;
    AF_UNROLL
    for (int v = 0; v < vecs; v++)
        x[v] = AF_FN(row_words)(some, even, d + v * AF_LANES);
#endif
}

/* c[rows][vecs] += p v for one key, or two keys with AF_PAIRS, from `key` on. */
AF_INLINE void AF_FN(add_step)(const int rows, const int vecs, const int some,
                               const bool stored, const vec *table, const float *p,
                               const void *const *values, int key, int64_t d, vec (*c)[8])
{
    vec x[8];
    AF_FN(take_values)
    (vecs, some, stored, table, values[key], values[key + AF_PAIRS], d, x);
    AF_UNROLL
    for (int r = 0; r < rows; r++) {
        const vec one = vec_word(p + r * BLOCK_KEYS + key / KEY_STEP);
        AF_UNROLL
        for (int v = 0; v < vecs; v++)
            c[r][v] = vec_mac(one, x[v], c[r][v]);
    }
}

/*
 * o[rows][d ...] += p v for `vecs` vectors of values, or for the last `some` columns. This is
 * one of `passes` passes over the block, 1 or 2, which share the prefetches.
 */
AF_INLINE void AF_FN(add_strip)(const int rows, const int vecs, const int some, int passes,
                                const bool stored, const bool halves,
                                const struct AF_FN(work) *work, int row,
                                const void *const *values, struct AF_FN(fetch) fetch[2],
                                int64_t d)
{
    vec table[4] = {vec_zero()};
    AF_FN(load_table)(stored, work, table);
    const int most = AF_LANES / KEY_STEP, all = FETCH_BYTES / (vecs * STEP_BYTES);
    const int steps = all < 1 ? 1 : all < most ? all : most; /* for a prefetch */
    const float *p = work->s + row * BLOCK_KEYS;
    float *o = work->o + row * work->width + d;
    vec c[8][8];
    AF_UNROLL
    for (int r = 0; r < rows; r++) {
        AF_UNROLL
        for (int v = 0; v < vecs; v++)
            c[r][v] = vec_load(o + r * work->width + v * AF_LANES);
    }
    int step = 0;
    for (int first = 0; first < work->keys; first += steps * KEY_STEP, step++) {
        AF_FN(fetch_some)(halves, passes - 1, step, fetch);
        if (vecs * STEP_BYTES > FETCH_BYTES)
            AF_FN(fetch_some)(halves, passes - 1, step, fetch);
        if (some == 0) {
            AF_UNROLL
            for (int i = 0; i < steps; i++)
                AF_FN(add_step)
            (rows, vecs, 0, stored, table, p, values, first + i * KEY_STEP, d, c);
        } else {
            AF_ROLLED /* at most one strip of a row: not worth the code */
            for (int i = 0; i < steps; i++)
                AF_FN(add_step)
            (rows, vecs, some, stored, table, p, values, first + i * KEY_STEP, d, c);
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
AF_INLINE void AF_FN(add_rows)(const int rows, int passes, const bool stored, const bool halves,
                               const struct AF_FN(work) *work, int row,
                               const void *const *values, struct AF_FN(fetch) fetch[2])
{
    const int vecs = DECODE_SUMS / rows < 8 ? DECODE_SUMS / rows : 8;
    const int64_t dim = work->problem->a.value_dim;
    int64_t d = 0;
    for (; d + vecs * AF_LANES <= dim; d += vecs * AF_LANES)
        AF_FN(add_strip)(rows, vecs, 0, passes, stored, halves, work, row, values, fetch, d);
    for (; vecs > 4 && d + 4 * AF_LANES <= dim; d += 4 * AF_LANES)
        AF_FN(add_strip)(rows, 4, 0, passes, stored, halves, work, row, values, fetch, d);
    for (; vecs > KEY_STEP && d + STEP <= dim; d += STEP)
        AF_FN(add_strip)(rows, KEY_STEP, 0, passes, stored, halves, work, row, values, fetch,
                         d);
    if (d < dim)
        AF_FN(add_strip)
    (rows, KEY_STEP, (int)(dim - d), passes, stored, halves, work, row, values, fetch, d);
}

/* Adds the values of all rows of the task. */
AF_INLINE void AF_FN(add_all)(const bool halves, const struct AF_FN(work) *work, bool stored,
                              const void *const *values, struct AF_FN(fetch) fetch[2])
{
    const int passes = work->padded == 16 ? 2 : 1;
    if (IN_REGISTERS && stored && work->padded == 8)
        AF_FN(add_rows)(8, 1, true, halves, work, 0, values, fetch);
    for (int row = 0; !stored && row + 8 <= work->padded; row += 8)
        AF_FN(add_rows)(8, passes, false, halves, work, row, values, fetch);
    if (IN_REGISTERS && stored && work->padded == 4)
        AF_FN(add_rows)(4, 1, true, halves, work, 0, values, fetch);
    else if (work->padded % 8 == 4)
        AF_FN(add_rows)(4, 1, false, halves, work, work->padded - 4, values, fetch);
    else if (work->padded == 2)
        AF_FN(add_rows)(2, 1, false, halves, work, 0, values, fetch);
    else if (work->padded == 1)
        AF_FN(add_rows)(1, 1, false, halves, work, 0, values, fetch);
}

#define ADD_OF(name, halves)                                                                   \
    static __attribute__((noinline)) void AF_FN(name)(                                         \
        const struct AF_FN(work) *work, bool stored, const void *const *values,                \
        const struct AF_FN(rows) *next_keys, const struct AF_FN(rows) *next_values)            \
    {                                                                                          \
        const struct anyflash_attend_args *a = &work->problem->a;                              \
        struct AF_FN(fetch) fetch[2] = {AF_FN(fetch_of)(work, next_values, a->value_dim),      \
                                        AF_FN(fetch_of)(work, next_keys, a->head_dim)};        \
        AF_FN(add_all)(halves, work, stored, values, fetch);                                   \
    }
ADD_OF(add_any, AF_F8)
#if !AF_F8
ADD_OF(add_short, true)
#endif
#undef ADD_OF

/*
 * Adds the values of a block and meanwhile prefetches the next block: its values for the
 * first time, its keys for the second time.
 */
static void AF_FN(add_block)(const struct AF_FN(work) *work, bool stored,
                             const void *const *values, const struct AF_FN(rows) *next_keys,
                             const struct AF_FN(rows) *next_values)
{
#if !AF_F8
    if (AF_CHOICE(AF_FN(has_short)(work, next_keys, next_values))) {
        AF_FN(add_short)(work, stored, values, next_keys, next_values);
        return;
    }
#endif
    AF_FN(add_any)(work, stored, values, next_keys, next_values);
}
