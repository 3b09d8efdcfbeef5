/*
 * small.cu: the kernels that FlashAttention-2 lacks: constants for results without keys or
 * queries, and the sum of gradients over the query heads that share a key head. Each takes any
 * one-dimensional grid. A tensor is [batch, rows, heads, dim] with a contiguous last dimension;
 * its strides count elements. `count` is the number of its elements.
 */
#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

/* Each thread takes the elements first(), first() + step(), ... */
static __device__ int64_t first()
{
    return blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
}

static __device__ int64_t step()
{
    return (int64_t)gridDim.x * blockDim.x;
}

/* Where element i of a contiguous [batch, rows, heads, dim] lies in a tensor with strides. */
static __device__ int64_t place(int64_t i, int64_t batch_stride, int64_t row_stride,
                                int64_t head_stride, int64_t rows, int64_t heads, int64_t dim)
{
    const int64_t d = i % dim, h = i / dim % heads, row = i / (dim * heads);
    return row / rows * batch_stride + row % rows * row_stride + h * head_stride + d;
}

/* Writes `value` to data[0] to data[count - 1]. */
extern "C" __global__ void af_fill(float *data, int64_t count, float value)
{
    for (int64_t i = first(); i < count; i += step())
        data[i] = value;
}

/* Writes zeros to a tensor of fp16 or bf16. */
extern "C" __global__ void af_clear(uint16_t *data, int64_t count, int64_t batch_stride,
                                    int64_t row_stride, int64_t head_stride, int64_t rows,
                                    int64_t heads, int64_t dim)
{
    for (int64_t i = first(); i < count; i += step())
        data[place(i, batch_stride, row_stride, head_stride, rows, heads, dim)] = 0;
}

/* `expanded` is a contiguous [batch, rows, heads * group, dim]. */
template <typename T>
static __device__ void sum_groups(T *data, const T *expanded, int64_t count,
                                  int64_t batch_stride, int64_t row_stride, int64_t head_stride,
                                  int64_t rows, int64_t heads, int64_t dim, int64_t group)
{
    for (int64_t i = first(); i < count; i += step()) {
        const T *from = expanded + i / dim * group * dim + i % dim;
        float sum = 0;
        for (int64_t member = 0; member < group; member++)
            sum += (float)from[member * dim];
        data[place(i, batch_stride, row_stride, head_stride, rows, heads, dim)] = (T)sum;
    }
}

/*
 * Writes to each head of a tensor the sum of its `group` heads in `expanded`. The parameters of
 * both: data, expanded, count, batch_stride, row_stride, head_stride, rows, heads, dim, group.
 */
#define SUM_GROUPS(name, T)                                                                    \
    extern "C" __global__ void name(                                                           \
        T *data, const T *expanded, int64_t count, int64_t batch_stride, int64_t row_stride,   \
        int64_t head_stride, int64_t rows, int64_t heads, int64_t dim, int64_t group)          \
    {                                                                                          \
        sum_groups<T>(data, expanded, count, batch_stride, row_stride, head_stride, rows,      \
                      heads, dim, group);                                                      \
    }
SUM_GROUPS(af_sum_groups_fp16, __half)
SUM_GROUPS(af_sum_groups_bf16, __nv_bfloat16)
