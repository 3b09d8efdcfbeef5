/*
 * forward_types.h: includes the forward kernel four times: for f32, for f16, for bf16,
 * and for fp8 keys and values with queries of any of these types. All elements are
 * converted to f32.
 *
 * Parameters: those of forward_template.h that do not depend on the type.
 */
#define AF_TEMPLATE "engine/cpu/forward_template.h"
#define AF_ROW AF_FORWARD_ROW
#include "engine/cpu/element_types.h"

#include "engine/cpu/widen_f8.h"

#define AF_PAIRS 0
#define AF_F8 1
#define AF_FN(name) name##_f8
#define AF_ELEMENT uint16_t
#define AF_STORED uint8_t
#define AF_DIRECT 0
#define AF_LOAD vec_load_f16
#define AF_LOAD_SOME vec_load_some_f16
#include AF_TEMPLATE
AF_FORWARD_ROW_F8(f8, 0, false, 192);
