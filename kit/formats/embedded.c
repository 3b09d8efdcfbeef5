/*
 * embedded.c: decompresses the embedded data and reads its tables.
 */
#include "kit/formats/embedded.h"

#include <string.h>

#include <zstd.h>

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
    if (bytes == NULL)
        return af_fail_memory(err);
    size_t got = ZSTD_decompress(bytes, (size_t)len, embedded->bytes, embedded->len);
    if (ZSTD_isError(got) || got != (size_t)len)
        return af_fail(err, ANYFLASH_E_INTERNAL, "the embedded data cannot be decompressed");
    *bytes_out = (struct af_span){bytes, (size_t)len};
    return ANYFLASH_OK;
}

bool af_embedded_rows_open(const struct af_embedded *embedded, size_t field_count,
                           struct af_arena *arena, struct af_embedded_rows *rows_out)
{
    struct af_span bytes;
    if (af_embedded_open(embedded, arena, &bytes, NULL) != ANYFLASH_OK)
        return false;
    char *text = af_arena_text_n(arena, bytes.data, bytes.len);
    *rows_out = (struct af_embedded_rows){
        .at = text, .end = text == NULL ? NULL : text + bytes.len, .field_count = field_count};
    return text != NULL;
}

/* Splits the line at its tabs; false if the number of fields is wrong. */
static bool cut_fields(struct af_embedded_rows *rows, char *line)
{
    size_t count = 0;
    while (line != NULL && count < rows->field_count) {
        rows->fields[count++] = line;
        line = strchr(line, '\t');
        if (line != NULL)
            *line++ = '\0';
    }
    return line == NULL && count == rows->field_count;
}

bool af_embedded_row_next(struct af_embedded_rows *rows)
{
    while (rows->at < rows->end) {
        char *line = rows->at;
        char *stop = memchr(line, '\n', (size_t)(rows->end - line));
        rows->at = stop == NULL ? rows->end : stop + 1;
        if (stop != NULL)
            *stop = '\0';
        if (line[0] != '#' && cut_fields(rows, line))
            return true;
    }
    return false;
}
