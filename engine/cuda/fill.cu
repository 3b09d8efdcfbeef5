/*
 * fill.cu: constants for results without keys or queries, and the sum of gradients over the
 * query heads that share a key head.
 */
#include "glue.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define THREADS 256
#define BLOCKS_MAX 65536 /* each thread then takes several elements */

static unsigned blocks_of(int64_t count)
{
    const int64_t blocks = (count + THREADS - 1) / THREADS;
    return (unsigned)(blocks < BLOCKS_MAX ? blocks : BLOCKS_MAX);
}

/* Runs `body` for the elements 0 to count - 1. */
template <typename Body> __global__ void each(int64_t count, Body body)
{
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < count; i += step)
        body(i);
}

template <typename Body> static void start(int64_t count, cudaStream_t stream, Body body)
{
    if (count == 0)
        return;
    each<<<blocks_of(count), THREADS, 0, stream>>>(count, body);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
}

/* Where element i of a contiguous [batch, rows, heads, dim] lies in a tensor with strides. */
struct place {
    int64_t batch_stride, row_stride, head_stride, rows, heads, dim;

    __device__ int64_t operator()(int64_t i) const
    {
        const int64_t d = i % dim, h = i / dim % heads, row = i / (dim * heads);
        return row / rows * batch_stride + row % rows * row_stride + h * head_stride + d;
    }
};

static struct place place_of(const struct anyflash_tensor *tensor, int64_t rows, int64_t heads,
                             int64_t dim)
{
    return {tensor->batch_stride, tensor->row_stride, tensor->head_stride, rows, heads, dim};
}

void af_glue_fill(float *data, int64_t count, float value, cudaStream_t stream)
{
    start(count, stream, [=] __device__(int64_t i) { data[i] = value; });
}

void af_glue_clear(const struct anyflash_tensor *tensor, int64_t batch, int64_t rows,
                   int64_t heads, int64_t dim, cudaStream_t stream)
{
    const struct place at = place_of(tensor, rows, heads, dim);
    uint16_t *data = (uint16_t *)tensor->data;
    start(batch * rows * heads * dim, stream, [=] __device__(int64_t i) { data[at(i)] = 0; });
}

template <typename T>
static void sum_groups(const struct anyflash_tensor *tensor, const void *expanded,
                       int64_t count, struct place at, int64_t group, cudaStream_t stream)
{
    T *data = (T *)tensor->data;
    const T *from = (const T *)expanded;
    start(count, stream, [=] __device__(int64_t i) {
        const T *one = from + i / at.dim * group * at.dim + i % at.dim;
        float sum = 0;
        for (int64_t member = 0; member < group; member++)
            sum += (float)one[member * at.dim];
        data[at(i)] = (T)sum;
    });
}

void af_glue_sum_groups(const struct anyflash_tensor *tensor, const void *expanded,
                        int64_t batch, int64_t rows, int64_t heads, int64_t group, int64_t dim,
                        cudaStream_t stream)
{
    const struct place at = place_of(tensor, rows, heads, dim);
    const int64_t count = batch * rows * heads * dim;
    if (tensor->dtype == ANYFLASH_BF16)
        sum_groups<__nv_bfloat16>(tensor, expanded, count, at, group, stream);
    else
        sum_groups<__half>(tensor, expanded, count, at, group, stream);
}
