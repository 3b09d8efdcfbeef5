/*
 * float_kernels.h: the kernels of an instruction set that multiply floats: for f32, f16 and
 * bf16; and, without a backward, for fp8 keys and values with queries of any of these types.
 * Elements are converted as they are read; decode widens fp8 to f16 first.
 *
 * Parameters: those of type_kernels.h that do not depend on the type.
 */
#define AF_PAIRS 0
#define AF_F8 0
#define AF_STORED AF_ELEMENT

#define AF_TYPE f32
#define AF_DTYPE ANYFLASH_F32
#define AF_ELEMENT float
#define AF_DIRECT 1
#define AF_LOAD vec_loadu
#define AF_LOAD_SOME vec_load_some
#define AF_STORE vec_store_some
#include "engine/cpu/type_kernels.h"
#undef AF_TYPE
#undef AF_DTYPE
#undef AF_ELEMENT
#undef AF_DIRECT
#undef AF_LOAD
#undef AF_LOAD_SOME
#undef AF_STORE

#define AF_ELEMENT uint16_t
#define AF_DIRECT 0

#define AF_TYPE f16
#define AF_DTYPE ANYFLASH_F16
#define AF_LOAD vec_load_f16
#define AF_LOAD_SOME vec_load_some_f16
#define AF_STORE vec_store_f16
#include "engine/cpu/type_kernels.h"
#undef AF_TYPE
#undef AF_DTYPE
#undef AF_LOAD
#undef AF_LOAD_SOME
#undef AF_STORE

#define AF_TYPE bf16
#define AF_DTYPE ANYFLASH_BF16
#define AF_LOAD vec_load_bf16
#define AF_LOAD_SOME vec_load_some_bf16
#define AF_STORE vec_store_bf16
#include "engine/cpu/type_kernels.h"
#undef AF_TYPE
#undef AF_DTYPE
#undef AF_LOAD
#undef AF_LOAD_SOME
#undef AF_F8
#undef AF_STORED

#include "engine/cpu/widen_f8.h"

#define AF_TYPE f8
#define AF_DTYPE 0
#define AF_F8 1
#define AF_STORED uint8_t
#define AF_LOAD vec_load_f16
#define AF_LOAD_SOME vec_load_some_f16
#define AF_WIDEN af_widen_f16
#define AF_WIDE_UNIT AF_F16_UNIT
#define AF_WIDE_DTYPE ANYFLASH_F16
#include "engine/cpu/type_kernels.h"
