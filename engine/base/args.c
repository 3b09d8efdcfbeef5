/*
 * args.c: copies a struct of arguments of another version.
 */
#include "engine/base/args.h"

#include <string.h>

/* No version of the header will exceed this; a larger value was never set. */
#define STRUCT_BYTES_MAX 4096

enum anyflash_status af_args_copy(void *copy, size_t copy_bytes, const void *args,
                                  size_t first_version_bytes, struct anyflash_error *err)
{
    size_t given_bytes;
    if (args == NULL)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "args is NULL");
    memcpy(&given_bytes, args, sizeof given_bytes);
    if (given_bytes < first_version_bytes || given_bytes > STRUCT_BYTES_MAX)
        return af_fail(err, ANYFLASH_E_ARGUMENT,
                       "struct_size is %zu; this library knows %zu bytes", given_bytes,
                       copy_bytes);
    for (size_t i = copy_bytes; i < given_bytes; i++) {
        if (((const unsigned char *)args)[i] != 0)
            return af_fail(err, ANYFLASH_E_ARGUMENT,
                           "struct_size is %zu and an option past byte %zu is set; this "
                           "library is older than the header",
                           given_bytes, copy_bytes);
    }
    memset(copy, 0, copy_bytes);
    memcpy(copy, args, given_bytes < copy_bytes ? given_bytes : copy_bytes);
    return ANYFLASH_OK;
}
