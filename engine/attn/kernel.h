/*
 * kernel.h: what a kernel is: the work it is given and what it says of itself.
 * The kernels are in cpu/; call/ chooses one and runs it.
 */
#ifndef AF_ENGINE_ATTN_KERNEL_H
#define AF_ENGINE_ATTN_KERNEL_H

#include "engine/attn/guard.h"
#include "engine/attn/problem.h"
#include "engine/base/cpu.h"

enum af_kernel_operation { AF_FORWARD, AF_DECODE, AF_BACKWARD };

/*
 * Scratch of one worker: a kernel says how much it needs; the caller provides
 * it, 64-byte aligned.
 */
struct af_scratch {
    void *memory;
    size_t size_bytes;
};

/*
 * One piece of forward work: rows [row_begin, row_end) of key head `kv_head` of
 * a sequence against keys [key_begin, key_end). Row r is query i = r / group of
 * head kv_head * group + r % group, so rows of all heads that share a key head
 * are adjacent. If partial_o is NULL, the results are final and are written to o
 * and lse. Otherwise the kernel writes unnormalised o to partial_o (f32 [rows, Dv])
 * and row maximum and row sum to partial_ml (f32 [rows, 2], maximum as in af_is_natural()),
 * to be merged.
 *
 * A decode task of two or more rows may cover kv_head_count key heads, starting with
 * kv_head. Each head gets the same bits as in a task of its own. The partial results of
 * a head start `partial_stride` rows after those of the head before it.
 */
struct af_forward_task {
    const struct af_problem *problem;
    struct af_sequence sequence;
    int64_t kv_head;
    int64_t row_begin;
    int64_t row_end;
    int64_t key_begin;
    int64_t key_end;
    float *partial_o;
    float *partial_ml;
    const struct af_forward_task *next; /* probable next task of this thread, or NULL */
    bool keys_are_new;                  /* the task numbered before it reads other keys */
    bool keys_are_kept;    /* that task has just run on this scratch and read the same keys */
    int64_t kv_head_count; /* 1 unless the kernel is a decode kernel */
    int64_t partial_stride;
};

/*
 * One piece of backward work: keys [key_begin, key_end) of key head `kv_head` of
 * a sequence against all its rows, numbered as in struct af_forward_task. The
 * kernel writes dk and dv of these keys, which are then final, and adds what the
 * keys contribute to dbias. If `partial_dq` is NULL, dq is final, too, and is
 * written. Otherwise this task's share of dq, not yet multiplied by scale, is
 * written to partial_dq: f32 [rows, D]; rows that see none of the keys may be
 * left out.
 */
struct af_backward_task {
    const struct af_backward_problem *problem;
    struct af_sequence sequence;
    int64_t kv_head;
    int64_t rows;
    int64_t key_begin;
    int64_t key_end;
    float *partial_dq;
};

struct af_kernel {
    const char *name;
    enum af_kernel_operation operation;
    enum anyflash_dtype dtype; /* of q; 0: any */
    bool reads_f8;             /* keys and values are fp8; otherwise they are of q's type */
    uint32_t needs;            /* bits of enum af_cpu_feature that must all be set */
    bool lacks_dropout;
    bool positive_scale;    /* declines a negative scale */
    int64_t rows_max;       /* forward, decode: most rows per task */
    int64_t rows_granule;   /* forward, decode: rows per tile; tasks are multiples of it */
    int64_t rows_preferred; /* forward, decode: rows per task when there are enough */
    /*
     * decode: whether it takes less time than the forward kernel of its level for this many
     * rows, in tasks of rows_max, that see this many keys.
     */
    bool (*suits)(int64_t rows, int64_t keys);
    /*
     * For tasks of at most `rows` rows and, for backward, at most `span` keys or, for
     * decode, exactly `span` key heads.
     */
    size_t (*scratch_bytes)(const struct af_problem *problem, int64_t rows, int64_t span);
    void (*run_forward)(const struct af_forward_task *task, struct af_scratch scratch);
    void (*run_backward)(const struct af_backward_task *task, struct af_scratch scratch);
};

#endif
