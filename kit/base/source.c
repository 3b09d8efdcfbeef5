/*
 * source.c: the range check that all sources share, and sources over memory. A
 * source over a file is system/file.h.
 */
#include "kit/base/source.h"

#include <string.h>

static enum anyflash_status read_bytes(struct af_source *source, uint64_t offset, void *to,
                                       size_t len, struct anyflash_error *err)
{
    (void)err;
    memcpy(to, (const char *)source->context + offset, len);
    source->bytes_read += len;
    return ANYFLASH_OK;
}

void af_source_of_bytes(struct af_span bytes, const char *name, struct af_source *source_out)
{
    *source_out = (struct af_source){.size_bytes = bytes.len,
                                     .name = name,
                                     .read_at = read_bytes,
                                     .context = (void *)(uintptr_t)bytes.data};
}

enum anyflash_status af_source_read(struct af_source *source, uint64_t offset, void *to,
                                    size_t len, struct anyflash_error *err)
{
    if (offset > source->size_bytes || len > source->size_bytes - offset)
        return af_fail(err, ANYFLASH_E_DATA,
                       "'%s' is truncated: the %zu bytes at offset %llu are past its end",
                       source->name, len, (unsigned long long)offset);
    return len == 0 ? ANYFLASH_OK : source->read_at(source, offset, to, len, err);
}

void af_source_close(struct af_source *source)
{
    if (source->close != NULL)
        source->close(source);
    *source = (struct af_source){0};
}
