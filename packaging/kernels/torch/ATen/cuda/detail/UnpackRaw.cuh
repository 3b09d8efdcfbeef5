/* Seed and offset of a generator's state, read by the kernels. */
#pragma once
#include <tuple>

#include <ATen/cuda/CUDAGeneratorImpl.h>

namespace at {
namespace cuda {
namespace philox {
__host__ __device__ __forceinline__ std::tuple<uint64_t, uint64_t> unpack(PhiloxCudaState state)
{
    if (!state.captured_)
        return std::make_tuple(state.seed_.value, state.offset_.value);
    return std::make_tuple(static_cast<uint64_t>(*state.seed_.pointer),
                           static_cast<uint64_t>(*state.offset_.pointer) +
                               state.offset_intragraph_);
}
} // namespace philox
} // namespace cuda
} // namespace at
