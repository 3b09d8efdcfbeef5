/*
 * forward_amx_template.h: the two products of a tile by AMX, in place of those of
 * forward_tile_template.h, which includes it.
 *
 *     S^T[key][row] = K Q^T      A: keys, in place or copied,  B: packed queries
 *     O^T[d][row]  += V^T P^T    A: columns of V, B: pairs of P
 *
 * Rows are multiplied 32 at a time, keys and columns of V, too. Scores of keys
 * from the end of the tile's part on are computed, but not used: the softmax
 * hides them.
 *
 * Parameters: TILE_VECS (1 or 2 vectors are two columns of tiles).
 */

/* Computes and stores the scores of 16 * `groups` keys. */
AF_INLINE void score_groups(const int groups, const int vecs, const struct work *work,
                            const struct tile *tile, struct block keys, float *scores)
{
    const int64_t width_bytes = vecs * AF_LANES * (int64_t)sizeof(float);
    const int64_t key_bytes = keys.stride * (int64_t)sizeof(float);
    const struct af_product all = {keys.data, key_bytes,   16 * key_bytes,   64,
                                   tile->q,   width_bytes, 16 * width_bytes, work->words / 16};
    af_product_put(groups, vecs, all, scores, width_bytes);
}

/* Updates the running maximum with the scores of `count` keys; hides them where `masked`. */
AF_INLINE void review_scores(const int vecs, const bool masked, const struct tile *tile,
                             int64_t key, int64_t count, float *scores, vec *top)
{
    for (int64_t i = 0; i < count; i++) {
        AF_UNROLL
        for (int v = 0; v < vecs; v++) {
            float *at = scores + (i * vecs + v) * AF_LANES;
            vec s = vec_load(at);
            if (masked) {
                s = vec_between(s, (int32_t)(key + i), tile->lane_first + v * AF_LANES,
                                tile->lane_end + v * AF_LANES, vec_set(HIDDEN));
                vec_store(at, s);
            }
            top[v] = vec_max(top[v], s);
        }
    }
}

/* Computes the scores of a block; `masked`: some row does not see some key of it. */
AF_INLINE void score_block(const int vecs, const bool masked, struct work *work,
                           const struct tile *tile, struct block keys, int64_t key,
                           int64_t count, vec *top)
{
    for (int64_t j = 0; j < count; j += KEY_STEP) {
        const int64_t at = key + j, some = count - j < KEY_STEP ? count - j : KEY_STEP;
        float *scores = work->scores + j * vecs * AF_LANES;
        struct block rows = {keys.data + j * keys.stride, keys.stride};
        issue_prefetches(work);
        if (some > KEY_GROUP)
            score_groups(2, vecs, work, tile, rows, scores);
        else
            score_groups(1, vecs, work, tile, rows, scores);
        if (!masked || (at >= tile->all_first && at + some <= tile->all_end))
            review_scores(vecs, false, tile, at, some, scores, top);
        else
            review_scores(vecs, true, tile, at, some, scores, top);
    }
}

/* O^T *= alpha, unless every alpha is 1: then no maximum rose. */
AF_INLINE void rescale(const int vecs, const struct work *work, const struct tile *tile,
                       const float *alpha)
{
    unsigned changed = 0;
    vec factor[TILE_VECS];
    AF_UNROLL
    for (int v = 0; v < vecs; v++) {
        factor[v] = vec_load(alpha + v * AF_LANES);
        changed |= _mm512_cmp_ps_mask(factor[v], vec_set(1.0f), _CMP_NEQ_UQ);
    }
    for (int64_t d = 0; changed != 0 && d < work->value_rows; d++) {
        AF_UNROLL
        for (int v = 0; v < vecs; v++) {
            float *at = tile->o + (d * vecs + v) * AF_LANES;
            vec_store(at, vec_mul(vec_load(at), factor[v]));
        }
    }
}

/* Adds to 16 * `groups` columns of O^T at `o` what keys of the block contribute. */
AF_INLINE void add_columns(const int groups, const int vecs, const struct work *work,
                           const float *columns, int64_t count, float *o)
{
    const int64_t width_bytes = vecs * AF_LANES * (int64_t)sizeof(float);
    const struct af_product all = {columns,
                                   64,
                                   BLOCK_KEYS / KEY_STEP * 1024,
                                   1024,
                                   work->pairs,
                                   width_bytes,
                                   16 * width_bytes,
                                   (count + KEY_STEP - 1) / KEY_STEP};
    af_product_add(groups, vecs, all, o, width_bytes);
}

/* O^T = alpha O^T + V^T P^T. */
AF_INLINE void value_block(const int vecs, const struct work *work, const struct tile *tile,
                           struct block values, int64_t key, int64_t count, const float *alpha)
{
    int64_t d = 0;
    (void)key;
    rescale(vecs, work, tile, alpha);
    for (; d + 32 <= work->value_rows; d += 32)
        add_columns(2, vecs, work, values.data + d * COLUMN_WORDS, count,
                    tile->o + d * vecs * AF_LANES);
    if (d < work->value_rows)
        add_columns(1, vecs, work, values.data + d * COLUMN_WORDS, count,
                    tile->o + d * vecs * AF_LANES);
}
