/*
 * zip_write.c: the bytes of an archive around those of its members: headers, directory, end
 * (APPNOTE.TXT 6.3, without zip64).
 */
#include "kit/formats/zip.h"

#include <string.h>

#include "kit/base/text.h"

#define DATE 0x21 /* 1980-01-01, the first that zip has */
#define MADE_BY_UNIX (3u << 8 | 20u)
#define ENTRY_BYTES 46
#define END_BYTES 22
#define UTF8_NAME 0x800

/* The headers of a member. */
struct headers {
    unsigned char own[AF_ZIP_HEADER_BYTES];
    unsigned char entry[ENTRY_BYTES]; /* in the directory */
};

/* Little-endian numbers of a header. */
static unsigned char *put(unsigned char *at, uint32_t number, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        *at++ = (unsigned char)(number >> 8 * i);
    return at;
}

/* The part that a member's own header and its entry in the directory share. */
static unsigned char *put_common(unsigned char *at, const struct af_zip_packed *packed)
{
    at = put(at, 20, 2); /* needs version 2.0 */
    at = put(at, UTF8_NAME, 2);
    at = put(at, packed->method, 2);
    at = put(at, 0, 2);
    at = put(at, DATE, 2);
    at = put(at, packed->crc32, 4);
    at = put(at, (uint32_t)packed->bytes.len, 4);
    at = put(at, (uint32_t)packed->size_bytes, 4);
    at = put(at, (uint32_t)strlen(packed->name), 2);
    return put(at, 0, 2);
}

static void put_headers(struct headers *headers, const struct af_zip_packed *packed,
                        uint64_t header_at)
{
    const unsigned kind = af_ends_with(packed->name, "/") ? 0040000u : 0100000u;
    put_common(put(headers->own, 0x04034b50, 4), packed);
    unsigned char *at = put(headers->entry, 0x02014b50, 4);
    at = put_common(put(at, MADE_BY_UNIX, 2), packed);
    at = put(put(at, 0, 2), 0, 4); /* comment, disk, internal attributes */
    at = put(at, (kind | packed->mode) << 16, 4);
    put(at, (uint32_t)header_at, 4);
}

static void put_end(unsigned char *end, size_t count, uint64_t directory_at,
                    uint64_t directory_bytes)
{
    unsigned char *at = put(put(end, 0x06054b50, 4), 0, 4);
    at = put(put(at, (uint32_t)count, 2), (uint32_t)count, 2);
    at = put(put(at, (uint32_t)directory_bytes, 4), (uint32_t)directory_at, 4);
    put(at, 0, 2);
}

/* Adds a piece of the file; returns the size of the file with it. */
static uint64_t add_piece(struct af_span *pieces, size_t *count, uint64_t at, const void *data,
                          size_t len)
{
    pieces[(*count)++] = (struct af_span){data, len};
    return at + len;
}

enum anyflash_status af_zip_write(const struct af_zip_packed *members, size_t member_count,
                                  struct af_arena *arena, const struct af_span **pieces_out,
                                  size_t *count_out, struct anyflash_error *err)
{
    struct headers *headers = af_arena_array(arena, member_count, sizeof *headers);
    struct af_span *pieces = af_arena_array(arena, 5 * member_count + 1, sizeof *pieces);
    unsigned char *end = af_arena_alloc(arena, END_BYTES);
    size_t count = 0;
    uint64_t at = 0;
    bool fits = member_count < UINT16_MAX;
    for (size_t i = 0; i < member_count; i++) {
        const struct af_zip_packed *member = &members[i];
        fits = fits && member->size_bytes < UINT32_MAX && member->bytes.len < UINT32_MAX;
        put_headers(&headers[i], member, at);
        at = add_piece(pieces, &count, at, headers[i].own, AF_ZIP_HEADER_BYTES);
        at = add_piece(pieces, &count, at, member->name, strlen(member->name));
        at = add_piece(pieces, &count, at, member->bytes.data, member->bytes.len);
    }
    const uint64_t directory_at = at;
    for (size_t i = 0; i < member_count; i++) {
        at = add_piece(pieces, &count, at, headers[i].entry, ENTRY_BYTES);
        at = add_piece(pieces, &count, at, members[i].name, strlen(members[i].name));
    }
    put_end(end, member_count, directory_at, at - directory_at);
    add_piece(pieces, &count, at, end, END_BYTES);
    *pieces_out = pieces;
    *count_out = count;
    return fits && at < UINT32_MAX
               ? ANYFLASH_OK
               : af_fail(err, ANYFLASH_E_LIMIT,
                         "the wheel would have more than 4 GiB or 65,534 files");
}

enum anyflash_status af_zip_write_again(const struct af_zip *zip, struct af_arena *arena,
                                        const struct af_span **pieces_out, size_t *count_out,
                                        struct anyflash_error *err)
{
    struct af_zip_packed *packed = af_arena_array(arena, zip->member_count, sizeof *packed);
    enum anyflash_status status = ANYFLASH_OK;
    for (size_t i = 0; status == ANYFLASH_OK && i < zip->member_count; i++) {
        const struct af_zip_member *member = &zip->members[i];
        uint64_t data_at = 0;
        status = af_zip_check_header(zip, member, &data_at, err);
        packed[i] = (struct af_zip_packed){
            .name = member->name,
            .size_bytes = member->size_bytes,
            .bytes = {zip->bytes.data + data_at, (size_t)member->packed_bytes},
            .crc32 = member->crc32,
            .method = member->method,
            .mode = member->is_folder || member->is_executable ? 0755 : 0644};
    }
    return status == ANYFLASH_OK
               ? af_zip_write(packed, zip->member_count, arena, pieces_out, count_out, err)
               : status;
}
