/*
 * backward_rows_template.h: the input and output of rows: queries and dO packed in both
 * layouts, keys and values of a block, gradients rounded and written. Second of the three
 * parts of the backward kernel; backward_template.h has the formulas and includes all of
 * them.
 *
 * Parameters: AF_FN, AF_ELEMENT, AF_DIRECT, AF_PAIRS, AF_AMX, AF_LOAD, AF_LOAD_SOME,
 * AF_STORE, TILE_VECS, GRADIENT_VECS (backward_template.h). Uses the structs of
 * backward_tile_template.h. Defines: set_ranges(), pack_tile(), take_block(), put_tile(),
 * put_keys(), each in AF_FN().
 */

/* Reads `count` elements at `from` as floats, then zeros up to a multiple of AF_LANES. */
static void AF_FN(floats_of)(int32_t dtype, const char *from, int64_t count, float *to)
{
    const AF_ELEMENT *elements = (const AF_ELEMENT *)(const void *)from;
    int64_t i = 0;
    if (sizeof(AF_ELEMENT) != sizeof *to && dtype == ANYFLASH_F32) {
        memcpy(to, from, (size_t)count * sizeof *to);
        for (i = count; i % AF_LANES != 0; i++)
            to[i] = 0;
        return;
    }
    for (; i + AF_LANES <= count; i += AF_LANES)
        vec_store(to + i, AF_LOAD(elements + i));
    if (i < count) {
        vec_store(to + i, AF_LOAD_SOME(elements + i, (int)(count - i)));
        i += AF_LANES;
    }
    if (i % AF_LANES != 0)
        vec_store(to + i, vec_zero());
}

/* Writes `count` floats times `factor`, rounded to elements. */
static void AF_FN(put_row)(const float *from, float factor, int64_t count, void *to)
{
    AF_ELEMENT *elements = (AF_ELEMENT *)to;
    for (int64_t i = 0; i < count; i += AF_LANES) {
        int some = count - i < AF_LANES ? (int)(count - i) : AF_LANES;
        AF_STORE(elements + i, vec_mul(vec_load(from + i), vec_set(factor)), some);
    }
}

/*
 * Numbers the rows of the pass and sets what each sees; padding rows see nothing. Returns
 * whether any row sees a key.
 */
static bool AF_FN(set_ranges)(const struct back *work)
{
    const struct af_backward_task *task = work->task;
    const int64_t group = work->problem->group;
    const int64_t count = task->key_end - task->key_begin;
    bool any = false;
    for (int64_t r = 0; r < work->tiles * TILE_LANES; r++) {
        int64_t row = work->row + r;
        work->first[r] = work->end[r] = 0;
        work->lse[r] = work->delta[r] = 0;
        work->single[r] = false;
        work->query[r] = (int32_t)(row / group);
        work->head[r] = (int32_t)(task->kv_head * group + row % group);
        if (row >= task->rows)
            continue;
        struct af_range seen = af_visible_range(work->problem, &task->sequence, work->query[r]);
        int64_t first = af_clamp(seen.first - task->key_begin, 0, count);
        work->first[r] = (int32_t)first;
        work->end[r] = (int32_t)af_clamp(seen.end - task->key_begin, first, count);
        any = any || work->first[r] < work->end[r];
    }
    return any;
}

/*
 * The product of a row of o and one of dO, of `count` elements, or of floats if `dtype` says
 * so. Pairs then hold dO rounded to bf16, and it is the same numbers here: dP - delta is small
 * where one key has most of the weight.
 */
static float AF_FN(dot)(int32_t dtype, const char *a, const char *b, int64_t count)
{
    const AF_ELEMENT *x = (const AF_ELEMENT *)(const void *)a;
    const AF_ELEMENT *y = (const AF_ELEMENT *)(const void *)b;
    vec sum = vec_zero();
    int64_t d = 0;
    if (sizeof(AF_ELEMENT) != sizeof(float) && dtype == ANYFLASH_F32) {
        const float *f = (const float *)(const void *)a, *g = (const float *)(const void *)b;
        float rounded = 0;
        for (; AF_PAIRS && d < count; d++)
            rounded += f[d] * af_f32_of_bf16(af_bf16_of_f32(g[d]));
        if (AF_PAIRS)
            return rounded;
        for (; d + AF_LANES <= count; d += AF_LANES)
            sum = vec_fma(vec_loadu(f + d), vec_loadu(g + d), sum);
        if (d < count)
            sum = vec_fma(vec_load_some(f + d, (int)(count - d)),
                          vec_load_some(g + d, (int)(count - d)), sum);
        return vec_sum(sum);
    }
    for (; d + AF_LANES <= count; d += AF_LANES)
        sum = vec_fma(AF_LOAD(x + d), AF_LOAD(y + d), sum);
    if (d < count)
        sum = vec_fma(AF_LOAD_SOME(x + d, (int)(count - d)),
                      AF_LOAD_SOME(y + d, (int)(count - d)), sum);
    return vec_sum(sum);
}

/* The row of q, o, dq or dout that is row `r` of the pass. */
static char *AF_FN(row_at)(const struct back *work, const struct anyflash_tensor *tensor,
                           int64_t r)
{
    return af_row_of_query(tensor, af_dtype_bytes(tensor->dtype), &work->task->sequence,
                           work->head[r], work->query[r]);
}

/* Prefetches a row into the L2 cache. */
static void AF_FN(prefetch)(const char *row, int64_t bytes)
{
    for (int64_t at = 0; at < bytes; at += LINE_BYTES)
        __builtin_prefetch(row + at, 0, 2);
}

/* Prefetches the row that is read one group of tiles after row `r`. */
static void AF_FN(prefetch_row)(const struct back *work, const struct anyflash_tensor *tensor,
                                int64_t r, int64_t dim)
{
    r += GROUP_TILES * TILE_LANES;
    if (r < work->tiles * TILE_LANES && work->row + r < work->task->rows)
        AF_FN(prefetch)
    (AF_FN(row_at)(work, tensor, r), dim * (int64_t)af_dtype_bytes(tensor->dtype));
}

/*
 * Whether row `r` sees one key, whose value is o: then dO.V and dO.O are the same sum, but each
 * is rounded in its own way. In a problem of one key the difference would be all of dq and dk,
 * which are 0. With a sink the weight of the key is less than 1, and dropout may multiply it to
 * 1 again: then dq and dk are not 0.
 */
static bool AF_FN(sees_one_key)(const struct back *work, int64_t r)
{
    const struct anyflash_attend_args *a = &work->problem->a;
    const struct af_sequence *sequence = &work->task->sequence;
    const struct af_range seen = af_visible_range(work->problem, sequence, work->query[r]);
    float o[AF_DIM_MAX], v[AF_DIM_MAX];
    if (!AF_GUARD(seen.end - seen.first == 1) || !AF_GUARD(isfinite(work->delta[r])) ||
        !AF_GUARD(a->sinks == NULL || !(a->dropout > 0)))
        return false;
    af_row_floats((enum anyflash_dtype)a->o.dtype, AF_FN(row_at)(work, &a->o, r), a->value_dim,
                  o);
    af_row_floats(
        (enum anyflash_dtype)a->v.dtype,
        af_row_of_key(work->problem, &a->v, sequence, work->task->kv_head, seen.first),
        a->value_dim, v);
    return AF_GUARD(memcmp(o, v, (size_t)a->value_dim * sizeof *o) == 0);
}

/* Computes delta, and lse in its units; disables a row that saw nothing. */
static void AF_FN(close_row)(const struct back *work, int64_t r, const char *dout)
{
    const struct anyflash_tensor *o = &work->problem->a.o;
    const int64_t dim = work->problem->a.value_dim;
    const float *lse =
        af_lse_at(work->problem, &work->task->sequence, work->head[r], work->query[r]);
    AF_FN(prefetch_row)(work, o, r, dim);
    work->delta[r] = AF_FN(dot)(o->dtype, AF_FN(row_at)(work, o, r), dout, dim);
    work->single[r] = AF_FN(sees_one_key)(work, r);
    if (work->single[r])
        work->delta[r] = 0;
    if (work->backward->dlse != NULL)
        work->delta[r] -= work->backward->dlse[lse - work->problem->a.lse];
    work->lse[r] = *lse * (work->featured ? 1.0f : AF_LOG2E);
    if (*lse == -INFINITY) {
        work->lse[r] = 0;
        work->end[r] = work->first[r];
    }
}

/* Transposes a tile's rows of words [TILE_LANES][width] to lanes [words][TILE_LANES]. */
static void AF_FN(to_lanes)(const float *rows, int64_t width, int64_t words, float *lanes)
{
    for (int lane = 0; lane < TILE_LANES; lane += AF_LANES) {
        for (int64_t w = 0; w < words; w += AF_LANES) {
            int count = words - w < AF_LANES ? (int)(words - w) : AF_LANES;
            vec r[AF_LANES];
            for (int i = 0; i < AF_LANES; i++)
                r[i] = vec_loadu(rows + (lane + i) * width + w);
            vec_transpose(r);
            for (int i = 0; i < count; i++)
                vec_store(lanes + (w + i) * TILE_LANES + lane, r[i]);
        }
    }
}

/* Interleaves elements [begin, end) of two rows. */
static void AF_FN(pair_rows)(const float *even, const float *odd, int64_t begin, int64_t end,
                             float *to)
{
    const char *a = (const char *)even, *b = (const char *)odd;
    char *pairs = (char *)to;
    for (int64_t d = begin; d < end; d++) {
        uint16_t low, high;
        memcpy(&low, a + d * 2, sizeof low);
        memcpy(&high, b + d * 2, sizeof high);
        uint32_t pair = (uint32_t)low | (uint32_t)high << 16;
        memcpy(pairs + (d - begin) * 4, &pair, sizeof pair);
    }
}

/* Copies the rows of a tile into the panels; with AF_PAIRS a word holds a pair of rows. */
static void AF_FN(to_panels)(const struct back *work, int64_t tile, const float *rows,
                             int64_t width, float *panels)
{
    for (int64_t d = 0; d < width; d += PANEL) {
        int64_t end = width - d < PANEL ? width : d + PANEL;
        float *to = panels + (d * work->tiles + tile * PANEL) * TILE_WORDS;
        for (int64_t r = 0; r < TILE_WORDS; r++, to += PANEL) {
            if (AF_PAIRS)
                AF_FN(pair_rows)
            (rows + 2 * r * width, rows + (2 * r + 1) * width, d, end, to);
            for (int64_t at = d; !AF_PAIRS && at < end; at += AF_LANES)
                vec_store(to + at - d, vec_load(rows + r * width + at));
        }
    }
}

/* Converts a row of `count` floats to words at `to`, padded with zeros. */
static void AF_FN(words_of)(const float *line, int64_t count, float *to)
{
#if AF_PAIRS
    AF_FN(put_row)(line, 1.0f, count, to);
#else
    for (int64_t i = 0; i < count; i += AF_LANES)
        vec_store(to + i, vec_load(line + i));
#endif
}

/* Reads a tile's rows of q or dout into `stage` as words; true if all are finite. */
static bool AF_FN(stage_rows)(const struct back *work, int64_t tile,
                              const struct anyflash_tensor *tensor, int64_t dim, int64_t width)
{
    float line[LINE_MAX] __attribute__((aligned(64)));
    const size_t bytes = (size_t)dim * af_dtype_bytes(tensor->dtype);
    const bool direct =
        AF_DIRECT && AF_GUARD(af_dtype_bytes(tensor->dtype) == sizeof(AF_ELEMENT));
    const int64_t first = tile * TILE_LANES;
    const int64_t rows = af_clamp(work->task->rows - work->row - first, 0, TILE_LANES);
    vec sums[4] = {vec_zero(), vec_zero(), vec_zero(), vec_zero()};
    if (!AF_GUARD(rows == TILE_LANES) || !AF_GUARD(dim % AF_LANES == 0 && dim % DIM_STEP == 0))
        memset(work->stage, 0, (size_t)(TILE_LANES * width) * sizeof *work->stage);
    for (int64_t lane = 0; lane < rows; lane++) {
        const char *row = AF_FN(row_at)(work, tensor, first + lane);
        AF_FN(prefetch_row)(work, tensor, first + lane, dim);
        if (direct) {
            AF_FN(sum_zeros)((const AF_ELEMENT *)(const void *)row, dim, sums);
            memcpy(work->stage + lane * width, row, bytes);
        } else {
            AF_FN(floats_of)(tensor->dtype, row, dim, line);
            for (int64_t d = 0; d < width; d += AF_LANES)
                sums[0] = vec_fma(vec_load(line + d), vec_zero(), sums[0]);
            AF_FN(words_of)(line, dim, work->stage + lane * width);
        }
        if (tensor == &work->backward->dout)
            AF_FN(close_row)(work, first + lane, row);
    }
    return AF_FN(is_finite)(sums);
}

static void AF_FN(set_view)(const struct back *work, int64_t tile)
{
    struct view view = {INT32_MAX, 0, 0, INT32_MAX, {0}, true};
    for (int64_t lane = 0; lane < TILE_LANES; lane++) {
        int32_t first = work->first[tile * TILE_LANES + lane];
        int32_t end = work->end[tile * TILE_LANES + lane];
        if (first < end) {
            view.first = first < view.first ? first : view.first;
            view.end = end > view.end ? end : view.end;
        }
        view.all_first = first > view.all_first ? first : view.all_first;
        view.all_end = end < view.all_end ? end : view.all_end;
        view.ends[lane / AF_LANES] = view.end;
    }
    work->views[tile] = view;
}

/* Packs queries and dO of a tile in both layouts, and clears its dq. */
static void AF_FN(pack_tile)(const struct back *work, int64_t tile)
{
    const struct anyflash_attend_args *a = &work->problem->a;
    bool finite = AF_FN(stage_rows)(work, tile, &a->q, a->head_dim, work->qk_width);
    AF_FN(to_lanes)
    (work->stage, work->qk_width, work->qk_words,
     work->q_lanes + tile * work->qk_words * TILE_LANES);
    AF_FN(to_panels)(work, tile, work->stage, work->qk_width, work->q_panels);
    finite &= AF_FN(stage_rows)(work, tile, &work->backward->dout, a->value_dim, work->v_width);
    AF_FN(to_panels)(work, tile, work->stage, work->v_width, work->do_panels);
    for (int64_t lane = 0; lane < TILE_LANES; lane++) {
        if (work->single[tile * TILE_LANES + lane]) /* then dP is 0, as delta is */
            memset(work->stage + lane * work->v_width, 0,
                   (size_t)work->v_width * sizeof *work->stage);
    }
    AF_FN(to_lanes)
    (work->stage, work->v_width, work->v_words,
     work->do_lanes + tile * work->v_words * TILE_LANES);
    AF_FN(set_view)(work, tile);
    work->views[tile].finite = finite;
    memset(work->dq_lanes + tile * work->dq_rows * TILE_LANES, 0,
           (size_t)(work->dq_rows * TILE_LANES) * sizeof *work->dq_lanes);
}

/*
 * Whether `count` rows of a tensor are read as words in place. Rows that are not contiguous
 * could be, too, but if they lie a power of two apart, the L1 cache holds only a few of them.
 */
static bool AF_FN(in_place)(const struct anyflash_tensor *tensor, int64_t dim, int64_t count)
{
    return AF_DIRECT && AF_GUARD(dim % DIM_STEP == 0) && AF_CHOICE(tensor->row_stride == dim) &&
           AF_GUARD(count % KEY_GROUP == 0);
}

/* Finds rows [j, j + count) of k or v as words: in place, or copied to `copies`. */
static const float *AF_FN(take_words)(const struct back *work,
                                      const struct anyflash_tensor *tensor, int64_t dim,
                                      int64_t j, int64_t count, float *copies, int64_t *stride)
{
    const struct af_backward_task *task = work->task;
    const int64_t width = *stride; /* of a copied row */
    float line[LINE_MAX] __attribute__((aligned(64)));
    const char *row = af_row_of_key(work->problem, tensor, &task->sequence, task->kv_head,
                                    task->key_begin + j);
    if (AF_FN(in_place)(tensor, dim, count)) {
        *stride = tensor->row_stride / WORD;
        return (const float *)(const void *)row;
    }
    for (int64_t i = 0; i < count; i++) {
        if (dim % DIM_STEP != 0)
            memset(copies + i * width, 0, (size_t)width * sizeof *copies);
        if (AF_DIRECT)
            memcpy(copies + i * width, row, (size_t)dim * sizeof(AF_ELEMENT));
        else {
            AF_FN(floats_of)(tensor->dtype, row, dim, line);
            AF_FN(words_of)(line, dim, copies + i * width);
        }
        row += tensor->row_stride * (int64_t)sizeof(AF_ELEMENT);
    }
    for (; count % KEY_GROUP != 0; count++)
        memset(copies + count * width, 0, (size_t)width * sizeof *copies);
    return copies;
}

#if AF_AMX
/* Copies the columns of the keys; those of keys beyond the block are 0. */
static void AF_FN(pair_keys)(const struct back *work, const struct back_block *block)
{
    const struct anyflash_attend_args *a = &work->problem->a;
    const int64_t dim = a->head_dim, key = work->task->key_begin + block->key;
    const uint16_t *rows[KEY_STEP];
    for (int64_t j = 0; j < block->count; j += KEY_STEP) {
        for (int64_t i = 0; i < KEY_STEP; i++)
            rows[i] = j + i < block->count ? (const uint16_t *)(const void *)af_row_of_key(
                                                 work->problem, &a->k, &work->task->sequence,
                                                 work->task->kv_head, key + j + i)
                                           : NULL;
        for (int64_t d = 0; d < dim; d += PAIR_COLUMNS)
            af_columns_put(rows, d, dim - d,
                           work->key_pairs + d * (BLOCK_KEYS / 2) + j / 2 * PAIR_COLUMNS);
    }
}

#else
/* Interleaves adjacent keys in pairs; an odd last one is paired with zeros. */
static void AF_FN(pair_keys)(const struct back *work, const struct back_block *block)
{
    static const float zeros[AF_DIM_MAX / 2 + 1];
    const int64_t dim = work->problem->a.head_dim;
    for (int64_t j = 0; j < block->count; j += 2) {
        const float *even = block->k + j * block->k_stride;
        const float *odd = j + 1 < block->count ? even + block->k_stride : zeros;
        for (int64_t d = 0; d < dim; d += PAIR_COLUMNS)
            AF_FN(pair_rows)
        (even, odd, d, dim - d < PAIR_COLUMNS ? dim : d + PAIR_COLUMNS,
         work->key_pairs + d * (BLOCK_KEYS / 2) + j / 2 * PAIR_COLUMNS);
    }
}
#endif

static bool AF_FN(keys_finite)(const struct back *work, int64_t j, int64_t count)
{
    const struct anyflash_tensor *k = &work->problem->a.k;
    const struct af_backward_task *task = work->task;
    vec sums[4] = {vec_zero(), vec_zero(), vec_zero(), vec_zero()};
    for (int64_t i = 0; i < count; i++)
        AF_FN(sum_zeros)
    ((const AF_ELEMENT *)(const void *)af_row_of_key(work->problem, k, &task->sequence,
                                                     task->kv_head, task->key_begin + j + i),
     work->problem->a.head_dim, sums);
    return AF_FN(is_finite)(sums);
}

static struct back_block AF_FN(take_block)(const struct back *work, int64_t key, int64_t count)
{
    const struct anyflash_attend_args *a = &work->problem->a;
    struct back_block block = {.key = key, .count = count};
    block.k_stride = work->qk_width;
    block.v_stride = work->v_width;
    block.k =
        AF_FN(take_words)(work, &a->k, a->head_dim, key, count, work->keys, &block.k_stride);
    block.v =
        AF_FN(take_words)(work, &a->v, a->value_dim, key, count, work->values, &block.v_stride);
    block.finite = AF_FN(keys_finite)(work, key, count);
    if (AF_PAIRS)
        AF_FN(pair_keys)(work, &block);
    return block;
}

/* Transposes lanes [count][TILE_LANES] back to the rows of `stage`, times `factor`. */
static void AF_FN(from_lanes)(const struct back *work, const float *lanes, int64_t dim,
                              float factor)
{
    for (int lane = 0; lane < TILE_LANES; lane += AF_LANES) {
        for (int64_t d = 0; d < dim; d += AF_LANES) {
            vec r[AF_LANES];
            for (int i = 0; i < AF_LANES; i++)
                r[i] = d + i < dim ? vec_mul(vec_load(lanes + (d + i) * TILE_LANES + lane),
                                             vec_set(factor))
                                   : vec_zero();
            vec_transpose(r);
            for (int i = 0; i < AF_LANES; i++)
                vec_store(work->stage + (lane + i) * work->qk_width + d, r[i]);
        }
    }
}

/* Writes dq of a tile, final or partial. */
static void AF_FN(put_tile)(const struct back *work, int64_t tile)
{
    const struct af_backward_task *task = work->task;
    const struct anyflash_tensor *dq = &work->backward->dq;
    const int64_t dim = work->problem->a.head_dim;
    const float factor = task->partial_dq != NULL ? 1.0f : work->problem->a.scale;
    const int64_t first = tile * TILE_LANES;
    const int64_t rows = af_clamp(task->rows - work->row - first, 0, TILE_LANES);
    if (dq->data == NULL)
        return;
    for (int64_t r = first; task->partial_dq == NULL && r < first + rows; r++)
        AF_FN(prefetch)
    (AF_FN(row_at)(work, dq, r), dim * (int64_t)sizeof(AF_ELEMENT));
    AF_FN(from_lanes)
    (work, work->dq_lanes + tile * work->dq_rows * TILE_LANES, dim, factor);
    for (int64_t lane = 0; lane < rows; lane++) {
        const float *line = work->stage + lane * work->qk_width;
        if (task->partial_dq != NULL)
            memcpy(task->partial_dq + (work->row + first + lane) * dim, line,
                   (size_t)dim * sizeof *line);
        else
            AF_FN(put_row)(line, 1.0f, dim, AF_FN(row_at)(work, dq, first + lane));
    }
}

/* Writes dk or dv of `count` keys of the task from `key` on, times `factor`. */
static void AF_FN(put_keys)(const struct back *work, const struct anyflash_tensor *to,
                            const float *sums, int64_t width, int64_t dim, float factor,
                            int64_t key, int64_t count)
{
    const struct af_backward_task *task = work->task;
    for (int64_t j = key; to->data != NULL && j < key + count; j++) {
        char *row = af_row_of_key(work->problem, to, &task->sequence, task->kv_head,
                                  task->key_begin + j);
        if (j + PUT_AHEAD < key + count)
            AF_FN(prefetch)
        (row + PUT_AHEAD * to->row_stride * (int64_t)sizeof(AF_ELEMENT),
         dim * (int64_t)sizeof(AF_ELEMENT));
        AF_FN(put_row)(sums + j * width, factor, dim, row);
    }
}
