/*
 * fuzz_safetensors.c: any bytes as a file of safetensors.h; what is found lies within them.
 */
#include "formats/safetensors.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static unsigned seen;
    struct af_span bytes = {(const char *)data, size};
    struct af_array array;
    if (af_safetensors_read(bytes, "fuzz", "q", &array, NULL) != ANYFLASH_OK)
        return 0;
    if (array.len > size || array.data < data || array.data + array.len > data + size)
        abort();
    if (array.len > 0)
        seen += (unsigned)array.data[0] + array.data[array.len - 1];
    return 0;
}
