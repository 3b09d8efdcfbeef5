/*
 * kernel.h: what a kernel is, between the part that chooses (attn/) and the
 * parts that compute (cpu/). A kernel is one row of a manifest; without a row
 * it cannot run, with a row it is tested against the oracle and timed.
 */
#ifndef AF_ENGINE_ATTN_KERNEL_H
#define AF_ENGINE_ATTN_KERNEL_H

#include "engine/attn/problem.h"
#include "engine/base/cpu.h"

enum af_kernel_operation { AF_FORWARD, AF_DECODE, AF_BACKWARD };

/* Scratch of one worker: a kernel asks for its size, the caller provides it, 64-aligned. */
struct af_scratch {
    void *memory;
    size_t size_bytes;
};

/*
 * One piece of forward work: rows [row_begin, row_end) of key head `kv_head` of
 * a sequence against keys [key_begin, key_end). Row r is query i = r / group of
 * head kv_head * group + r % group, so that all heads that share a key head are
 * neighbours. `partial` NULL: the results are final and go to o and lse; else
 * unnormalised o (f32 [rows, Dv]) with row maximum and row sum (f32 [rows, 2],
 * maximum in units of log2) go there, to be merged.
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
    const struct af_forward_task *next; /* what this thread will probably do next, or NULL */
};

/* Why a kernel does not take a problem; texts in declines.inc. */
#define AF_DECLINE(id, text) AF_DECLINE_##id,
enum af_decline {
    AF_TAKES_IT = 0,
#include "engine/attn/declines.inc"
    AF_DECLINE_COUNT
};
#undef AF_DECLINE

const char *af_decline_text(enum af_decline decline);

struct af_kernel {
    const char *name;
    enum af_kernel_operation operation;
    enum anyflash_dtype dtype;
    uint32_t needs;         /* one bit of enum af_cpu_feature */
    uint32_t features;      /* of enum af_feature: what it can do */
    bool positive_scale;    /* declines a negative scale */
    int64_t rows_max;       /* takes tasks of at most this many rows; 0: any */
    int64_t rows_granule;   /* rows of a tile: tasks are multiples of it */
    int64_t rows_preferred; /* rows of a task where there are enough of them */
    size_t (*scratch_bytes)(const struct af_problem *problem, int64_t rows);
    void (*run_forward)(const struct af_forward_task *task, struct af_scratch scratch);
};

/*
 * All kernels compiled in, worst to best; defined by cpu/manifest.c. Static
 * storage.
 */
const struct af_kernel *const *af_kernels(size_t *count_out);

#endif
