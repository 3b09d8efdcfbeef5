/*
 * assertion_texts.h: where the assertions of torch's headers stand that were
 * compiled into a file: their texts name header and line, as
 * "... INTERNAL ASSERT FAILED at \".../torch/include/c10/core/TensorImpl.h\":1332, please ...".
 */
#ifndef AF_KIT_FORMATS_ASSERTION_TEXTS_H
#define AF_KIT_FORMATS_ASSERTION_TEXTS_H

#include "kit/formats/binary.h"

#define AF_ASSERTION_TEXTS_MAX 128u

/*
 * "c10/core/TensorImpl.h:1332" for each, once, the first AF_ASSERTION_TEXTS_MAX
 * of the bytes. Empty without memory (the arena has failed then).
 */
struct af_texts af_assertion_texts(struct af_arena *arena, struct af_span bytes);

#endif
