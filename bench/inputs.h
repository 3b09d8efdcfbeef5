/*
 * inputs.h: the tensors of a case. Each number is a hash of its index, so that
 * another process can produce the same ones without a file.
 */
#ifndef AF_BENCH_INPUTS_H
#define AF_BENCH_INPUTS_H

#include "bench/cases.h"
#include "kit/base/memory.h"

enum af_bench_tensor {
    AF_BENCH_Q,
    AF_BENCH_K,
    AF_BENCH_V,
    AF_BENCH_O,
    AF_BENCH_DOUT,
    AF_BENCH_DQ,
    AF_BENCH_DK,
    AF_BENCH_DV,
    AF_BENCH_TENSOR_COUNT
};

/*
 * data: aligned to 64 bytes, `count` numbers of the case's dtype, or key_dtype; NULL:
 * not used by the case.
 */
struct af_bench_buffer {
    void *memory;
    void *data;
    size_t count;
    size_t bytes;
};

struct af_bench_inputs {
    struct af_bench_buffer tensors[AF_BENCH_TENSOR_COUNT];
    struct af_bench_buffer lse;
    struct af_bench_buffer indexes; /* SERVING: the arrays of packed and paged sequences */
    struct anyflash_attend_args args;
    struct anyflash_attend_backward_args backward; /* its `forward` is `args` */
};

/*
 * Allocates and fills the tensors. Inputs are multiples of 1/128 in [-1, 1), q
 * of 1/32 in [-4, 4): exact in f32 and bf16. fp8 numbers are any in (-1, 1). The
 * struct must not move afterwards, because `backward` points into it.
 */
void af_bench_inputs_make(const struct af_bench_case *row, struct af_bench_inputs *inputs);
void af_bench_inputs_release(struct af_bench_inputs *inputs);

#define AF_BENCH_PROBES 256

/*
 * Copies AF_BENCH_PROBES numbers spread over a tensor, from the same positions
 * in every process; used to compare results.
 */
void af_bench_probe(const struct af_bench_case *row, const struct af_bench_buffer *buffer,
                    float *values);

#endif
