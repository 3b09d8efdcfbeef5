/*
 * element_types.h: includes a kernel template three times, for f32, f16 and
 * bf16; the latter two are converted to f32 as they are read. After each it adds
 * the manifest row.
 *
 * Parameters: AF_TEMPLATE the file to include; AF_ROW(type, dtype) one of the
 * macros of kernels.h; all other parameters of the template.
 */
#define AF_PAIRS 0
#define AF_F8 0
#define AF_STORED AF_ELEMENT

#define AF_FN(name) name##_f32
#define AF_ELEMENT float
#define AF_DIRECT 1
#define AF_LOAD vec_loadu
#define AF_LOAD_SOME vec_load_some
#define AF_STORE vec_store_some
#include "engine/cpu/finite_template.h"
#include AF_TEMPLATE
AF_ROW(f32, ANYFLASH_F32);
#undef AF_FN
#undef AF_ELEMENT
#undef AF_DIRECT
#undef AF_LOAD
#undef AF_LOAD_SOME
#undef AF_STORE

#define AF_ELEMENT uint16_t
#define AF_DIRECT 0

#define AF_FN(name) name##_f16
#define AF_LOAD vec_load_f16
#define AF_LOAD_SOME vec_load_some_f16
#define AF_STORE vec_store_f16
#include "engine/cpu/finite_template.h"
#include AF_TEMPLATE
AF_ROW(f16, ANYFLASH_F16);
#undef AF_FN
#undef AF_LOAD
#undef AF_LOAD_SOME
#undef AF_STORE

#define AF_FN(name) name##_bf16
#define AF_LOAD vec_load_bf16
#define AF_LOAD_SOME vec_load_some_bf16
#define AF_STORE vec_store_bf16
#include "engine/cpu/finite_template.h"
#include AF_TEMPLATE
AF_ROW(bf16, ANYFLASH_BF16);
#undef AF_FN
#undef AF_LOAD
#undef AF_LOAD_SOME
#undef AF_STORE

#undef AF_ELEMENT
#undef AF_STORED
#undef AF_DIRECT
#undef AF_F8
#undef AF_PAIRS
