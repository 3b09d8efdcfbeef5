/*
 * file_output.c: arrays as files. Used by attend.
 */
#include "kit/cli/file_output.h"

#include "kit/formats/npy.h"

enum anyflash_status af_cli_npy_write(struct af_arena *arena, const char *path,
                                      const struct af_npy_array *array,
                                      struct anyflash_error *err)
{
    char head[AF_NPY_WRITTEN_BYTES_MAX];
    const struct af_span pieces[] = {
        {head, af_npy_head(array, head)},
        {(const char *)array->data, array->len},
    };
    return af_file_write(arena, path, pieces, AF_COUNT(pieces), err);
}
