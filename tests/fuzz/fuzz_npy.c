/*
 * fuzz_npy.c: any bytes as a file for npy.h; what it finds must be inside them.
 */
#include "kit/formats/npy.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void touch(volatile unsigned first, volatile unsigned last)
{
    (void)(first + last);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct af_span bytes = {(const char *)data, size};
    struct af_npy_array array;
    if (af_npy_read(bytes, "fuzz", &array, NULL) != ANYFLASH_OK)
        return 0;
    if (array.len > size || array.data < data || array.data + array.len > data + size)
        abort();
    if (array.len > 0)
        touch(array.data[0], array.data[array.len - 1]); /* the bytes must be readable */
    return 0;
}
