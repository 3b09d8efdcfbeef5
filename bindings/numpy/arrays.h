/*
 * arrays.h: attention on arrays that carry a shape and strides, as NumPy's and
 * torch's do: the shapes are checked against one another and become a problem
 * of anyflash.h. For the two ways from Python into C, python/ and torch/.
 */
#ifndef AF_BINDINGS_NUMPY_ARRAYS_H
#define AF_BINDINGS_NUMPY_ARRAYS_H

#include "engine/base/base.h"

#define AF_ARRAY_RANK_MAX 4
#define AF_ARRAY_I32 100 /* beside enum anyflash_dtype */

/* An array that somebody else owns. All zero: not given. */
struct af_array {
    bool given;
    void *data;
    int32_t type; /* enum anyflash_dtype or AF_ARRAY_I32; 0: something else */
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
    struct af_array bias;            /* float, broadcast to [B, H, Sq, Sk] but for Sk */
    struct af_array mask;            /* bool, alike */
    int64_t max_seqlen_q;            /* with cu_seqlens_q */
    int64_t max_seqlen_k;            /* with cu_seqlens_k */
    bool heads_first;                /* [B, H, S, D] in place of [B, S, H, D] */
};

/*
 * Sets the sizes of `args`, its q, k, v and the arrays that are given; numbers
 * such as scale and causal are the caller's to set, before or after. Fails with
 * ARGUMENT, naming the array, where shapes, types or strides do not fit. What
 * the arrays hold is checked by anyflash_attend().
 */
enum anyflash_status af_arrays_problem(const struct af_arrays *arrays,
                                       struct anyflash_attend_args *args,
                                       struct anyflash_error *err);

/* The shape of the output and of the logsumexp of a problem; ranks are returned. */
int32_t af_arrays_out_sizes(const struct af_arrays *arrays,
                            const struct anyflash_attend_args *args,
                            int64_t sizes[AF_ARRAY_RANK_MAX]);
int32_t af_arrays_lse_sizes(const struct anyflash_attend_args *args,
                            int64_t sizes[AF_ARRAY_RANK_MAX]);

/*
 * `array` of the shape above as rows of q's batches; false when its shape is
 * another, a last dimension is not contiguous, or the type is no float.
 */
bool af_arrays_rows(const struct af_arrays *arrays, const struct anyflash_attend_args *args,
                    const struct af_array *array, int64_t dim, struct anyflash_tensor *out);

/* Sets lse and its strides; false when the shape is another or rows are not contiguous. */
bool af_arrays_set_lse(const struct af_array *lse, struct anyflash_attend_args *args);

#endif
