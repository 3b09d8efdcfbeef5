/*
 * cases.h: the shapes that are benchmarked, with the operations and bytes of each.
 */
#ifndef AF_BENCH_CASES_H
#define AF_BENCH_CASES_H

#include "engine/base/base.h"

/*
 * CALL is a decode so small that it times the call overhead; SERVING is one step of a
 * server: a batch of sequences with caches of their own lengths.
 */
enum af_bench_operation {
    AF_BENCH_FORWARD,
    AF_BENCH_BACKWARD,
    AF_BENCH_DECODE,
    AF_BENCH_CALL,
    AF_BENCH_SERVING
};

/* The numbers of keys of a batch, the longest first. */
enum af_bench_lengths {
    AF_BENCH_EQUAL,   /* Sk each */
    AF_BENCH_SPREAD,  /* from Sk down to 128, each by the same factor */
    AF_BENCH_ONE_LONG /* Sk, and 128 for all others */
};

/* The shortest sequence of a batch whose lengths differ. */
#define AF_BENCH_SHORTEST 128

/*
 * One row of cases.inc. Tensors are [B, H, S, D] with B 1, except for SERVING. There
 * the queries are packed, [S, H, D]: the last q_len positions of each sequence. Keys
 * and values are packed, [G, S, D], or stored in pages in random order, [pages, G,
 * page_size, D]. If there is one key head and Dv < D (latent attention, MLA), values
 * are not stored: each one is the first Dv elements of its key.
 */
struct af_bench_case {
    enum af_bench_operation operation;
    enum anyflash_cpu_level level; /* instruction sets for the engine; ALL or AVX2 */
    enum anyflash_dtype dtype;
    int64_t heads;
    int64_t kv_heads;
    int64_t q_len;
    int64_t k_len;
    int64_t head_dim;
    bool causal; /* square shapes only, so the alignment of the mask makes no difference */
    bool quick;
    int64_t batch;
    enum af_bench_lengths lengths;
    int64_t value_dim;
    int64_t page_size;             /* 0: no pages */
    enum anyflash_dtype key_dtype; /* of keys and values: dtype, or fp8 */
};

#define AF_BENCH_NAME_BYTES 80

/* Returns *count_out rows in static storage. */
const struct af_bench_case *af_bench_cases(size_t *count_out);

/* Whether this machine supports the row's level. */
bool af_bench_can_run(const struct af_bench_case *row);

/* "forward", "backward", "decode", "call", "serving". */
const char *af_bench_operation_text(enum af_bench_operation operation);

/* "f32", "bf16" or, for bf16 queries with fp8 keys and values, "e4m3". */
const char *af_bench_dtype_text(const struct af_bench_case *row);

/* "all" or "avx2". */
const char *af_bench_level_text(const struct af_bench_case *row);

/*
 * Writes "f32 H16 S2048 D64 causal", "bf16 H64:8 Sk4096 D128" or "bf16 B16 H32:8
 * Sk32k-128 D128 p16" into AF_BENCH_NAME_BYTES. "32k": all sequences have 32k keys;
 * "32k-128": from 32k down to 128; "32k,128": one has 32k, the others 128. "p16": pages
 * of 16 keys.
 */
void af_bench_shape(const struct af_bench_case *row, char *text);

/*
 * Whether each word of `words` (separated by blanks) is a word of the operation,
 * the level and the shape; NULL matches all.
 */
bool af_bench_matches(const struct af_bench_case *row, const char *words);

/* The numbers of queries and of keys of sequence `index`. */
int64_t af_bench_queries(const struct af_bench_case *row, int64_t index);
int64_t af_bench_keys(const struct af_bench_case *row, int64_t index);

/* Whether the values are the first elements of the keys (latent attention, MLA). */
bool af_bench_values_in_keys(const struct af_bench_case *row);

/*
 * Floating-point operations of one run: 4 H Sq Sk D forward, 10 backward (five
 * products, one of them recomputed); half of either when causal.
 */
double af_bench_flops(const struct af_bench_case *row);

/* The size of one element of the keys and values, in bytes. */
size_t af_bench_key_bytes(const struct af_bench_case *row);

/* Bytes of keys and values, which a decode reads once. */
double af_bench_kv_bytes(const struct af_bench_case *row);

/*
 * Whether the rate of a row is that of reading memory (decode, call, serving), not of
 * arithmetic.
 */
bool af_bench_reads(const struct af_bench_case *row);

#endif
