/* torch's generator reduced to a seed and an offset; its state is torch's own struct. */
#pragma once
#include <mutex>

#include <ATen/cuda/detail/PhiloxCudaStateRaw.cuh>

namespace at {
struct CUDAGeneratorImpl {
    std::mutex mutex_;
    uint64_t seed = 0, offset = 0;
    PhiloxCudaState philox_cuda_state(uint64_t increment)
    {
        offset += increment;
        return PhiloxCudaState(seed, offset - increment);
    }
};
namespace cuda {
namespace detail {
inline CUDAGeneratorImpl &getDefaultCUDAGenerator()
{
    static CUDAGeneratorImpl generator;
    return generator;
}
} // namespace detail
} // namespace cuda
template <typename T, typename Given>
T *get_generator_or_default(const Given &, CUDAGeneratorImpl &generator)
{
    return &generator;
}
} // namespace at
