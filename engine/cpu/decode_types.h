/*
 * decode_types.h: includes the decode kernel four times: for f32, for f16, for bf16, and
 * for fp8 keys and values, which are widened to f16, with queries of any of these types.
 *
 * Parameters: those of decode_template.h that do not depend on the type.
 */
#define AF_STORED_BYTES(problem) ((void)(problem), (int64_t)sizeof(AF_STORED))
#define DECODE_SMALL 0
#define AF_TEMPLATE "engine/cpu/decode_template.h"
#define AF_ROW AF_DECODE_ROW
#include "engine/cpu/element_types.h"

#include "engine/cpu/widen_f8.h"

#define AF_PAIRS 0
#define AF_F8 1
#define AF_FN(name) name##_f8
#define AF_ELEMENT uint16_t
#define AF_STORED uint8_t
#define AF_LOAD vec_load_f16
#define AF_LOAD_SOME vec_load_some_f16
#define AF_WIDEN af_widen_f16
#define AF_WIDE_UNIT AF_F16_UNIT
#define AF_WIDE_DTYPE ANYFLASH_F16
#include "engine/cpu/finite_template.h"
#include AF_TEMPLATE
AF_DECODE_ROW_F8(f8, 0);
