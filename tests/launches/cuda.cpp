/*
 * cuda.cpp: the CUDA runtime as flash-attn's extension calls it, for memory of the CPU: one GPU
 * of compute capability 9.0 with 132 multiprocessors.
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
