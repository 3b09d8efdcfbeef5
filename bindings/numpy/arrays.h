/*
 * arrays.h: attention on arrays with a shape and strides, such as NumPy's and
 * torch's: checks that the shapes agree and fills in the problem of anyflash.h.
 * Used by both bindings, numpy/ and torch/.
 */
#ifndef AF_BINDINGS_NUMPY_ARRAYS_H
#define AF_BINDINGS_NUMPY_ARRAYS_H

#include "engine/base/base.h"

#define AF_ARRAY_RANK_MAX 4
#define AF_ARRAY_I32 100 /* beside enum anyflash_dtype */

/* An array owned by the caller. All zero: not given. */
struct af_array {
    bool given;
    void *data;
    int32_t type; /* enum anyflash_dtype or AF_ARRAY_I32; 0: another type */
    int32_t rank;
    int64_t sizes[AF_ARRAY_RANK_MAX];
    int64_t strides[AF_ARRAY_RANK_MAX]; /* in elements */
};

/* The inputs of one attention; optional ones may be absent. */
struct af_arrays {
    struct af_array q;               /* [B, Sq, H, D]; packed: [total, H, D] */
    struct af_array k;               /* [B, Sk, G, D]; packed; or pages */
    struct af_array v;               /* [B, Sk, G, Dv]; packed; or pages */
    struct af_array cu_seqlens_q;    /* [B + 1] int32 */
    struct af_array cu_seqlens_k;    /* [B + 1] int32 */
    struct af_array seqused_q;       /* [B] int32 */
    struct af_array seqused_k;       /* [B] int32 */
    struct af_array leftpad_k;       /* [B] int32 */
    struct af_array causal_offsets;  /* [B] int32; sets align */
    struct af_array cache_batch_idx; /* [B] int32 */
    struct af_array block_table;     /* [B, pages] int32 */
    struct af_array alibi_slopes;    /* [H] or [B, H] f32 */
    struct af_array sinks;           /* [H] f32 */
    struct af_array bias;            /* float, broadcast to [B, H, Sq, Sk] except for Sk */
    struct af_array mask;            /* bool, broadcast as bias */
    int64_t max_seqlen_q;            /* with cu_seqlens_q */
    int64_t max_seqlen_k;            /* with cu_seqlens_k */
    bool heads_first;                /* [B, H, S, D] instead of [B, S, H, D] */
};

/*
 * Sets the sizes of `args`, its q, k, v and the given arrays. The caller sets
 * numbers such as scale and causal, before or after. Fails with ARGUMENT, naming
 * the array, if shapes, types or strides are wrong. anyflash_attend() checks the
 * contents of the arrays.
 */
enum anyflash_status af_arrays_problem(const struct af_arrays *arrays,
                                       struct anyflash_attend_args *args,
                                       struct anyflash_error *err);

/* Write the shape of the output and of the logsumexp of a problem; return the rank. */
int32_t af_arrays_out_sizes(const struct af_arrays *arrays,
                            const struct anyflash_attend_args *args,
                            int64_t sizes[AF_ARRAY_RANK_MAX]);
int32_t af_arrays_lse_sizes(const struct anyflash_attend_args *args,
                            int64_t sizes[AF_ARRAY_RANK_MAX]);

/*
 * Makes a tensor of rows per batch of q from `array`, which must have the shape
 * above; false if it does not, the last dimension is not contiguous, or the type
 * is not a float type.
 */
bool af_arrays_rows(const struct af_arrays *arrays, const struct anyflash_attend_args *args,
                    const struct af_array *array, int64_t dim, struct anyflash_tensor *out);

/* Sets lse and its strides; false if the shape is wrong or rows are not contiguous. */
bool af_arrays_set_lse(const struct af_array *lse, struct anyflash_attend_args *args);

#endif
