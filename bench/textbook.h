/*
 * textbook.h: attention as textbooks write it. All scores are written to memory, the
 * softmax reads and writes them, and the product with the values reads them again.
 */
#ifndef AF_BENCH_TEXTBOOK_H
#define AF_BENCH_TEXTBOOK_H

#include "engine/base/pool.h"
#include "kit/base/memory.h"

/* q, k, v and o belong to the caller. The tensors are contiguous f32. */
struct af_textbook {
    int64_t heads;
    int64_t length;   /* N: queries, and keys, of each head; a multiple of 256 */
    int64_t head_dim; /* D, a multiple of 32 */
    const float *q;   /* [H, N, D], like k, v and o */
    const float *k;
    const float *v;
    float *o;
    float *scores; /* [H, N, N] */
    float *packed; /* k and v in the order in which the products read them */
};

/* Bytes that af_textbook_allocate() allocates. */
double af_textbook_bytes(const struct af_textbook *textbook);

/*
 * Allocates `scores` and `packed` for the sizes that are set, and touches their pages.
 * Release it in every case.
 */
enum anyflash_status af_textbook_allocate(struct af_textbook *textbook,
                                          struct anyflash_error *err);
void af_textbook_release(struct af_textbook *textbook);

/* o = softmax(q k^T / sqrt(D)) v, step by step for all heads, each step on all threads. */
void af_textbook_run(struct af_textbook *textbook, struct af_pool *pool);

/* The instruction set of its loops: "avx512", "avx2" or "baseline". */
const char *af_textbook_instructions(void);

#endif
