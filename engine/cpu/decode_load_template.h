/*
 * decode_load_template.h: the state of a decode task, and the functions that find, prefetch,
 * widen and load the rows of a block of keys or values. First of the four parts of the
 * decode kernel; decode_template.h has the formula and includes all of them.
 *
 * Parameters: AF_FN, AF_ELEMENT, AF_STORED, AF_F8, AF_PAIRS, AF_LOAD, AF_LOAD_SOME,
 * DECODE_SUMS (decode_template.h). Defines constants, the structs row, rows, work and fetch,
 * and the functions select_head(), has_short(), fetch_of(), fetch_some(), find_rows(),
 * key_scale(), find_scales(), ready(), row_words(), two_words() and load_table(). AF_FN() adds
 * a suffix to these names.
 */

#define ROWS_MAX AF_DECODE_ROWS_MAX
#define BLOCK_KEYS 64
#define BLOCK_BYTES 16384
#define SCORE_ROWS (DECODE_SUMS / 4)
#define KEY_STEP (1 + AF_PAIRS) /* keys per step of the values */
#define QUADS (AF_LANES / 4)
#define STEP ((1 + AF_PAIRS) * AF_LANES) /* elements per step of a score */
#define STEP_BYTES (STEP * (int)sizeof(AF_STORED))
#define FETCH_LINES 4 /* prefetched at a time */
#define FETCH_BYTES (FETCH_LINES * 64)
#define FETCHES (AF_F8 ? 1 : 2)          /* fp8 is bound by widening */
#define IN_REGISTERS (AF_F8 && AF_PAIRS) /* fp8 can be widened as it is loaded, 64 at once */
/* A word of a key must fill a lane. */
#define HAS_EIGHTS (AF_LANES == 16 && sizeof(AF_ELEMENT) * (1 + AF_PAIRS) == sizeof(float))
#define ROW_LOW (-0x1.fffffep127f) /* the lowest score that is not hidden */

struct AF_FN(row) {
    int64_t i; /* query */
    int64_t head;
    int64_t first; /* keys that it sees: [first, end) of the sequence */
    int64_t end;
    float m; /* running maximum, units: af_is_natural() */
    vec l;   /* running sum, in parts */
};

/* Pointers to the rows of a block of keys or values in memory. */
struct AF_FN(rows) {
    const void *at[BLOCK_KEYS]; /* of AF_STORED */
    int64_t adjacent;           /* so many at a time mostly lie one after the other */
    bool straight;              /* AF_LANES at a time always do, keys only */
};

struct AF_FN(work) {
    const struct af_forward_task *task;
    const struct af_problem *problem;
    int count;             /* number of rows */
    int padded;            /* computed rows: 1, 2 or a multiple of 4 */
    int block;             /* keys of a block, but for the last one */
    int keys;              /* of the block that is computed: in whole vectors */
    bool by_eights;        /* q is packed for score_eights() */
    int64_t words;         /* of a packed query */
    int64_t width;         /* Dv rounded up to AF_LANES */
    char *heads;           /* [key heads of the task][head_bytes] */
    size_t head_bytes;     /* rows, q and o of a key head */
    float *s;              /* [padded][BLOCK_KEYS] scores, then probabilities */
    const AF_ELEMENT *nil; /* a row of zeros, for missing keys */
#if AF_F8
    AF_ELEMENT *wide; /* [block][wide_row] keys or values, widened to AF_ELEMENT */
    int64_t wide_row;
    const void *wide_rows[BLOCK_KEYS];
    float k_scales[BLOCK_KEYS] __attribute__((aligned(64))); /* find_scales() */
    float v_scales[BLOCK_KEYS] __attribute__((aligned(64)));
#endif

    /* Of the key head that is being computed; select_head() sets them. */
    int64_t kv_head;
    struct AF_FN(row) *rows; /* [padded] */
    float *q;                /* [padded][words] or, if by_eights, as eights_at() says */
    float *o;                /* [padded][width] */
};

/* Makes key head `kv_head` of the task the one that is being computed. */
static void AF_FN(select_head)(struct AF_FN(work) *work, int64_t kv_head)
{
    char *at = work->heads + (size_t)(kv_head - work->task->kv_head) * work->head_bytes;
    work->kv_head = kv_head;
    work->rows = (struct AF_FN(row) *)(void *)at;
    work->q = (float *)(void *)(work->rows + work->padded);
    work->o = work->q + work->padded * work->words;
}

/*
 * The next cache lines of a block to prefetch. They are taken FETCH_LINES at a time, piece by
 * piece: a piece is AF_LANES adjacent rows or, if rows are not adjacent, one row or, if that
 * is short, two rows, half of the lines from each. Prefetches are spread evenly over the
 * arithmetic, because many at once would fill the queue of cache misses, and the arithmetic
 * would have to wait.
 */
struct AF_FN(fetch) {
    const char *at;   /* the next lines */
    const char *last; /* the last lines of the piece */
    int64_t half;     /* bytes from the first half of these lines to the second */
    int64_t step;     /* bytes to the next lines */
    const void *const *row;
    const void *const *last_row;
    int64_t rows;  /* of a piece */
    int64_t bytes; /* of a piece or, if it has two rows, of a row */
};

/* Begins the piece that starts at fetch->row. `halves`: it may have two rows. */
AF_INLINE void AF_FN(start_piece)(const bool halves, struct AF_FN(fetch) *fetch)
{
    fetch->at = (const char *)fetch->row[0];
    fetch->last = fetch->at + fetch->bytes - (halves ? fetch->step : FETCH_BYTES);
    if (halves && fetch->rows == 2)
        fetch->half = (const char *)fetch->row[1] - fetch->at;
}

/* Whether pieces have two rows. */
AF_INLINE bool AF_FN(is_short)(const struct AF_FN(work) *work, const struct AF_FN(rows) *rows,
                               int64_t dim)
{
    return sizeof(AF_ELEMENT) < sizeof(float) && rows->adjacent == 1 &&
           dim * AF_STORED_BYTES(work->problem) < FETCH_BYTES;
}

/* Whether pieces of keys or of values have two rows. */
AF_INLINE bool AF_FN(has_short)(const struct AF_FN(work) *work, const struct AF_FN(rows) *keys,
                                const struct AF_FN(rows) *values)
{
    return AF_FN(is_short)(work, keys, work->problem->a.head_dim) ||
           AF_FN(is_short)(work, values, work->problem->a.value_dim);
}

AF_INLINE struct AF_FN(fetch)
    AF_FN(fetch_of)(const struct AF_FN(work) *work, const struct AF_FN(rows) *rows, int64_t dim)
{
    const int64_t bytes = rows->adjacent * dim * AF_STORED_BYTES(work->problem);
    const bool is_short = AF_FN(is_short)(work, rows, dim);
    struct AF_FN(fetch) fetch = {.half = FETCH_BYTES / 2,
                                 .step = is_short ? FETCH_BYTES / 2 : FETCH_BYTES,
                                 .row = rows->at,
                                 .rows = is_short ? 2 : rows->adjacent,
                                 .bytes = bytes};
    fetch.last_row = rows->at + work->block - fetch.rows;
    AF_FN(start_piece)(true, &fetch);
    return fetch;
}

/* Prefetches the next FETCH_LINES lines; at the end of a piece some of them again. */
AF_INLINE void AF_FN(fetch_lines)(const bool halves, struct AF_FN(fetch) *fetch)
{
    const int64_t half = halves ? fetch->half : FETCH_BYTES / 2;
    const int64_t step = halves ? fetch->step : FETCH_BYTES;
    AF_UNROLL
    for (int i = 0; i < FETCH_LINES / 2; i++)
        __builtin_prefetch(fetch->at + i * 64);
    AF_UNROLL
    for (int i = 0; i < FETCH_LINES / 2; i++)
        __builtin_prefetch(fetch->at + half + i * 64);
    fetch->at += step;
    if (fetch->at <= fetch->last)
        return;
    if (fetch->at < fetch->last + step) {
        fetch->at = fetch->last;
        return;
    }
    fetch->row += fetch->row < fetch->last_row ? fetch->rows : 0;
    AF_FN(start_piece)(halves, fetch);
}

/*
 * Called in each step of the arithmetic. Prefetches the next lines of FETCHES blocks if no bit
 * of `pauses` is set in the position `at`.
 */
AF_INLINE void AF_FN(fetch_some)(const bool halves, int pauses, int at,
                                 struct AF_FN(fetch) fetch[2])
{
    if ((at & pauses) != 0)
        return;
    AF_UNROLL
    for (int b = 0; b < FETCHES; b++)
        AF_FN(fetch_lines)(halves, &fetch[b]);
}

/* Sets rows [key, end) of a block: they start at `row`, `stride` bytes apart. */
static
    __attribute__((noinline)) void AF_FN(put_rows)(const char *row, int64_t stride, int64_t key,
                                                   int64_t end, struct AF_FN(rows) *rows)
{
    for (int64_t i = 0; i < end - key; i++)
        rows->at[key + i] = row + i * stride;
}

/* Whether AF_LANES rows at a time, from the first of a block on, lie one after the other. */
AF_INLINE bool AF_FN(is_adjacent)(const struct anyflash_attend_args *a, int64_t stride,
                                  int64_t dim)
{
    return AF_GUARD(stride == dim) &&
           AF_GUARD(a->block_table == NULL || a->page_size % AF_LANES == 0);
}

/* Finds keys and values [j, j + count) of a key head; the rest are rows of zeros. */
static void AF_FN(find_rows)(const struct AF_FN(work) *work, int64_t kv_head, int64_t j,
                             int64_t count, struct AF_FN(rows) *keys,
                             struct AF_FN(rows) *values)
{
    const struct anyflash_attend_args *a = &work->problem->a;
    const struct af_sequence *sequence = &work->task->sequence;
    const bool paged = a->block_table != NULL;
    const int64_t bytes = AF_STORED_BYTES(work->problem);
    int64_t page = paged ? j / a->page_size : 0;
    int64_t row = paged ? j - page * a->page_size : sequence->k_row + j;
    for (int64_t key = 0, end = count; key < count; key = end, page++, row = 0) {
        int64_t batch = sequence->cache;
        if (paged) {
            batch = a->block_table[sequence->batch * a->block_table_stride + page];
            end = key + a->page_size - row < count ? key + a->page_size - row : count;
        }
        AF_FN(put_rows)(af_row_of_tensor(&a->k, (size_t)bytes, batch, kv_head, row),
                        a->k.row_stride * bytes, key, end, keys);
        AF_FN(put_rows)(af_row_of_tensor(&a->v, (size_t)bytes, batch, kv_head, row),
                        a->v.row_stride * bytes, key, end, values);
    }
    for (int64_t key = count; key < work->block; key++)
        keys->at[key] = values->at[key] = work->nil;
    keys->adjacent = AF_FN(is_adjacent)(a, a->k.row_stride, a->head_dim) ? AF_LANES : 1;
    values->adjacent = AF_FN(is_adjacent)(a, a->v.row_stride, a->value_dim) ? AF_LANES : 1;
    keys->straight = keys->adjacent == AF_LANES && AF_GUARD(count % AF_LANES == 0) &&
                     AF_GUARD(!paged || j % AF_LANES == 0);
}

/* The scale of all keys of the selected head; 1 if it depends on the page. */
AF_INLINE float AF_FN(key_scale)(const struct AF_FN(work) *work)
{
#if AF_F8
    const struct anyflash_attend_args *a = &work->problem->a;
    if (!a->scale_per_page)
        return AF_WIDE_UNIT(a->k.dtype) * af_scale_of_key(work->problem, a->k_scales,
                                                          &work->task->sequence, work->kv_head,
                                                          0);
#endif
    (void)work;
    return 1;
}

#if AF_F8
/*
 * Sets the scales of the block's keys, [j, j + count) and some after them, if they depend on
 * the page. Otherwise that of the keys is a factor of the scores, and that of the values is
 * applied to o.
 */
static void AF_FN(find_scales)(struct AF_FN(work) *work, int64_t j, int64_t count)
{
    const struct af_problem *problem = work->problem;
    const struct anyflash_attend_args *a = &problem->a;
    const struct af_sequence *sequence = &work->task->sequence;
    const float unit = AF_WIDE_UNIT(a->k.dtype);
    for (int64_t key = 0, end; key < work->keys; key = end) {
        const int64_t at = key < count ? j + key : j;
        end = key < count ? af_clamp(key + a->page_size - at % a->page_size, 0, work->keys)
                          : work->keys;
        const float k = af_scale_of_key(problem, a->k_scales, sequence, work->kv_head, at);
        const float v = af_scale_of_key(problem, a->v_scales, sequence, work->kv_head, at);
        for (int64_t n = key; n < end; n++) {
            work->k_scales[n] = k * unit;
            work->v_scales[n] = v * unit;
        }
    }
}
#endif

/* Pointers to the rows of a block as AF_ELEMENT; other types are widened to a buffer. */
static const void **AF_FN(ready)(struct AF_FN(work) *work, struct AF_FN(rows) *rows,
                                 const struct anyflash_tensor *tensor, int64_t dim)
{
#if AF_F8
    if (AF_GUARD(tensor->dtype == (int32_t)AF_WIDE_DTYPE))
        return rows->at;
    for (int key = 0; key < work->keys; key++) {
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

/* Loads a vector of a row, from element `d` on; only `some` elements if `some` is not 0. */
AF_INLINE vec AF_FN(row_words)(const int some, const void *row, int64_t d)
{
    const AF_ELEMENT *p = (const AF_ELEMENT *)row + d;
    return some != 0 ? AF_FN(words_some)(p, some) : AF_FN(words)(p);
}

/*
 * Loads two vectors of a row, from element `d` on. If `stored`, the row still holds fp8
 * numbers, which are looked up in `table`; otherwise it holds AF_ELEMENT.
 */
AF_INLINE void AF_FN(two_words)(const bool stored, const vec *table, const void *row, int64_t d,
                                vec words[2])
{
#if IN_REGISTERS
    if (stored) {
        af_widen_bytes(table, _mm512_loadu_si512((const uint8_t *)row + d), words);
        return;
    }
#else
    (void)stored, (void)table;
#endif
    words[0] = AF_FN(row_words)(0, row, d);
    words[1] = AF_FN(row_words)(0, row, d + STEP);
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
