// attend.cpp: a stand-in for the glue: finds out which kernels are there.
#include <cuda_runtime.h>
#include <cutlass/numeric_types.h>

#include "anyflash/anyflash.h"
#include "namespace_config.h"
#include "flash.h"

namespace FLASH_NAMESPACE {
template <>
__attribute__((weak)) void run_mha_fwd_<cutlass::bfloat16_t, 64, false>(Flash_fwd_params &, cudaStream_t);
}

extern "C" ANYFLASH_API int anyflash_cuda_has_forward_64(void)
{
    void (*kernel)(FLASH_NAMESPACE::Flash_fwd_params &, cudaStream_t) =
        FLASH_NAMESPACE::run_mha_fwd_<cutlass::bfloat16_t, 64, false>;
    return kernel != nullptr;
}
