/*
 * cuda.cpp: the CUDA runtime as the glue calls it, for memory of the CPU: one GPU of compute
 * capability 9.0 with 132 multiprocessors. The small kernels of fill.cu run here.
 */
#include <cstring>

#include <cuda_runtime.h>

extern "C" {
cudaError_t cudaGetDevice(int *device)
{
    *device = 0;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int)
{
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int)
{
    *value = attribute == cudaDevAttrMultiProcessorCount                ? 132
             : attribute == cudaDevAttrMaxSharedMemoryPerBlockOptin     ? 232448
             : attribute == cudaDevAttrMaxSharedMemoryPerMultiprocessor ? 233472
             : attribute == cudaDevAttrComputeCapabilityMajor           ? 9
                                                                        : 0;
    return cudaSuccess;
}

cudaError_t cudaGetLastError()
{
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t)
{
    return "none";
}

cudaError_t cudaMemsetAsync(void *data, int value, size_t bytes, cudaStream_t)
{
    memset(data, value, bytes);
    return cudaSuccess;
}
}

#ifdef WITH_GLUE
#include "glue.h"

#include <cutlass/numeric_types.h>

template <typename Body>
static void each(int64_t batch, int64_t rows, int64_t heads, int64_t dim, const Body &body)
{
    for (int64_t b = 0; b < batch; b++)
        for (int64_t row = 0; row < rows; row++)
            for (int64_t h = 0; h < heads; h++)
                for (int64_t d = 0; d < dim; d++)
                    body(b, row, h, d);
}

static uint16_t *element(const struct anyflash_tensor *t, int64_t b, int64_t row, int64_t h,
                         int64_t d)
{
    return (uint16_t *)t->data + b * t->batch_stride + row * t->row_stride +
           h * t->head_stride + d;
}

void af_glue_fill(float *data, int64_t count, float value, cudaStream_t)
{
    for (int64_t i = 0; i < count; i++)
        data[i] = value;
}

void af_glue_clear(const struct anyflash_tensor *tensor, int64_t batch, int64_t rows,
                   int64_t heads, int64_t dim, cudaStream_t)
{
    each(batch, rows, heads, dim, [&](int64_t b, int64_t row, int64_t h, int64_t d) {
        *element(tensor, b, row, h, d) = 0;
    });
}

template <typename T>
static void sum(const struct anyflash_tensor *tensor, const T *expanded, int64_t batch,
                int64_t rows, int64_t heads, int64_t group, int64_t dim)
{
    each(batch, rows, heads, dim, [&](int64_t b, int64_t row, int64_t h, int64_t d) {
        float total = 0;
        for (int64_t i = 0; i < group; i++)
            total += float(expanded[(((b * rows + row) * heads + h) * group + i) * dim + d]);
        *(T *)element(tensor, b, row, h, d) = T(total);
    });
}

void af_glue_sum_groups(const struct anyflash_tensor *tensor, const void *expanded,
                        int64_t batch, int64_t rows, int64_t heads, int64_t group, int64_t dim,
                        cudaStream_t)
{
    if (tensor->dtype == ANYFLASH_BF16)
        sum(tensor, (const cutlass::bfloat16_t *)expanded, batch, rows, heads, group, dim);
    else
        sum(tensor, (const cutlass::half_t *)expanded, batch, rows, heads, group, dim);
}
#endif
