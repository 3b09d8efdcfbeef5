/*
 * cases.h: the shapes that are benchmarked, with the operations and bytes of each.
 */
#ifndef AF_BENCH_CASES_H
#define AF_BENCH_CASES_H

#include "engine/base/base.h"

/*
 * CALL is a decode so small that it times the call overhead; MEMORY is a long
 * forward of which only the extra memory is measured.
 */
enum af_bench_operation {
    AF_BENCH_FORWARD,
    AF_BENCH_BACKWARD,
    AF_BENCH_DECODE,
    AF_BENCH_CALL,
    AF_BENCH_MEMORY
};

/* One row of cases.inc. Batch 1, [B, H, S, D]. */
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
};

#define AF_BENCH_NAME_BYTES 64

/* Returns *count_out rows in static storage. */
const struct af_bench_case *af_bench_cases(size_t *count_out);

/* Whether this machine supports the row's level. */
bool af_bench_can_run(const struct af_bench_case *row);

/*
 * Whether other libraries run the row, too. Only the engine runs rows that measure
 * memory or a single instruction set.
 */
bool af_bench_has_peers(const struct af_bench_case *row);

/* "forward", "backward", "decode", "call", "memory". */
const char *af_bench_operation_text(enum af_bench_operation operation);

/* "f32" or "bf16". */
const char *af_bench_dtype_text(const struct af_bench_case *row);

/* "all" or "avx2". */
const char *af_bench_level_text(const struct af_bench_case *row);

/*
 * Writes "f32 H16 S2048 D64 causal" or "bf16 H64:8 Sk4096 D128" into
 * AF_BENCH_NAME_BYTES.
 */
void af_bench_shape(const struct af_bench_case *row, char *text);

/*
 * Whether each word of `words` (separated by blanks) is a word of the operation,
 * the level and the shape; NULL matches all.
 */
bool af_bench_matches(const struct af_bench_case *row, const char *words);

/*
 * Floating-point operations of one run: 4 H Sq Sk D forward, 10 backward (five
 * products, one of them recomputed); half of either when causal.
 */
double af_bench_flops(const struct af_bench_case *row);

/* Bytes of keys and values, which a decode reads once. */
double af_bench_kv_bytes(const struct af_bench_case *row);

/* Whether memory bandwidth is the roofline limit (decode, call), not arithmetic. */
bool af_bench_reads(const struct af_bench_case *row);

#endif
