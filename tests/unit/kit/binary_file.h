/*
 * binary_file.h: the facts of a shared library in a file, for tests.
 */
#ifndef AF_TESTS_UNIT_KIT_BINARY_FILE_H
#define AF_TESTS_UNIT_KIT_BINARY_FILE_H

#include "kit/formats/binary.h"
#include "kit/system/file.h"

static inline enum anyflash_status read_binary_file(struct af_arena *arena, const char *path,
                                                    struct af_binary *out,
                                                    struct anyflash_error *err)
{
    struct af_mapping mapping;
    enum anyflash_status status = af_file_map(path, &mapping, err);
    if (status != ANYFLASH_OK)
        return status;
    struct af_span bytes = {(const char *)mapping.data, mapping.len};
    status = af_binary_read(arena, bytes, path, out, err);
    af_file_unmap(&mapping);
    return status;
}

#endif
