/* torch's guard of the current device, without a device. */
#pragma once
namespace at {
namespace cuda {
struct CUDAGuard {
    explicit CUDAGuard(at::Device)
    {
    }
};
} // namespace cuda
} // namespace at
