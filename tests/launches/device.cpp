/*
 * device.cpp: the CUDA runtime as flash-attn's launchers call it, on the CPU: one GPU of the
 * compute capability FAKE_CUDA_SM (90).
 */
#include <cstdlib>
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

/* As fake_driver.c. */
cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int)
{
    const char *text = getenv("FAKE_CUDA_SM");
    const int sm = text == nullptr ? 90 : atoi(text);
    const bool small = sm == 86 || sm == 89 || sm / 10 == 12;
    *value = attribute == cudaDevAttrMultiProcessorCount            ? (sm / 10 == 9 ? 132
                                                                       : sm == 80   ? 108
                                                                                    : 84)
             : attribute == cudaDevAttrMaxSharedMemoryPerBlockOptin ? (small      ? 99
                                                                       : sm == 80 ? 163
                                                                                  : 227) *
                                                                          1024
             : attribute == cudaDevAttrMaxSharedMemoryPerMultiprocessor ? (small      ? 100
                                                                           : sm == 80 ? 164
                                                                                      : 228) *
                                                                              1024
             : attribute == cudaDevAttrComputeCapabilityMajor ? sm / 10
             : attribute == cudaDevAttrComputeCapabilityMinor ? sm % 10
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
