/*
 * pair_case.h: one forward problem that has a given set of features, in one of a few shapes.
 * Each shape leads to shortcuts of its own; which keys a row sees begins and ends at any of 48
 * places, so that pieces of blocks and groups of keys of all sizes occur.
 */
#ifndef AF_TEST_PAIR_CASE_H
#define AF_TEST_PAIR_CASE_H

#include "forward_case.h"
#include "visibility_case.h"

enum feature {
    LEFTPAD = VISIBILITIES,
    SEQUSED,
    PACKED,
    PAGES,
    CACHE,
    APPEND,
    ROTARY,
    SINKS,
    SOFTCAP,
    ALIBI,
    MASK,
    BIAS,
    DROPOUT,
    FP8,
    SCALE,
    GROUP,
    STRIDES,
    NONFINITE,
    FEATURES
};

static const char *const feature_names[FEATURES] = {
    VISIBILITY_NAMES, "leftpad", "seqused",  "packed", "pages", "cache",   "append", "rotary",
    "sinks",          "softcap", "alibi",    "mask",   "bias",  "dropout", "fp8",    "scale",
    "group",          "strides", "nonfinite"};

/* Whether the API allows two features in one call. */
static inline bool pair_is_legal(int one, int other)
{
    const unsigned pair = BIT(one) | BIT(other);
    return pair != (BIT(DROPOUT) | BIT(FP8)) && pair != (BIT(PAGES) | BIT(CACHE));
}

/* The set with what its features need. */
static inline unsigned complete_features(unsigned features)
{
    if (HAS(features, ROTARY))
        features |= BIT(APPEND);
    if (HAS(features, APPEND))
        features |= BIT(SEQUSED);
    return features;
}

enum shape {
    SHAPE_ROW,        /* a query, 64 or 128 elements: attend_row() */
    SHAPE_ODD_ROW,    /* a query, other sizes */
    SHAPE_ROWS,       /* 2 to 16 rows */
    SHAPE_EIGHTS,     /* 8 or 16 query heads for a key head */
    SHAPE_HEADS,      /* rows of several key heads in one task */
    SHAPE_LONG_ROWS,  /* a few rows, whose keys are split */
    SHAPE_TILE,       /* one tile of queries */
    SHAPE_TILES,      /* several tasks of a head, several blocks of keys */
    SHAPE_MANY_TILES, /* several tiles in a task */
    SHAPE_LONG_TILE,  /* a tile, whose keys are split */
    SHAPES
};

/* Fewest keys that are split for a row of 2 x 128 elements of this many bytes. */
static inline int64_t keys_to_split(const struct forward_case *c)
{
    const int64_t bytes = (int64_t)af_dtype_bytes(c->key_dtype);
    return 2 * ((int64_t)512 << 10) / (2 * 128 * bytes) + 1;
}

static inline void pair_sizes(struct forward_case *c, enum shape shape, bool grouped)
{
    static const int64_t odd[] = {40, 72, 33, 96, 130};
    const int64_t keys = 100 + case_pick(c, 0, 31), wide = case_one_in(c, 2) ? 64 : 128;
    const int64_t one = odd[case_pick(c, 0, 4)], group = grouped ? case_pick(c, 2, 5) : 1;
    const int64_t value = case_one_in(c, 2) ? one : odd[case_pick(c, 0, 4)];
    switch (shape) {
    case SHAPE_ROW:
        case_sizes(c, 3, 2, group, 1, keys, wide, wide);
        break;
    case SHAPE_ODD_ROW:
        case_sizes(c, 3, 2, group, 1, keys, case_one_in(c, 4) ? 64 : one, value);
        break;
    case SHAPE_ROWS:
        case_sizes(c, 2, 2, group, case_pick(c, 2, 16 / group), keys,
                   case_one_in(c, 2) ? wide : one, case_one_in(c, 2) ? wide : value);
        break;
    case SHAPE_EIGHTS: {
        const int64_t dim = (int64_t)32 << case_pick(c, 0, 2);
        case_sizes(c, 2, 1, case_one_in(c, 2) ? 8 : 16, 1, keys, dim,
                   case_one_in(c, 4) ? one : dim);
        break;
    }
    case SHAPE_HEADS:
        case_sizes(c, 4, 4, group, grouped ? 1 : case_pick(c, 1, 2), keys, wide, wide);
        break;
    case SHAPE_LONG_ROWS:
        case_sizes(c, 1, 1, group, case_pick(c, 1, 2), keys_to_split(c) + keys, 128, 128);
        break;
    case SHAPE_TILE:
        case_sizes(c, 2, 2, group, case_pick(c, 17, 40), keys, case_one_in(c, 2) ? 16 : one,
                   case_one_in(c, 2) ? 16 : value);
        break;
    case SHAPE_TILES:
        case_sizes(c, 1, 1, group, 200 / group, keys + 130, case_one_in(c, 2) ? 16 : 9,
                   case_one_in(c, 2) ? 16 : 8);
        break;
    case SHAPE_MANY_TILES:
        if (case_one_in(c, 2)) /* or tiles whose rows are all of one query */
            case_sizes(c, 1, 48, 1, case_pick(c, 97, 140), keys, 8, 8);
        else
            case_sizes(c, 48, 1, 48, 3, keys, 8, 8);
        break;
    case SHAPE_LONG_TILE:
        case_sizes(c, 1, 1, group, 20, 1030 + keys, 16, 8);
        break;
    case SHAPES:
        break;
    }
}

/* Lengths of sequences, and left padding. */
static inline void pair_lengths(struct forward_case *c, unsigned features)
{
    struct anyflash_attend_args *a = &c->a;
    int32_t *used_q = case_indexes(c, a->batch), *used_k = case_indexes(c, a->batch);
    int32_t *leftpad = case_indexes(c, a->batch);
    a->new_len = HAS(features, APPEND) ? case_pick(c, 1, 9) : 0;
    for (int64_t b = 0; b < a->batch; b++) {
        used_q[b] = (int32_t)(a->q_len - case_pick(c, 0, a->q_len > 2 ? 2 : 0));
        used_k[b] = (int32_t)(a->k_len - a->new_len - case_pick(c, 0, 47));
        leftpad[b] = (int32_t)case_pick(c, 0, 47);
    }
    if (HAS(features, SEQUSED)) {
        a->seqused_k = used_k;
        a->seqused_q = case_one_in(c, 3) ? used_q : NULL;
    }
    a->leftpad_k = HAS(features, LEFTPAD) ? leftpad : NULL;
}

/* Queries packed; keys, too, unless a cache holds them. */
static inline void pair_packing(struct forward_case *c, unsigned features)
{
    struct anyflash_attend_args *a = &c->a;
    int32_t *cu_q = case_indexes(c, a->batch + 1), *cu_k = case_indexes(c, a->batch + 1);
    cu_q[0] = cu_k[0] = (int32_t)case_pick(c, 0, 3);
    for (int64_t b = 0; b < a->batch; b++) {
        const int64_t used = a->seqused_k != NULL ? a->seqused_k[b] : a->k_len - 47;
        cu_q[b + 1] = cu_q[b] + (int32_t)(a->q_len - case_pick(c, 0, a->q_len > 2 ? 2 : 0));
        cu_k[b + 1] = cu_k[b] + (int32_t)case_pick(c, used, a->k_len);
    }
    a->cu_seqlens_q = cu_q;
    a->total_q = cu_q[a->batch] + case_pick(c, 0, 2);
    a->seqused_q = NULL;
    if ((features & (BIT(PAGES) | BIT(CACHE) | BIT(APPEND))) != 0)
        return;
    a->cu_seqlens_k = cu_k;
    a->total_k = cu_k[a->batch] + case_pick(c, 0, 2);
}

static inline void pair_cache(struct forward_case *c, unsigned features)
{
    struct anyflash_attend_args *a = &c->a;
    if (HAS(features, PAGES)) {
        a->page_size = case_one_in(c, 3) ? case_pick(c, 1, 40) : case_one_in(c, 2) ? 16 : 64;
        a->block_table_stride =
            (a->k_len + a->page_size - 1) / a->page_size + case_pick(c, 0, 2);
        a->page_count = a->batch * a->block_table_stride;
        a->block_table = case_permutation(c, a->page_count);
    }
    if (HAS(features, CACHE)) {
        a->cache_batch = a->batch + case_pick(c, 0, 2);
        a->cache_batch_idx = case_permutation(c, a->cache_batch);
    }
    if (HAS(features, ROTARY)) {
        a->rotary_dim = case_pick(c, 1, a->head_dim / 2) * 2;
        a->rotary_rows = a->k_len + a->q_len;
        a->rotary_interleaved = case_one_in(c, 2);
        a->rotary_cos = case_floats(c, a->rotary_rows * a->rotary_dim / 2);
        a->rotary_sin = case_floats(c, a->rotary_rows * a->rotary_dim / 2);
    }
}

static inline void pair_scores(struct forward_case *c, unsigned features)
{
    struct anyflash_attend_args *a = &c->a;
    if (HAS(features, SCALE))
        a->scale = case_one_in(c, 3) ? 0 : case_one_in(c, 2) ? 0.25f : -0.125f;
    if (HAS(features, SOFTCAP))
        a->softcap = 3.0f;
    if (HAS(features, SINKS))
        a->sinks = case_floats(c, a->heads);
    if (HAS(features, ALIBI)) {
        float *slopes = case_floats(c, a->heads);
        for (int64_t h = 0; h < a->heads; h++)
            slopes[h] *= 5.0f / (float)a->k_len; /* no weight becomes 0 as a float */
        a->alibi_slopes = slopes;
    }
    if (HAS(features, BIAS))
        a->bias = case_plane(c, case_one_in(c, 2) ? ANYFLASH_F32 : c->dtype);
    if (HAS(features, MASK))
        a->mask = case_plane(c, ANYFLASH_BOOL);
    if (HAS(features, DROPOUT)) {
        a->dropout = 0.25f;
        a->dropout_seed = case_word(c);
    }
    if (HAS(features, FP8))
        case_scales(c);
}

/* NaN or infinity in key or value `j` of a sequence, unless no memory holds it. */
static inline void spoil_key(struct forward_case *c, const struct af_problem *problem,
                             const struct af_sequence *s, int64_t j, int64_t room)
{
    const bool f8 = af_dtype_is_f8(c->key_dtype), of_value = !case_one_in(c, 3);
    const struct anyflash_tensor *tensor = of_value ? &problem->a.v : &problem->a.k;
    const int64_t dim = of_value ? problem->a.value_dim : problem->a.head_dim;
    if (j < 0 || j >= room)
        return;
    char *row = af_row_of_key(problem, tensor, s, case_pick(c, 0, c->a.kv_heads - 1), j);
    af_convert_store(c->key_dtype, row, case_pick(c, 0, dim - 1),
                     f8 || case_one_in(c, 2) ? NAN : INFINITY);
}

/* Spoils the key before those that the last row of each sequence sees, and the one after. */
static inline void pair_nonfinite(struct forward_case *c)
{
    const struct af_problem problem = case_problem(c);
    const struct anyflash_attend_args *a = &problem.a;
    for (int64_t b = 0; b < a->batch; b++) {
        const struct af_sequence s = af_problem_sequence(&problem, b);
        const int64_t room =
            a->cu_seqlens_k != NULL ? a->cu_seqlens_k[b + 1] - a->cu_seqlens_k[b] : a->k_len;
        const struct af_range first = af_visible_range(&problem, &s, 0);
        const struct af_range last = af_visible_range(&problem, &s, s.q_count - 1);
        spoil_key(c, &problem, &s, last.first - 1, room);
        spoil_key(c, &problem, &s, first.end, room);
        if (case_one_in(c, 3))
            spoil_key(c, &problem, &s, last.first + 3, room);
    }
}

/*
 * Rows 48 to 95 see all of the first 128 keys, the rows before them one less, and that one
 * holds NaN: a task must not read it from what the task before it has kept.
 */
static inline void pair_kept_values(struct forward_case *c)
{
    const struct af_problem problem = case_problem(c);
    const struct af_sequence s = af_problem_sequence(&problem, 0);
    spoil_key(c, &problem, &s, 127, c->a.k_len);
}

/* The problem of a pair_number(). */
static inline struct forward_case *pair_case(uint64_t seed)
{
    static const int32_t types[] = {ANYFLASH_F32, ANYFLASH_F16, ANYFLASH_BF16};
    const unsigned features = pair_features(seed);
    const enum shape shape = (enum shape)pair_shape(seed);
    struct forward_case *c = case_new(seed, types[pair_type(seed)]);
    c->plain_strides = !HAS(features, STRIDES);
    c->nan_in_gaps = HAS(features, NONFINITE);
    if (HAS(features, FP8))
        c->key_dtype = case_one_in(c, 2) ? ANYFLASH_F8_E4M3 : ANYFLASH_F8_E5M2;
    pair_sizes(c, shape, HAS(features, GROUP));
    visibility_of(&c->a, features, 0, case_indexes(c, c->a.batch), &c->state);
    const bool keeps = shape == SHAPE_TILES && c->a.causal && case_one_in(c, 3);
    if (keeps) {
        int32_t *offsets = case_indexes(c, 1);
        offsets[0] = 127 - 48;
        c->a.causal_offsets = offsets;
        c->a.align = ANYFLASH_ALIGN_OFFSETS;
    }
    pair_lengths(c, features);
    if (HAS(features, PACKED))
        pair_packing(c, features);
    pair_cache(c, features);
    case_tensors(c);
    if (shape == SHAPE_HEADS && c->plain_strides) { /* rows of all heads side by side */
        c->a.k.head_stride = c->a.head_dim;
        c->a.v.head_stride = c->a.value_dim;
        c->a.k.row_stride = c->a.kv_heads * c->a.head_dim;
        c->a.v.row_stride = c->a.kv_heads * c->a.value_dim;
    }
    pair_scores(c, features);
    if (case_one_in(c, 4))
        c->a.lse = NULL;
    if (HAS(features, NONFINITE) && keeps)
        pair_kept_values(c);
    else if (HAS(features, NONFINITE))
        pair_nonfinite(c);
    return c;
}

#endif
