/*
 * The state of torch's random generator, which is a member of the parameters of
 * FlashAttention-2's kernels. Its layout is that of torch 2.4 to 2.15.
 */
#pragma once
#include <cstdint>

namespace at {
struct PhiloxCudaState {
    union payload {
        uint64_t value;
        const int64_t *pointer; /* on the device */
    };
    payload seed_ = {0};
    payload offset_ = {0};
    uint32_t offset_intragraph_ = 0;
    bool captured_ = false; /* seed and offset are pointers */
};
} // namespace at
