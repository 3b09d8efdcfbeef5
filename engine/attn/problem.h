/*
 * problem.h: one attention problem, checked once. Code with a struct af_problem
 * never reads the caller's arguments again.
 *
 * A problem is a copy of the arguments with defaults resolved (scale, windows,
 * strides of packed and paged tensors) and the few numbers every kernel needs.
 * Sequences of a batch are looked up by af_problem_sequence().
 */
#ifndef AF_ENGINE_ATTN_PROBLEM_H
#define AF_ENGINE_ATTN_PROBLEM_H

#include "engine/attn/convert.h"

#define AF_DIM_MAX 576

struct af_problem {
    struct anyflash_attend_args a; /* resolved: scale is a number, -1 windows stay */
    bool changes_scores;           /* softcap, ALiBi, bias or mask, after scale * q.k */
    int64_t group;                 /* H / G: query heads that share a key head */
    size_t element_bytes;          /* of q */
    size_t key_bytes;              /* of an element of k and v */
};

/* One sequence of the batch. */
struct af_sequence {
    int64_t batch;
    int64_t q_row;   /* first row of q, o, lse in packed tensors, else 0 */
    int64_t q_count; /* queries */
    int64_t q_full;  /* rows the sequence owns; those from q_count on are written as 0 */
    int64_t k_row;   /* first row of k, v in packed tensors, else 0 */
    int64_t k_first; /* first real key: left padding ends here */
    int64_t k_count; /* end of the keys, including appended ones */
    int64_t offset;  /* p = i + offset */
    int64_t cache;   /* batch of k and v */
};

/*
 * Checks everything and fills *problem. Fails with ARGUMENT or UNSUPPORTED; the
 * message names the argument and its value. Reads the index arrays (cu_seqlens,
 * block_table, ...), but not the tensors.
 */
enum anyflash_status af_problem_init(struct af_problem *problem,
                                     const struct anyflash_attend_args *args,
                                     struct anyflash_error *err);

/* The counterpart for the backward. */
struct af_backward_problem {
    struct af_problem forward;                      /* o and lse are inputs here */
    struct anyflash_tensor dout, dq, dk, dv, dbias; /* dbias: stride 0 where it is summed */
    float *dsinks;
    const float *dlse;
};

/*
 * Checks everything and fills *problem, as af_problem_init() does; packed
 * tensors have batch_stride 0 afterwards. Fails with ARGUMENT, or with
 * UNSUPPORTED for caches.
 */
enum anyflash_status af_backward_problem_init(struct af_backward_problem *problem,
                                              const struct anyflash_attend_backward_args *args,
                                              struct anyflash_error *err);

/* The sequence of batch index `batch`. */
struct af_sequence af_problem_sequence(const struct af_problem *problem, int64_t batch);

/* Address of row `row` of `head` of a tensor, for sequence-relative rows. */
static inline char *af_row_of_tensor(const struct anyflash_tensor *tensor, size_t element_bytes,
                                     int64_t batch, int64_t head, int64_t row)
{
    return (char *)tensor->data + (batch * tensor->batch_stride + head * tensor->head_stride +
                                   row * tensor->row_stride) *
                                      (int64_t)element_bytes;
}

/* Address of query or output row `i` of a sequence. */
static inline char *af_row_of_query(const struct anyflash_tensor *tensor, size_t element_bytes,
                                    const struct af_sequence *sequence, int64_t head, int64_t i)
{
    return af_row_of_tensor(tensor, element_bytes, sequence->batch, head, sequence->q_row + i);
}

/* The page of key `j` of a batch. */
static inline int64_t af_page_of_key(const struct anyflash_attend_args *a, int64_t batch,
                                     int64_t j)
{
    return a->block_table[batch * a->block_table_stride + j / a->page_size];
}

/* Address of key or value row `j` of a sequence: plain, packed or paged. */
static inline char *af_row_of_key(const struct af_problem *problem,
                                  const struct anyflash_tensor *tensor,
                                  const struct af_sequence *sequence, int64_t kv_head,
                                  int64_t j)
{
    const struct anyflash_attend_args *a = &problem->a;
    if (a->block_table == NULL)
        return af_row_of_tensor(tensor, problem->key_bytes, sequence->cache, kv_head,
                                sequence->k_row + j);
    int64_t page = af_page_of_key(a, sequence->batch, j);
    return af_row_of_tensor(tensor, problem->key_bytes, page, kv_head, j % a->page_size);
}

/* The scale of key or value `j` in `scales`, which are k_scales or v_scales. */
static inline float af_scale_of_key(const struct af_problem *problem, const float *scales,
                                    const struct af_sequence *sequence, int64_t kv_head,
                                    int64_t j)
{
    const struct anyflash_attend_args *a = &problem->a;
    if (scales == NULL)
        return 1;
    int64_t at = a->scale_per_page ? af_page_of_key(a, sequence->batch, j) : sequence->batch;
    return scales[at * a->scale_stride + kv_head];
}

/* Where lse of query row `i` is written, or NULL. */
static inline float *af_lse_at(const struct af_problem *problem,
                               const struct af_sequence *sequence, int64_t head, int64_t i)
{
    const struct anyflash_attend_args *a = &problem->a;
    return a->lse == NULL ? NULL
                          : a->lse + sequence->batch * a->lse_batch_stride +
                                head * a->lse_head_stride + sequence->q_row + i;
}

#endif
