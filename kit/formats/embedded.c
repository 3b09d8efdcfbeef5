/*
 * embedded.c: decompresses the embedded data.
 */
#include "kit/formats/embedded.h"

#include <zstd.h>
#include <zstd_errors.h>

#define EXPANDED_BYTES_MAX (32u * 1024u * 1024u)

enum anyflash_status af_embedded_open(const struct af_embedded *embedded,
                                      struct af_arena *arena, struct af_span *bytes_out,
                                      struct anyflash_error *err)
{
    unsigned long long len = ZSTD_getFrameContentSize(embedded->bytes, embedded->len);
    if (len == ZSTD_CONTENTSIZE_ERROR || len == ZSTD_CONTENTSIZE_UNKNOWN ||
        len > EXPANDED_BYTES_MAX)
        return af_fail(err, ANYFLASH_E_INTERNAL, "the embedded data has no size");
    char *bytes = af_arena_alloc(arena, (size_t)len);
    size_t got = ZSTD_decompress(bytes, (size_t)len, embedded->bytes, embedded->len);
    if (ZSTD_getErrorCode(got) == ZSTD_error_memory_allocation)
        af_memory_end();
    if (ZSTD_isError(got) || got != (size_t)len)
        return af_fail(err, ANYFLASH_E_INTERNAL, "the embedded data cannot be decompressed");
    *bytes_out = (struct af_span){bytes, (size_t)len};
    return ANYFLASH_OK;
}
