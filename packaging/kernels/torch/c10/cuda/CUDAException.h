/*
 * The two macros of torch that FlashAttention-2's launchers use. An error of CUDA becomes
 * a C++ exception, which the functions of anyflash_cuda.h turn into a status.
 */
#pragma once
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

struct af_glue_failure {
    cudaError_t code;
};

#define C10_CUDA_CHECK(call)                                                                   \
    do {                                                                                       \
        const cudaError_t af_code_ = (call);                                                   \
        if (af_code_ != cudaSuccess) {                                                         \
            (void)cudaGetLastError();                                                          \
            throw af_glue_failure{af_code_};                                                   \
        }                                                                                      \
    } while (0)
#define C10_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_CHECK(cudaGetLastError())
