/*
 * backward_pair_case.h: one backward problem that has a given set of features, in one of a few
 * shapes, which lead to different shortcuts.
 */
#ifndef AF_TEST_BACKWARD_PAIR_CASE_H
#define AF_TEST_BACKWARD_PAIR_CASE_H

#include "backward_plain.h"
#include "visibility_case.h"

enum feature {
    LEFTPAD = VISIBILITIES,
    SEQUSED,
    PACKED,
    SINKS,
    SOFTCAP,
    ALIBI,
    MASK,
    BIAS,
    DROPOUT,
    SCALE,
    GROUP,
    STRIDES,
    NONFINITE,
    DLSE,
    DBIAS,
    DSINKS,
    VALUE_DIM, /* other than the head size */
    O_TYPE,    /* o and dout are f32 */
    FEATURES
};

static const char *const feature_names[FEATURES] = {
    VISIBILITY_NAMES, "leftpad", "seqused", "packed",    "sinks", "softcap", "alibi",
    "mask",           "bias",    "dropout", "scale",     "group", "strides", "nonfinite",
    "dlse",           "dbias",   "dsinks",  "value_dim", "o_type"};

/* The API allows all features in one call. */
static inline bool pair_is_legal(int one, int other)
{
    return one != other;
}

/* The set with what its features need. */
static inline unsigned complete_features(unsigned features)
{
    if (HAS(features, DBIAS))
        features |= BIT(BIAS);
    if (HAS(features, DSINKS))
        features |= BIT(SINKS);
    return features;
}

enum shape {
    SHAPE_KEY,    /* one or two keys */
    SHAPE_FEW,    /* few rows, few keys */
    SHAPE_TILE,   /* a tile or two, a block of keys */
    SHAPE_TILES,  /* more than GROUP_TILES tiles, several blocks */
    SHAPE_CHUNKS, /* a tile, two chunks of keys */
    SHAPE_PASSES, /* more rows than PASS_TILES tiles */
    SHAPE_BLIND,  /* causal, more rows than keys: the first rows see nothing */
    SHAPES
};

static inline int64_t pair_one_of(struct backward_case *c, const int64_t *numbers, size_t count)
{
    return numbers[case_pick(c, 0, (int64_t)count - 1)];
}

static inline void pair_sizes(struct backward_case *c, enum shape shape, unsigned features)
{
    static const int64_t any[] = {16, 32, 64, 9, 33, 40, 72, 130}, small[] = {8, 16, 9, 16};
    const bool is_small =
        shape == SHAPE_TILES || shape == SHAPE_CHUNKS || shape == SHAPE_PASSES;
    const int64_t group = HAS(features, GROUP) ? case_pick(c, 2, 4) : 1;
    const int64_t dim =
        is_small ? pair_one_of(c, small, AF_COUNT(small)) : pair_one_of(c, any, AF_COUNT(any));
    int64_t value = dim;
    while (HAS(features, VALUE_DIM) && value == dim)
        value = is_small ? pair_one_of(c, small, AF_COUNT(small))
                         : pair_one_of(c, any, AF_COUNT(any));
    switch (shape) {
    case SHAPE_KEY:
        case_sizes(c, 2, 2, group, case_pick(c, 1, 60), case_one_in(c, 3) ? 2 : 1, dim, value);
        break;
    case SHAPE_FEW:
        case_sizes(c, 2, 2, group, case_pick(c, 2, 20), case_pick(c, 3, 30), dim, value);
        break;
    case SHAPE_TILE:
        case_sizes(c, 2, case_pick(c, 1, 2), group, case_pick(c, 20, 60), case_pick(c, 40, 95),
                   dim, value);
        break;
    case SHAPE_TILES:
        case_sizes(c, 1, 1, group, case_pick(c, 193, 230) / group, case_pick(c, 200, 300), dim,
                   value);
        break;
    case SHAPE_CHUNKS:
        case_sizes(c, 1, 1, group, case_pick(c, 5, 25), case_pick(c, 800, 860), dim, value);
        break;
    case SHAPE_PASSES:
        case_sizes(c, 1, 1, group, 2064 / group + case_pick(c, 1, 40),
                   case_one_in(c, 3) ? case_pick(c, 97, 120) : case_pick(c, 10, 40), dim,
                   value);
        break;
    case SHAPE_BLIND:
        case_sizes(c, 2, 1, group, case_pick(c, 60, 120), case_pick(c, 20, 50), dim, value);
        break;
    case SHAPES:
        break;
    }
}

/* The smaller of two. */
static inline int64_t pair_least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Lengths of sequences, and left padding: up to 47 keys less at each end. */
static inline void pair_lengths(struct backward_case *c, unsigned features)
{
    struct anyflash_attend_args *a = &c->a;
    c->cu_q[0] = (int32_t)case_pick(c, 0, 3);
    c->cu_k[0] = (int32_t)case_pick(c, 0, 3);
    for (int64_t b = 0; b < a->batch; b++) {
        int64_t rows = a->q_len, keys = a->k_len;
        if (HAS(features, PACKED)) {
            rows -= case_pick(c, 0, a->q_len > 2 ? 2 : 0);
            keys -= case_pick(c, 0, pair_least(20, a->k_len / 2));
        }
        c->cu_q[b + 1] = c->cu_q[b] + (int32_t)rows;
        c->cu_k[b + 1] = c->cu_k[b] + (int32_t)keys;
        c->used_q[b] = (int32_t)(rows - case_pick(c, 0, pair_least(2, rows)));
        if (HAS(features, SEQUSED))
            keys -= case_one_in(c, 8) ? keys : case_pick(c, 0, pair_least(47, keys - 1));
        c->used_k[b] = (int32_t)keys;
        c->leftpad[b] = (int32_t)case_pick(c, 0, pair_least(47, keys));
    }
    if (HAS(features, PACKED)) {
        a->cu_seqlens_q = c->cu_q;
        a->cu_seqlens_k = c->cu_k;
        a->total_q = c->cu_q[a->batch] + case_pick(c, 0, 2);
        a->total_k = c->cu_k[a->batch] + case_pick(c, 0, 2);
    }
    if (HAS(features, SEQUSED)) {
        a->seqused_k = c->used_k;
        a->seqused_q = case_one_in(c, 2) ? c->used_q : NULL;
    }
    a->leftpad_k = HAS(features, LEFTPAD) ? c->leftpad : NULL;
}

static inline void pair_scores(struct backward_case *c, unsigned features)
{
    struct anyflash_attend_args *a = &c->a;
    const bool low_sinks = case_one_in(c, 4);
    for (int64_t h = 0; h < a->heads; h++) {
        c->slopes[h] = case_number(c) * 5.0f / (float)a->k_len;
        c->sinks[h] = case_number(c) - (low_sinks ? 60.0f : 0); /* or weights of 1 remain */
    }
    if (HAS(features, SCALE))
        a->scale = case_one_in(c, 3) ? 0 : case_one_in(c, 2) ? 0.25f : -0.125f;
    a->softcap = HAS(features, SOFTCAP) ? 3.0f : 0;
    a->sinks = HAS(features, SINKS) ? c->sinks : NULL;
    a->alibi_slopes = HAS(features, ALIBI) ? c->slopes : NULL;
    if (HAS(features, DSINKS))
        c->args.dsinks = case_elements(c, ANYFLASH_F32, a->heads);
    if (HAS(features, BIAS))
        a->bias = case_plane(c, case_one_in(c, 2) ? ANYFLASH_F32 : c->dtype);
    if (HAS(features, DBIAS)) {
        c->args.dbias =
            case_tensor(c, ANYFLASH_F32, a->batch, a->heads, a->q_len, a->k_len, true);
        c->args.dbias.batch_stride *= a->bias.batch_stride != 0 || case_one_in(c, 3);
        c->args.dbias.head_stride *= a->bias.head_stride != 0 || case_one_in(c, 3);
        c->args.dbias.row_stride *= a->bias.row_stride != 0 || case_one_in(c, 3);
    }
    if (HAS(features, MASK))
        a->mask = case_plane(c, ANYFLASH_BOOL);
    if (HAS(features, DROPOUT)) {
        a->dropout = 0.25f;
        a->dropout_seed = case_word(c);
    }
}

/*
 * Scores of 0 and sinks of 0: the weight of a single key is then 1/2, that of two keys, too, if
 * there are no sinks; and dropout of 1/2 multiplies it to 1 again.
 */
static inline void pair_halves(struct backward_case *c)
{
    memset(c->a.q.data, 0, c->guards[0].size_bytes);
    memset(c->sinks, 0, sizeof c->sinks);
    c->a.dropout = c->a.dropout > 0 ? 0.5f : 0;
}

/* NaN or infinity in a row at `row`. */
static inline void spoil_row(struct backward_case *c, int32_t dtype, char *row, int64_t dim)
{
    af_convert_store(dtype, row, case_pick(c, 0, dim - 1), case_one_in(c, 2) ? NAN : INFINITY);
}

static inline void spoil_key(struct backward_case *c, const struct af_problem *problem,
                             const struct af_sequence *s, int64_t j)
{
    const struct anyflash_attend_args *a = &problem->a;
    const int64_t room =
        a->cu_seqlens_k == NULL ? a->k_len : a->cu_seqlens_k[s->batch + 1] - s->k_row;
    const int64_t head = case_pick(c, 0, a->kv_heads - 1);
    if (j < 0 || j >= room)
        return;
    if (case_one_in(c, 3))
        spoil_row(c, c->dtype, af_row_of_key(problem, &a->v, s, head, j), a->value_dim);
    else
        spoil_row(c, c->dtype, af_row_of_key(problem, &a->k, s, head, j), a->head_dim);
}

/* A key that the mask hides from all rows. */
static inline void spoil_masked_key(struct backward_case *c, const struct af_problem *problem)
{
    const struct anyflash_attend_args *a = &problem->a;
    const int64_t j = case_pick(c, 0, a->k_len - 1);
    for (int64_t n = 0; n < a->batch * a->heads * a->q_len; n++) {
        const int64_t h = n / a->q_len;
        af_row_of_tensor(&a->mask, 1, h / a->heads, h % a->heads, n % a->q_len)[j] = 0;
    }
    for (int64_t b = 0; b < a->batch; b++) {
        const struct af_sequence s = af_problem_sequence(problem, b);
        spoil_key(c, problem, &s, j);
    }
}

static inline void spoil_dout(struct backward_case *c, const struct af_sequence *s, int64_t h,
                              int64_t i)
{
    struct anyflash_tensor dout = c->args.dout;
    dout.batch_stride *= c->a.cu_seqlens_q == NULL;
    spoil_row(c, dout.dtype, af_row_of_query(&dout, af_dtype_bytes(dout.dtype), s, h, i),
              c->a.value_dim);
}

/* Queries and dout of rows that are not used, or that see nothing and have no sink. */
static inline void spoil_rows(struct backward_case *c, const struct af_problem *problem,
                              const struct af_sequence *s)
{
    for (int64_t n = 0; n < problem->a.heads * s->q_full; n++) {
        const int64_t h = n / s->q_full, i = n % s->q_full;
        const struct af_range range = af_visible_range(problem, s, i);
        if (i < s->q_count && (range.first < range.end || problem->a.sinks != NULL))
            continue;
        spoil_row(c, c->dtype, af_row_of_query(&problem->a.q, problem->element_bytes, s, h, i),
                  c->a.head_dim);
        spoil_dout(c, s, h, i);
    }
}

/*
 * NaN and infinity where no result may depend on them; at times also in dout of a row that sees
 * one key. (Of two keys dO.V may be infinite with different signs, and dO.O with only one.)
 */
static inline void pair_nonfinite(struct backward_case *c)
{
    const struct af_problem problem = case_problem(c);
    if (c->a.mask.data != NULL)
        spoil_masked_key(c, &problem);
    for (int64_t b = 0; b < c->a.batch; b++) {
        const struct af_sequence s = af_problem_sequence(&problem, b);
        const struct af_range first = af_visible_range(&problem, &s, 0);
        const struct af_range last = af_visible_range(&problem, &s, s.q_count - 1);
        spoil_key(c, &problem, &s, last.first - 1);
        spoil_key(c, &problem, &s, first.end);
        spoil_rows(c, &problem, &s);
        if (first.end - first.first == 1 && af_mask_allows(&problem, &s, 0, 0, first.first) &&
            case_one_in(c, 2))
            spoil_dout(c, &s, 0, 0);
    }
}

/* The problem of a pair_number(). */
static inline struct backward_case *pair_case(uint64_t seed)
{
    static const int32_t types[] = {ANYFLASH_F32, ANYFLASH_F16, ANYFLASH_BF16};
    const enum shape shape = (enum shape)pair_shape(seed);
    const unsigned features = pair_features(seed);
    struct backward_case *c = case_new(seed, types[pair_type(seed)]);
    c->gaps = HAS(features, STRIDES);
    c->nan_in_gaps = HAS(features, NONFINITE);
    pair_sizes(c, shape, features);
    visibility_of(&c->a, features, 200, c->offsets, &c->seed);
    if (shape == SHAPE_BLIND) {
        c->a.causal = 1;
        c->a.causal_offsets = NULL;
        c->a.align = ANYFLASH_ALIGN_BOTTOM_RIGHT;
    }
    pair_lengths(c, features);
    case_tensors_of(c, case_one_in(c, 2), HAS(features, O_TYPE) ? ANYFLASH_F32 : c->dtype);
    if (HAS(features, DLSE))
        c->args.dlse = case_lse(c);
    pair_scores(c, features);
    if (shape == SHAPE_KEY && case_one_in(c, 2))
        pair_halves(c);
    if (HAS(features, NONFINITE))
        pair_nonfinite(c);
    return c;
}

#endif
