/*
 * array.c: sizes and names of what arrays hold. Used by npy.c, safetensors.c
 * and `anyflash attend`.
 */
#include "kit/formats/array.h"

const char *af_element_text(enum af_element element)
{
    switch (element) {
    case AF_ELEMENT_F32:
        return "f32";
    case AF_ELEMENT_F16:
        return "f16";
    case AF_ELEMENT_BF16:
        return "bf16";
    default:
        return "16 bits without a type";
    }
}

size_t af_element_bytes(enum af_element element)
{
    return element == AF_ELEMENT_F32 ? 4 : 2;
}

bool af_formats_array_bytes(const struct af_npy_array *array, size_t *bytes_out)
{
    size_t bytes = af_element_bytes(array->element);
    bool is_empty = false;
    for (size_t i = 0; i < array->dim_count; i++) {
        if (array->dims[i] < 0)
            return false;
        is_empty = is_empty || array->dims[i] == 0;
    }
    for (size_t i = 0; i < array->dim_count && !is_empty; i++)
        if (!af_size_mul(bytes, (size_t)array->dims[i], &bytes))
            return false;
    *bytes_out = is_empty ? 0 : bytes;
    return true;
}
