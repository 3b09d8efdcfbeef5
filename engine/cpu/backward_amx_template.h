/*
 * backward_amx_template.h: the products of a tile by AMX, in place of those of
 * backward_tile_template.h, which includes it.
 *
 *     S^T, dP^T    A: keys or values, in place or copied,   B: packed lanes
 *     dQ^T         A: columns of K,                         B: pairs of dS
 *     dV, dK       A: rows of P or dS,                      B: panels of dO or Q
 *
 * Keys are multiplied 32 at a time, as P and dS are padded.
 *
 * Parameters: TILE_VECS, GRADIENT_VECS, both 2: two columns of tiles.
 */

#define LANE_BYTES (TILE_LANES * (int64_t)sizeof(float)) /* of a row of packed lanes */
#define PANEL_BYTES (PANEL * (int64_t)sizeof(float))

/*
 * Multiplies `count` rows of A by packed lanes: out [count][TILE_LANES], and some
 * rows more up to a multiple of KEY_GROUP.
 */
static void product(const struct span *span, int64_t key, const float *rows, int64_t stride,
                    int64_t count, const float *lanes, int64_t words, float *out)
{
    (void)span;
    (void)key;
    const int64_t bytes = stride * (int64_t)sizeof(float);
    struct af_product all = {rows,  bytes,      16 * bytes,      64,
                             lanes, LANE_BYTES, 16 * LANE_BYTES, words / 16};
    for (int64_t j = 0; j < count; j += KEY_STEP) {
        all.a = rows + j * stride;
        if (count - j > KEY_GROUP)
            af_product_put(2, TILE_VECS, all, out + j * TILE_LANES, LANE_BYTES);
        else
            af_product_put(1, TILE_VECS, all, out + j * TILE_LANES, LANE_BYTES);
    }
}

/* dQ^T of a tile += K^T dS^T over the keys of a span. `ds` is that of its first key. */
static void add_queries(const struct back *work, const struct back_block *block, int64_t tile,
                        const float *ds, const struct span *span)
{
    float *dq = work->dq_lanes + tile * work->dq_rows * TILE_LANES;
    const float *columns = work->key_pairs + span->first / WORD * PAIR_COLUMNS;
    struct af_product all = {columns,
                             64,
                             BLOCK_KEYS / KEY_STEP * 1024,
                             1024,
                             ds,
                             LANE_BYTES,
                             16 * LANE_BYTES,
                             (span->end - span->first + KEY_STEP - 1) / KEY_STEP};
    int64_t d = 0;
    (void)block;
    for (; d + 32 <= work->dq_rows; d += 32) {
        all.a = columns + d * (BLOCK_KEYS / WORD);
        af_product_add(2, TILE_VECS, all, dq + d * TILE_LANES, LANE_BYTES);
    }
    if (d < work->dq_rows) {
        all.a = columns + d * (BLOCK_KEYS / WORD);
        af_product_add(1, TILE_VECS, all, dq + d * TILE_LANES, LANE_BYTES);
    }
}

/*
 * C [16 * groups keys][16 * columns] += weights [keys][rows of the group] times their
 * panel, over the tiles of the group whose bit is in `tiles`.
 */
AF_INLINE void gradient_strip(const int groups, const int columns, const float *weights,
                              unsigned tiles, const float *panel, float *out, int64_t stride)
{
    af_sums_load(groups, columns, out, stride * (int64_t)sizeof(float));
    for (; tiles != 0; tiles >>= 1) {
        if ((tiles & 1) != 0)
            af_sums_add(groups, columns,
                        (struct af_product){weights, 64, 1024, 64, panel, PANEL_BYTES,
                                            16 * PANEL_BYTES, 1});
        weights += BLOCK_KEYS * TILE_WORDS;
        panel += TILE_WORDS * PANEL;
    }
    af_sums_store(groups, columns, out, stride * (int64_t)sizeof(float));
}

/* Adds to one panel of dK or dV for all keys of a block. */
AF_INLINE void gradient_panel(const int columns, const struct span *spans, int64_t count,
                              const float *weights, const float *panel, float *out,
                              int64_t stride)
{
    for (int64_t j = 0; j < count; j += KEY_STEP) {
        const unsigned tiles = tiles_at(spans, j);
        if (tiles != 0 && count - j > KEY_GROUP)
            gradient_strip(2, columns, weights + j * TILE_WORDS, tiles, panel, out + j * stride,
                           stride);
        else if (tiles != 0)
            gradient_strip(1, columns, weights + j * TILE_WORDS, tiles, panel, out + j * stride,
                           stride);
    }
}

/* dK or dV of a block += weights of the group's tiles times their rows. */
static void add_gradient(const struct back *work, int64_t tile, const struct span *spans,
                         int64_t count, const float *weights, const float *panels, float *out,
                         int64_t width)
{
    for (int64_t d = 0; d < width; d += PANEL) {
        const float *panel = panels + (d * work->tiles + tile * PANEL) * TILE_WORDS;
        if (width - d >= PANEL)
            gradient_panel(2, spans, count, weights, panel, out + d, width);
        else
            gradient_panel(1, spans, count, weights, panel, out + d, width);
    }
}

#undef LANE_BYTES
#undef PANEL_BYTES
