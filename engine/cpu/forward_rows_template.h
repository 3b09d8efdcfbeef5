/*
 * forward_rows_template.h: the input and output of rows: queries packed in the order in
 * which the scores read them, keys and values of a block (in place where possible),
 * results divided, transposed and rounded. Second of the three parts of the forward
 * kernel; forward_template.h has the formula and includes all of them.
 *
 * Parameters: AF_FN, AF_ELEMENT, AF_STORED, AF_F8, AF_DIRECT, AF_PAIRS, AF_AMX,
 * AF_LOAD, AF_LOAD_SOME, TILE_VECS (forward_template.h); with AF_PAIRS also pair_rows() of
 * kernels_avx512bf16.c, or with AF_AMX kernels_amx.c; with AF_F8 widen_f8.h. Uses the structs
 * of forward_tile_template.h. Defines: set_ranges(), start_tile(), take_keys(),
 * take_values(), finish_tile(), each in AF_FN().
 */

/* Numbers the rows: query by query, and within each by the heads of the group. */
static void AF_FN(number_rows)(const struct work *work, const struct tile *tile)
{
    const int64_t group = work->problem->group;
    int64_t query = tile->row / group;
    int64_t head = tile->row % group;
    for (int lane = 0; lane < tile->vecs * AF_LANES; lane++) {
        tile->query[lane] = (int32_t)query;
        tile->head[lane] = (int32_t)(work->task->kv_head * group + head);
        if (lane + 1 >= tile->rows)
            continue;
        head = head + 1 < group ? head + 1 : 0;
        query += head == 0;
    }
}

/* Reads `count` elements at `from` as packed words, zero-padded to `words`. */
static void AF_FN(take_row)(const char *from, int64_t count, float *to, int64_t words)
{
    memset(to, 0, (size_t)words * sizeof *to);
#if AF_DIRECT
    memcpy(to, from, (size_t)count * sizeof(AF_ELEMENT));
#else
    const AF_ELEMENT *row = (const AF_ELEMENT *)(const void *)from;
    int64_t i = 0;
    for (; i + AF_LANES <= count; i += AF_LANES)
        vec_storeu(to + i, AF_LOAD(row + i));
    if (i < count)
        vec_store_some(to + i, AF_LOAD_SOME(row + i, (int)(count - i)), (int)(count - i));
#endif
}

/* Copies a query in the same way. If keys are fp8, its type may not be AF_ELEMENT. */
static void AF_FN(take_query)(const struct work *work, const char *from, float *to)
{
    const struct anyflash_attend_args *a = &work->problem->a;
    if (AF_F8 && !AF_PAIRS && a->q.dtype != ANYFLASH_F16)
        af_row_floats((enum anyflash_dtype)a->q.dtype, from, a->head_dim, to);
    else
        AF_FN(take_row)(from, a->head_dim, to, work->words);
}

/* Finds rows as words in place, or copied to `copies`; 0 beyond the last row. */
static void AF_FN(query_rows)(const struct work *work, const struct tile *tile, int lane,
                              float (*copies)[AF_DIM_MAX], const float **rows)
{
    const int64_t dim = work->problem->a.head_dim;
    for (int i = 0; i < AF_LANES; i++) {
        rows[i] = copies[i];
        if (lane + i >= tile->rows) {
            memset(copies[i], 0, (size_t)work->words * sizeof(float));
            continue;
        }
        const char *row =
            af_row_of_query(&work->problem->a.q, work->problem->element_bytes,
                            &work->task->sequence, tile->head[lane + i], tile->query[lane + i]);
        if (AF_DIRECT && AF_GUARD(dim % DIM_STEP == 0))
            rows[i] = (const float *)(const void *)row;
        else
            AF_FN(take_query)(work, row, copies[i]);
    }
}

/* Transposes words [w, w + count) of LANES rows to `to`, `width` floats per word. */
AF_INLINE void AF_FN(pack_words)(const float *const *rows, int64_t w, int count, vec fold,
                                 float *to, int width)
{
    vec r[AF_LANES];
    AF_UNROLL
    for (int i = 0; i < AF_LANES; i++)
        r[i] = count == AF_LANES ? vec_loadu(rows[i] + w) : vec_load_some(rows[i] + w, count);
    vec_transpose(r);
    AF_UNROLL
    for (int i = 0; i < AF_LANES; i++) {
        if (i < count)
            vec_store(to + i * width, AF_PAIRS ? r[i] : vec_mul(r[i], fold));
    }
}

/* Packs the tile's queries: [words][vecs * LANES]; padding rows are 0. */
static void AF_FN(pack_queries)(const struct work *work, const struct tile *tile)
{
    float copies[AF_LANES][AF_DIM_MAX] __attribute__((aligned(64)));
    const float *rows[AF_LANES];
    const vec fold = vec_set(work->fold);
    const int width = tile->vecs * AF_LANES;
    for (int lane = 0; lane < width; lane += AF_LANES) {
        float *to = tile->q + lane;
        int64_t w = 0;
        AF_FN(query_rows)(work, tile, lane, copies, rows);
        for (; w + AF_LANES <= work->words; w += AF_LANES)
            AF_FN(pack_words)(rows, w, AF_LANES, fold, to + w * width, width);
        if (w < work->words)
            AF_FN(pack_words)(rows, w, (int)(work->words - w), fold, to + w * width, width);
    }
}

/* Sets the ranges of the tile's rows, relative to the task's first key. */
static void AF_FN(set_ranges)(const struct work *work, struct tile *tile)
{
    const struct af_forward_task *task = work->task;
    const struct af_sight sight = af_sight_of(work->problem, &task->sequence);
    const int64_t begin = task->key_begin, count = task->key_end - begin;
    const int last = tile->vecs * AF_LANES - 1;
    for (int lane = 0; lane <= last; lane++) {
        struct af_range seen = af_sight_range(sight, tile->query[lane]);
        int64_t first = af_clamp(seen.first - begin, 0, count);
        tile->lane_first[lane] = (int32_t)first;
        tile->lane_end[lane] = (int32_t)af_clamp(seen.end - begin, first, count);
    }
    /* Neither end ever decreases from row to row. */
    tile->first = tile->lane_first[0];
    tile->end = tile->lane_end[last];
    tile->all_first = tile->lane_first[last];
    tile->all_end = tile->lane_end[0];
    for (int v = 0; v < tile->vecs; v++)
        tile->vec_end[v] = tile->lane_end[v * AF_LANES + AF_LANES - 1];
}

static void AF_FN(start_tile)(const struct work *work, const struct tile *tile)
{
    const int width = tile->vecs * AF_LANES;
    AF_FN(pack_queries)(work, tile);
    memset(tile->o, 0, (size_t)(work->value_rows * width) * sizeof(float));
    memset(tile->l, 0, (size_t)width * sizeof(float));
    for (int v = 0; v < tile->vecs; v++)
        vec_store(tile->m + v * AF_LANES, vec_set(ROW_LOW));
}

/* Whether rows [j, j + count) have one stride: no page ends between them. */
static bool AF_FN(is_strided)(const struct af_problem *problem, int64_t j, int64_t count)
{
    const struct anyflash_attend_args *a = &problem->a;
    return a->block_table == NULL || j / a->page_size == (j + count - 1) / a->page_size;
}

/*
 * Copies key or value `j` of the sequence, which has `count` elements, as words and pads it
 * with zeros to `words`. fp8 numbers are widened and, without AF_PAIRS, multiplied by their
 * scale.
 */
static void AF_FN(take_key)(const struct work *work, const struct anyflash_tensor *tensor,
                            const float *scales, int64_t j, int64_t count, float *to,
                            int64_t words)
{
    const struct af_forward_task *task = work->task;
    const char *from = af_row_of_key(work->problem, tensor, &task->sequence, task->kv_head, j);
#if !AF_F8
    (void)scales;
    AF_FN(take_row)(from, count, to, words);
#elif AF_PAIRS
    (void)scales, (void)words;
    af_widen_bf16(tensor->dtype, (const uint8_t *)from, count, (uint16_t *)(void *)to);
#else
    uint16_t halves[AF_DIM_MAX];
    af_widen_f16(tensor->dtype, (const uint8_t *)from, count, halves);
    AF_FN(take_row)((const char *)halves, count, to, words);
    af_scale(to,
             af_scale_of_key(work->problem, scales, &task->sequence, task->kv_head, j) *
                 AF_F16_UNIT(tensor->dtype),
             count);
#endif
}

/* Finds keys [j, j + count) of the sequence as words, in place if possible. */
static struct block AF_FN(take_keys)(const struct work *work, int64_t j, int64_t count)
{
    const struct af_problem *problem = work->problem;
    const struct anyflash_attend_args *a = &problem->a;
    const struct af_forward_task *task = work->task;
    if (AF_DIRECT && !AF_F8 && AF_GUARD(a->head_dim % DIM_STEP == 0) &&
        AF_GUARD(a->k.row_stride % WORD == 0) && AF_GUARD(count % KEY_GROUP == 0) &&
        AF_GUARD(AF_FN(is_strided)(problem, j, count))) {
        const char *row = af_row_of_key(problem, &a->k, &task->sequence, task->kv_head, j);
        return (struct block){(const float *)(const void *)row, a->k.row_stride / WORD};
    }
    for (int64_t i = 0; i < count; i++)
        AF_FN(take_key)
    (work, &a->k, a->k_scales, j + i, a->head_dim, work->keys + i * work->key_words,
     work->words);
    for (; count % KEY_GROUP != 0; count++)
        memset(work->keys + count * work->key_words, 0, (size_t)work->words * sizeof(float));
    return (struct block){work->keys, work->key_words};
}

/* Value `j` of the sequence, in memory. */
static const char *AF_FN(value_row)(const struct work *work, int64_t j)
{
    return af_row_of_key(work->problem, &work->problem->a.v, &work->task->sequence,
                         work->task->kv_head, j);
}

#if AF_PAIRS
/* Value `j` of the sequence: in memory or, if it is fp8, widened to `wide`. */
static const uint16_t *AF_FN(find_value)(const struct work *work, int64_t j, uint16_t *wide)
{
    const char *row = AF_FN(value_row)(work, j);
#if AF_F8
    const struct anyflash_attend_args *a = &work->problem->a;
    af_widen_bf16(a->v.dtype, (const uint8_t *)row, a->value_dim, wide);
    if (a->scale_per_page) {
        const vec scale = vec_set(af_scale_of_key(
            work->problem, a->v_scales, &work->task->sequence, work->task->kv_head, j));
        for (int64_t d = 0; d < a->value_dim; d += AF_LANES)
            vec_store_bf16(wide + d, vec_mul(vec_load_bf16(wide + d), scale), AF_LANES);
    }
    return wide;
#else
    (void)wide;
    return (const uint16_t *)(const void *)row;
#endif
}
#endif

static struct block AF_FN(take_values)(const struct work *work, int64_t j, int64_t count)
{
    const struct anyflash_attend_args *a = &work->problem->a;
#if AF_AMX
    uint16_t wide[KEY_STEP][AF_F8 ? AF_DIM_MAX : 1] __attribute__((aligned(64)));
    const uint16_t *rows[KEY_STEP];
    for (int64_t i = 0; i < count; i += KEY_STEP) {
        for (int64_t n = 0; n < KEY_STEP; n++)
            rows[n] = i + n < count ? AF_FN(find_value)(work, j + i + n, wide[n]) : NULL;
        for (int64_t d = 0; d < a->value_dim; d += 16)
            af_columns_put(rows, d, a->value_dim - d, work->values + d * COLUMN_WORDS + i * 8);
    }
    return (struct block){work->values, 16};
#elif AF_PAIRS
    uint16_t wide[2][AF_F8 ? AF_DIM_MAX : 1] __attribute__((aligned(64)));
    for (int64_t i = 0; i < count; i += 2) {
        const uint16_t *even = AF_FN(find_value)(work, j + i, wide[0]);
        const uint16_t *odd =
            i + 1 < count ? AF_FN(find_value)(work, j + i + 1, wide[1]) : NULL;
        pair_rows(even, odd, a->value_dim, work->values + i / 2 * 8, COLUMN_WORDS * 8);
    }
    return (struct block){work->values, 8};
#else
    if (AF_DIRECT && AF_GUARD(AF_FN(is_strided)(work->problem, j, count))) {
        const char *row = AF_FN(value_row)(work, j);
        return (struct block){(const float *)(const void *)row, a->v.row_stride};
    }
    for (int64_t i = 0; i < count; i++)
        AF_FN(take_key)
    (work, &a->v, a->v_scales, j + i, a->value_dim, work->values + i * work->value_rows,
     work->value_rows);
    return (struct block){work->values, work->value_rows};
#endif
}

/* Finishes the rows: writes their factors to `factor`, and lse if requested. */
static void AF_FN(close_rows)(const struct work *work, const struct tile *tile, float *factor)
{
    const struct af_forward_task *task = work->task;
    const struct af_problem *problem = work->problem;
    const bool plain = AF_GUARD(problem->a.sinks == NULL) && AF_GUARD(problem->a.lse == NULL);
    for (int lane = 0; lane < tile->vecs * AF_LANES; lane++)
        factor[lane] = tile->l[lane] != 0 ? 1.0f / tile->l[lane] : 0.0f;
    for (int lane = 0; !plain && lane < tile->rows; lane++) {
        float lse;
        factor[lane] =
            af_close_row(problem, tile->head[lane], tile->m[lane], tile->l[lane], &lse);
        float *at = af_lse_at(problem, &task->sequence, tile->head[lane], tile->query[lane]);
        if (at != NULL)
            *at = lse;
    }
}

/* Address of the result of a lane, final or partial. */
static char *AF_FN(result_row)(const struct work *work, const struct tile *tile, int lane)
{
    const struct af_forward_task *task = work->task;
    const struct anyflash_tensor *o = &work->problem->a.o;
    if (task->partial_o != NULL)
        return (char *)(task->partial_o +
                        (tile->row + lane - task->row_begin) * work->problem->a.value_dim);
    return af_row_of_query(o, o->dtype == ANYFLASH_F32 ? 4 : 2, &task->sequence,
                           tile->head[lane], tile->query[lane]);
}

/* Writes elements [d, d + count) of a result row, rounded to `dtype`. */
AF_INLINE void AF_FN(put)(char *row, int32_t dtype, int64_t d, vec x, int count)
{
    if (dtype == ANYFLASH_BF16)
#if AF_PAIRS
        vec_store_some_rounded((uint16_t *)(void *)row + d, x, count);
#else
        vec_store_bf16((uint16_t *)(void *)row + d, x, count);
#endif
    else if (dtype == ANYFLASH_F16)
        vec_store_f16((uint16_t *)(void *)row + d, x, count);
    else if (count == AF_LANES)
        vec_storeu((float *)(void *)row + d, x);
    else
        vec_store_some((float *)(void *)row + d, x, count);
}

/* Transposes LANES rows of o, times their factors, to their outputs. */
static void AF_FN(put_rows)(const struct work *work, const struct tile *tile, int lane,
                            vec factor)
{
    const int64_t width = tile->vecs * AF_LANES;
    const int64_t dim = work->problem->a.value_dim;
    const int32_t dtype =
        work->task->partial_o != NULL ? (int32_t)ANYFLASH_F32 : work->problem->a.o.dtype;
    int rows = tile->rows - lane < AF_LANES ? tile->rows - lane : AF_LANES;
    char *to[AF_LANES];
    for (int i = 0; i < rows; i++)
        to[i] = AF_FN(result_row)(work, tile, lane + i);
    for (int64_t d = 0; d < dim; d += AF_LANES) {
        int count = dim - d < AF_LANES ? (int)(dim - d) : AF_LANES;
        vec r[AF_LANES];
        AF_UNROLL
        for (int i = 0; i < AF_LANES; i++)
            r[i] = vec_mul(vec_load(tile->o + (i < count ? d + i : d) * width + lane), factor);
        vec_transpose(r);
        AF_UNROLL
        for (int i = 0; i < AF_LANES; i++) {
            if (i < rows)
                AF_FN(put)(to[i], dtype, d, r[i], count);
        }
    }
}

static void AF_FN(finish_tile)(const struct work *work, const struct tile *tile)
{
    const struct af_forward_task *task = work->task;
    float factor[TILE_LANES] __attribute__((aligned(64)));
    if (task->partial_o == NULL)
        AF_FN(close_rows)(work, tile, factor);
    for (int lane = 0; lane < tile->rows; lane += AF_LANES)
        AF_FN(put_rows)
    (work, tile, lane,
     vec_mul(vec_set(work->result_scale),
             task->partial_o == NULL ? vec_load(factor + lane) : vec_set(1.0f)));
    for (int lane = 0; task->partial_o != NULL && lane < tile->rows; lane++) {
        float *ml = task->partial_ml + (tile->row + lane - task->row_begin) * 2;
        ml[0] = tile->m[lane];
        ml[1] = tile->l[lane];
    }
}
