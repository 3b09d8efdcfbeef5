/*
 * decode_row_template.h: the common decoding step: one query that sees all keys,
 * which have a constant stride. It processes AF_LANES keys at a time, with the
 * query and o in registers. Second of the three parts of the decode kernel.
 * attend_keys() of decode_template.h handles the remaining keys, and all problems
 * that this file does not.
 *
 * Each key prefetches the key AHEAD_BYTES behind it, and each value likewise:
 * far enough ahead for memory, near enough to stay in the first-level cache.
 *
 * Parameters: AF_FN, AF_ELEMENT, AF_PAIRS, DECODE_SUMS (decode_template.h). Uses
 * the structs of decode_block_template.h. Defines AF_FN(attend_row).
 */

#define AHEAD_BYTES 4096
#define ROW_DIM_MAX (DECODE_SUMS / 2 * AF_LANES) /* half of the accumulators hold o */

/* Prefetches the row `ahead` elements after `row`. */
AF_INLINE void AF_FN(fetch_row)(const AF_ELEMENT *row, int64_t ahead, const int64_t dim)
{
    AF_UNROLL
    for (int64_t d = 0; d < dim; d += 64 / (int64_t)sizeof(AF_ELEMENT))
        __builtin_prefetch(row + ahead + d);
}

/* Computes the scores of AF_LANES keys from `key` on. */
AF_INLINE vec AF_FN(score_lanes)(const int64_t dim, const vec *q, const AF_ELEMENT *key,
                                 int64_t stride, int64_t ahead)
{
    vec parts[QUADS];
    AF_UNROLL
    for (int i = 0; i < QUADS; i++) {
        vec c[4];
        AF_UNROLL
        for (int k = 0; k < 4; k++, key += stride) {
            AF_FN(fetch_row)(key, ahead, dim);
            c[k] = vec_zero();
            AF_UNROLL
            for (int w = 0; w < dim / STEP; w++)
                c[k] = AF_FN(mac)(q[w], AF_FN(words)(key + w * STEP), c[k]);
        }
        parts[i] = vec_sum_quad(c[0], c[1], c[2], c[3]);
    }
    return vec_join_quads(parts);
}

/* o += p v for AF_LANES keys whose values start at `value`. */
AF_INLINE void AF_FN(add_lanes)(const int64_t dim, const float *p, const AF_ELEMENT *value,
                                int64_t stride, int64_t ahead, vec *o)
{
    AF_UNROLL
    for (int key = 0; key < AF_LANES; key += KEY_STEP, value += KEY_STEP * stride) {
        vec x[DECODE_SUMS / 2];
        AF_UNROLL
        for (int k = 0; k < KEY_STEP; k++)
            AF_FN(fetch_row)(value + k * stride, ahead, dim);
        AF_FN(take_values)((int)(dim / AF_LANES), 0, value, value + stride, x);
        const vec one = AF_FN(spread)(p, key);
        AF_UNROLL
        for (int v = 0; v < dim / AF_LANES; v++)
            o[v] = AF_FN(mac)(one, x[v], o[v]);
    }
}

/* Processes keys [j, j + count) of row 0; count is a multiple of AF_LANES. */
AF_INLINE void AF_FN(attend_lanes)(const int64_t dim, const struct AF_FN(work) *work, int64_t j,
                                   int64_t count, struct AF_FN(row) *row)
{
    const struct anyflash_attend_args *a = &work->problem->a;
    const struct af_forward_task *task = work->task;
    const AF_ELEMENT *key = (const AF_ELEMENT *)(const void *)af_row_of_key(
        work->problem, &a->k, &task->sequence, task->kv_head, j);
    const AF_ELEMENT *value = (const AF_ELEMENT *)(const void *)af_row_of_key(
        work->problem, &a->v, &task->sequence, task->kv_head, j);
    const int64_t k_stride = a->k.row_stride, v_stride = a->v.row_stride;
    const int64_t ahead = AHEAD_BYTES / (dim * (int64_t)sizeof(AF_ELEMENT));
    const vec units = vec_set(a->scale * AF_LOG2E);
    float p[AF_LANES] __attribute__((aligned(64)));
    vec q[DECODE_SUMS / 2], o[DECODE_SUMS / 2], l = row->l;
    float m = row->m;
    AF_UNROLL
    for (int w = 0; w < dim / STEP; w++)
        q[w] = vec_load(work->q + w * AF_LANES);
    AF_UNROLL
    for (int v = 0; v < dim / AF_LANES; v++)
        o[v] = vec_load(work->o + v * AF_LANES);
    for (; count > 0; count -= AF_LANES) {
        vec s = vec_mul(AF_FN(score_lanes)(dim, q, key, k_stride, ahead * k_stride), units);
        float top = vec_top(s);
        if (top > m) {
            const vec alpha = vec_set(exp2f(m - top));
            m = top;
            l = vec_mul(l, alpha);
            AF_UNROLL
            for (int v = 0; v < dim / AF_LANES; v++)
                o[v] = vec_mul(o[v], alpha);
        }
        s = vec_exp2(vec_sub(s, vec_set(m)));
        l = vec_add(l, s);
        AF_FN(store_p)(p, 0, s);
        AF_FN(add_lanes)(dim, p, value, v_stride, ahead * v_stride, o);
        key += AF_LANES * k_stride;
        value += AF_LANES * v_stride;
    }
    AF_UNROLL
    for (int v = 0; v < dim / AF_LANES; v++)
        vec_store(work->o + v * AF_LANES, o[v]);
    row->l = l;
    row->m = m;
}

/* Processes as many keys from `first` on as it can; returns the first remaining key. */
static int64_t AF_FN(attend_row)(struct AF_FN(work) *work, int64_t first, int64_t end)
{
    const struct af_problem *problem = work->problem;
    const int64_t dim = problem->a.head_dim;
    const int64_t count = (end - first) / AF_LANES * AF_LANES;
    if (work->padded != 1 || problem->a.value_dim != dim || count <= 0 ||
        (problem->features & (AF_FEATURES_OF_SCORES | AF_FEATURE_PAGED)) != 0)
        return first;
    if (dim == 64 && dim <= ROW_DIM_MAX)
        AF_FN(attend_lanes)(64, work, first, count, &work->rows[0]);
    else if (dim == 128 && dim <= ROW_DIM_MAX)
        AF_FN(attend_lanes)(128, work, first, count, &work->rows[0]);
    else
        return first;
    return first + count;
}

#undef AHEAD_BYTES
#undef ROW_DIM_MAX
