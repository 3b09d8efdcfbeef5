/*
 * flash-attn's own flash_api.cpp, unchanged, for tensors on the CPU: its answers to a call
 * are what its kernels would be given. Of torch's CUDA headers it includes, the ones in this
 * folder take the place.
 */
#include <torch/nn/functional.h>
#include <torch/python.h>

#define is_cuda is_cpu
#define kCUDA kCPU
#include "flash_api.cpp"

extern "C" __attribute__((visibility("default"))) void set_random(uint64_t seed,
                                                                  uint64_t offset)
{
    at::cuda::detail::getDefaultCUDAGenerator().seed = seed;
    at::cuda::detail::getDefaultCUDAGenerator().offset = offset;
}
