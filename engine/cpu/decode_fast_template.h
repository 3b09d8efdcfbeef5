/*
 * decode_fast_template.h: two faster paths: raw scores of eight rows at a time, and a single
 * query. Third of the four parts of the decode kernel.
 *
 * Scores of eight rows are for groups of 5 to 8 and of 13 to 16 heads and for keys of 32 words,
 * fp8 also of 64:
 *
 *     c [16 keys][8 rows][2 words] += q [8 rows][2 words] * k [16 keys][2 words], broadcast
 *
 * The rows lie in the lanes, so that only two lanes of a sum remain to be added; score_rows()
 * adds sixteen, which takes as long as the products of 32 words. Each word is broadcast from
 * memory, so loads are the limit, and the keys need one base address: those that do not lie
 * one after the other, or have to be widened, are copied first.
 *
 * One query that sees all keys is the most frequent decode step. AF_LANES keys are processed at
 * a time, which lie in one page or have a constant stride, with the query and o in registers.
 * attend_keys() of decode_template.h handles the remaining keys, and all other problems. While
 * a key or a value is read, the one about AHEAD_BYTES further on is prefetched: far enough
 * ahead for memory, near enough to stay in the first-level cache.
 *
 * Parameters: AF_FN, AF_ELEMENT, AF_STORED, AF_F8, AF_PAIRS, DECODE_SUMS (decode_template.h).
 * Uses decode_load_template.h and decode_block_template.h. Defines suits_eights(), eights_at(),
 * with 16 lanes score_eights(), and with HAS_ROW attend_row().
 */

/*
 * Whether to use score_eights() for this many rows. With bf16 keys of 64 words it is up to 10 %
 * faster when the keys are in a cache, but slower for pages of 16 keys on slow memory.
 */
static bool AF_FN(suits_eights)(int rows, int64_t dim)
{
    return HAS_EIGHTS && rows % 8 == 0 &&
           (dim == 32 * (1 + AF_PAIRS) || (IN_REGISTERS && dim == 64 * (1 + AF_PAIRS)));
}

/* Where words `w` and w + 1 of row `r` are in the packed queries; w is even. */
static int64_t AF_FN(eights_at)(const struct AF_FN(work) *work, int r, int64_t w)
{
    return (r / 8 * work->words + w) * 8 + r % 4 * 4 + r % 8 / 4 * 2;
}

#if AF_LANES == 16
/* Widens or copies AF_LANES keys to `to`, one after the other. */
AF_INLINE void AF_FN(copy_keys)(const int words, const vec *table, const void *const *keys,
                                float *to)
{
    AF_ROLLED
    for (int i = 0; i < AF_LANES; i++, to += words) {
        AF_UNROLL
        for (int w = 0; w < words; w += 2 * AF_LANES) {
            vec both[2];
            AF_FN(two_words)(IN_REGISTERS, table, keys[i], w * (1 + AF_PAIRS), both);
            vec_store(to + w, both[0]);
            vec_store(to + w + AF_LANES, both[1]);
        }
    }
}

/* Computes rows [row, row + 8). fetch_some() explains `pauses`; it is called every 4 words. */
AF_INLINE void AF_FN(score_eight)(const int words, int pauses, const struct AF_FN(work) *work,
                                  int row, const struct AF_FN(rows) *keys,
                                  struct AF_FN(fetch) fetch[2])
{
    const float *q = work->q + row * words;
    float copy[AF_LANES * 64] __attribute__((aligned(64)));
    vec table[4] = {vec_zero()};
    AF_FN(load_table)(IN_REGISTERS, work, table);
    for (int key = 0; key < work->keys; key += AF_LANES) {
        const char *k = (const char *)keys->at[key];
        if (IN_REGISTERS || !AF_GUARD(keys->straight)) {
            AF_FN(copy_keys)(words, table, keys->at + key, copy);
            k = (const char *)copy;
        }
        vec c[AF_LANES];
        AF_UNROLL
        for (int i = 0; i < AF_LANES; i++)
            c[i] = vec_zero();
        AF_ROLLED
        for (int four = 0; four < words; four += 4) {
            AF_FN(fetch_some)(true, pauses, four, fetch);
            AF_UNROLL
            for (int w = four; w < four + 4; w += 2) {
                const vec two = vec_load(q + w * 8);
                AF_UNROLL
                for (int i = 0; i < AF_LANES; i++)
                    c[i] = vec_mac(vec_set_two(k + (i * words + w) * 4), two, c[i]);
            }
        }
        vec_store_eight(c, work->s + row * BLOCK_KEYS + key, BLOCK_KEYS);
    }
}

/* Functions of their own, as in decode_block_template.h. */
#define SCORE_OF(name, words)                                                                  \
    static __attribute__((noinline)) void AF_FN(name)(                                         \
        const struct AF_FN(work) *work, const struct AF_FN(rows) *keys,                        \
        const struct AF_FN(rows) *values, const struct AF_FN(rows) *next_keys)                 \
    {                                                                                          \
        const struct anyflash_attend_args *a = &work->problem->a;                              \
        const int pauses = ((IN_REGISTERS ? 2 : 1) * work->padded / 8 - 1) * 4;                \
        struct AF_FN(fetch) fetch[2] = {AF_FN(fetch_of)(work, next_keys, a->head_dim),         \
                                        AF_FN(fetch_of)(work, values, a->value_dim)};          \
        for (int row = 0; row < work->padded; row += 8)                                        \
            AF_FN(score_eight)(words, pauses, work, row, keys, fetch);                         \
    }
SCORE_OF(score_eights_32, 32)
SCORE_OF(score_eights_64, 64)
#undef SCORE_OF

/* Computes the raw scores of a block, and prefetches as score_block() does. */
static void AF_FN(score_eights)(const struct AF_FN(work) *work, const struct AF_FN(rows) *keys,
                                const struct AF_FN(rows) *values,
                                const struct AF_FN(rows) *next_keys)
{
    if (!IN_REGISTERS || work->words == 32)
        AF_FN(score_eights_32)(work, keys, values, next_keys);
    else
        AF_FN(score_eights_64)(work, keys, values, next_keys);
}
#endif

#if HAS_ROW
#define AHEAD_BYTES 4096
#define ROW_DIM_MAX (DECODE_SUMS / 2 * AF_LANES) /* half of the accumulators hold o */

/*
 * Prefetches the row `ahead` elements after `row`. All but the shortest rows are read one after
 * the other: gcc would mix the loads of two rows, which takes up to a tenth longer.
 */
AF_INLINE void AF_FN(fetch_row)(const AF_STORED *row, int64_t ahead, const int64_t dim)
{
    if (dim > 64 || sizeof(AF_STORED) > 2)
        AF_IN_ORDER();
    AF_UNROLL
    for (int64_t d = 0; d < dim; d += 64 / (int64_t)sizeof(AF_STORED))
        __builtin_prefetch(row + ahead + d);
}

/* Computes the scores of AF_LANES keys from `key` on. */
AF_INLINE vec AF_FN(score_lanes)(const int64_t dim, const vec *table, const vec *q,
                                 const AF_STORED *key, int64_t stride, int64_t ahead)
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
            for (int w = 0; w < dim / STEP; w += 2) {
                vec both[2];
                AF_FN(two_words)(IN_REGISTERS, table, key, w * STEP, both);
                c[k] = vec_mac(q[w], both[0], c[k]);
                c[k] = vec_mac(q[w + 1], both[1], c[k]);
            }
        }
        parts[i] = vec_sum_quad(c[0], c[1], c[2], c[3]);
    }
    return vec_join_quads(parts);
}

/* o += p v for AF_LANES keys whose values start at `value`. */
AF_INLINE void AF_FN(add_lanes)(const int64_t dim, const vec *table, const float *p,
                                const AF_STORED *value, int64_t stride, int64_t ahead, vec *o)
{
    AF_UNROLL
    for (int key = 0; key < AF_LANES; key += KEY_STEP, value += KEY_STEP * stride) {
        vec x[DECODE_SUMS / 2];
        AF_UNROLL
        for (int k = 0; k < KEY_STEP; k++)
            AF_FN(fetch_row)(value + k * stride, ahead, dim);
        AF_FN(take_values)
        ((int)(dim / AF_LANES), 0, IN_REGISTERS, table, value, value + stride, 0, x);
        const vec one = vec_word(p + key / KEY_STEP);
        AF_UNROLL
        for (int v = 0; v < dim / AF_LANES; v++)
            o[v] = vec_mac(one, x[v], o[v]);
    }
}

/* Key or value `j`, and as *ahead_out how many elements behind it the one `ahead` later is. */
AF_INLINE const AF_STORED *AF_FN(find_lanes)(const struct AF_FN(work) *work,
                                             const struct anyflash_tensor *tensor, int64_t j,
                                             int64_t last, int64_t ahead, int64_t *ahead_out)
{
    const struct af_forward_task *task = work->task;
    const AF_STORED *row = (const AF_STORED *)(const void *)af_row_of_key(
        work->problem, tensor, &task->sequence, task->kv_head, j);
    const AF_STORED *later = (const AF_STORED *)(const void *)af_row_of_key(
        work->problem, tensor, &task->sequence, task->kv_head,
        j + ahead < last ? j + ahead : last);
    *ahead_out = later - row;
    return row;
}

/* Processes keys [j, j + count) of row 0; both are multiples of AF_LANES if there are pages. */
AF_INLINE void AF_FN(attend_lanes)(const int64_t dim, const struct AF_FN(work) *work, int64_t j,
                                   int64_t count, struct AF_FN(row) *row)
{
    const struct anyflash_attend_args *a = &work->problem->a;
    const int64_t k_stride = a->k.row_stride, v_stride = a->v.row_stride;
    const int64_t ahead_keys = AHEAD_BYTES / (dim * (int64_t)sizeof(AF_STORED));
    const int64_t ahead = (ahead_keys + AF_LANES - 1) / AF_LANES * AF_LANES;
    const int64_t last = j + count - AF_LANES;
    const float key_scale = AF_F8
                                ? af_scale_of_key(work->problem, a->k_scales,
                                                  &work->task->sequence, work->task->kv_head, j)
                                : 1;
    const vec units = vec_set(a->scale * key_scale * AF_LOG2E);
    vec table[4] = {vec_zero()};
    AF_FN(load_table)(IN_REGISTERS, work, table);
    float p[AF_LANES] __attribute__((aligned(64)));
    vec q[DECODE_SUMS / 2], o[DECODE_SUMS / 2], l = row->l;
    float m = row->m;
    AF_UNROLL
    for (int w = 0; w < dim / STEP; w++)
        q[w] = vec_load(work->q + w * AF_LANES);
    AF_UNROLL
    for (int v = 0; v < dim / AF_LANES; v++)
        o[v] = vec_load(work->o + v * AF_LANES);
    for (; j <= last; j += AF_LANES) {
        int64_t k_ahead, v_ahead;
        const AF_STORED *key = AF_FN(find_lanes)(work, &a->k, j, last, ahead, &k_ahead);
        const AF_STORED *value = AF_FN(find_lanes)(work, &a->v, j, last, ahead, &v_ahead);
        vec s = vec_mul(AF_FN(score_lanes)(dim, table, q, key, k_stride, k_ahead), units);
        if (vec_any_above(s, vec_set(m))) {
            const float top = vec_top(s);
            const vec alpha = vec_set(m > ROW_LOW ? exp2f(m - top) : 0);
            m = top;
            l = vec_mul(l, alpha);
            AF_UNROLL
            for (int v = 0; v < dim / AF_LANES; v++)
                o[v] = vec_mul(o[v], alpha);
        }
        s = vec_exp2(vec_sub(s, vec_set(m)));
        l = vec_add(l, s);
        AF_FN(store_p)(p, 0, s);
        AF_FN(add_lanes)(dim, table, p, value, v_stride, v_ahead, o);
    }
    AF_UNROLL
    for (int v = 0; v < dim / AF_LANES; v++)
        vec_store(work->o + v * AF_LANES, o[v]);
    row->l = l;
    row->m = m;
}

/*
 * Processes as many of the keys [first, end) as it can, in whole groups of AF_LANES
 * from a multiple of AF_LANES on: so pages do not change the order of the sums.
 */
static struct af_range AF_FN(attend_row)(struct AF_FN(work) *work, int64_t first, int64_t end)
{
    const struct anyflash_attend_args *a = &work->problem->a;
    const int64_t dim = a->head_dim;
    const struct af_range none = {first, first};
    const bool paged = a->block_table != NULL;
    struct af_range range = {(first + AF_LANES - 1) / AF_LANES * AF_LANES,
                             end / AF_LANES * AF_LANES};
    const int64_t count = range.end - range.first;
    const bool suits =
        AF_GUARD(work->padded == 1) && AF_GUARD(a->value_dim == dim) && AF_GUARD(count > 0) &&
        AF_GUARD(!paged || a->page_size % AF_LANES == 0) &&
        AF_GUARD(!AF_F8 || !a->scale_per_page) && AF_GUARD(!af_is_natural(work->problem));
    if (suits && AF_CHOICE(dim == 64 && dim <= ROW_DIM_MAX))
        AF_FN(attend_lanes)(64, work, range.first, count, &work->rows[0]);
    else if (suits && AF_CHOICE(dim == 128 && dim <= ROW_DIM_MAX))
        AF_FN(attend_lanes)(128, work, range.first, count, &work->rows[0]);
    else
        return none;
    return range;
}

#undef AHEAD_BYTES
#undef ROW_DIM_MAX
#endif
