/*
 * zip_stream.c: compares a member's own header with the directory, and reads members of an
 * open archive, inflated by zlib piece by piece.
 */
#include "kit/formats/zip.h"

#include <string.h>
#include <zlib.h>

#include "kit/formats/little.h"

#define PIECE_BYTES (256u << 10)  /* written to a file at a time */
#define CALL_BYTES_MAX (1u << 30) /* zlib counts in unsigned int */
#define FLAG_SIZES_FOLLOW 8u /* the own header has no sizes: they follow the member's bytes */
#define EXTRA_ZIP64 1u
#define EXTRA_UNICODE_PATH 0x7075u

/* A field of the extra fields: numbers, another name, ... */
struct extra_field {
    unsigned id;
    const unsigned char *bytes;
    size_t len;
};

/* Reads the next field of *at; false at the end and at a field that is longer than the rest. */
static bool next_extra(const unsigned char **at, const unsigned char *end,
                       struct extra_field *field_out)
{
    size_t left = (size_t)(end - *at);
    if (left < 4 || left - 4 < (size_t)af_le16(*at + 2))
        return false;
    *field_out = (struct extra_field){
        .id = (unsigned)af_le16(*at), .bytes = *at + 4, .len = (size_t)af_le16(*at + 2)};
    *at += 4 + field_out->len;
    return true;
}

/*
 * Numbers that exceed 32 bits: a zip64 field contains, in this order, those of
 * size, packed size and offset that are UINT32_MAX in the header.
 */
static bool take_zip64(const struct extra_field *field, struct af_zip_member *member)
{
    uint64_t *const numbers[] = {&member->size_bytes, &member->packed_bytes,
                                 &member->header_at};
    size_t at = 0;
    for (size_t i = 0; i < AF_COUNT(numbers); i++) {
        if (*numbers[i] != UINT32_MAX)
            continue;
        if (field->len - at < 8)
            return false;
        *numbers[i] = af_le64(field->bytes + at);
        at += 8;
    }
    return true;
}

const char *af_zip_take_extra(const unsigned char *extra, size_t len,
                              struct af_zip_member *member)
{
    static const char damaged_field[] = "has a damaged extra field";
    const unsigned char *end = extra + len;
    struct extra_field field;
    bool has_zip64 = false;
    while (next_extra(&extra, end, &field)) {
        if (field.id == EXTRA_UNICODE_PATH)
            return "has a second name in an extra field";
        if (field.id == EXTRA_ZIP64 && (has_zip64 || !take_zip64(&field, member)))
            return damaged_field;
        has_zip64 = has_zip64 || field.id == EXTRA_ZIP64;
    }
    bool is_whole = end - extra < 4; /* fewer bytes than a field are padding */
    bool has_numbers =
        has_zip64 || (member->size_bytes != UINT32_MAX && member->packed_bytes != UINT32_MAX &&
                      member->header_at != UINT32_MAX);
    return is_whole && has_numbers ? NULL : damaged_field;
}

/* Whether a number of the member's own header is the directory's; 0 is said if it follows. */
static bool is_said(uint64_t own, uint64_t number, bool follows)
{
    return own == number || (follows && own == 0);
}

/* What the member's own header and the extra fields behind its name contradict, or NULL. */
static const char *header_problem(const unsigned char *header, const unsigned char *extra,
                                  size_t extra_len, const struct af_zip_member *member)
{
    struct af_zip_member own = {.packed_bytes = af_le32(header + 18),
                                .size_bytes = af_le32(header + 22)};
    const char *problem = af_zip_take_extra(extra, extra_len, &own);
    if (problem != NULL)
        return problem;
    if (af_le16(header + 6) != member->flags || af_le16(header + 8) != member->method)
        return "is packed in another way by its own header";
    const bool follow = (member->flags & FLAG_SIZES_FOLLOW) != 0;
    if (!is_said(own.packed_bytes, member->packed_bytes, follow) ||
        !is_said(own.size_bytes, member->size_bytes, follow) ||
        !is_said(af_le32(header + 14), member->crc32, follow))
        return "has another size or CRC-32 in its own header";
    return NULL;
}

/*
 * Whether `len` bytes behind those of a member are what belongs there: nothing or, if its flag
 * says so, its CRC-32 and sizes, of 4 or 8 bytes, perhaps behind a mark (APPNOTE.TXT 4.3.9).
 */
static bool is_end_of_member(const unsigned char *at, uint64_t len,
                             const struct af_zip_member *member)
{
    if ((member->flags & FLAG_SIZES_FOLLOW) == 0)
        return len == 0;
    if (len == 16 || len == 24) {
        if (memcmp(at, "PK\7\10", 4) != 0)
            return false;
        at += 4;
        len -= 4;
    }
    if (len != 12 && len != 20)
        return false;
    const bool is_wide = len == 20;
    return af_le32(at) == member->crc32 &&
           (is_wide ? af_le64(at + 4) : af_le32(at + 4)) == member->packed_bytes &&
           (is_wide ? af_le64(at + 12) : af_le32(at + 8)) == member->size_bytes;
}

static enum anyflash_status member_fails(const struct af_zip *zip,
                                         const struct af_zip_member *member,
                                         const char *problem, struct anyflash_error *err)
{
    return af_fail(err, ANYFLASH_E_DATA, "'%s': member '%s' %s", zip->name, member->name,
                   problem);
}

enum anyflash_status af_zip_check_header(const struct af_zip *zip,
                                         const struct af_zip_member *member,
                                         uint64_t *data_at_out, struct anyflash_error *err)
{
    const unsigned char *header = (const unsigned char *)zip->bytes.data + member->header_at;
    const unsigned char *name = header + AF_ZIP_HEADER_BYTES;
    size_t name_len = strlen(member->name);
    size_t extra_len = (size_t)af_le16(header + 28);
    uint64_t head_bytes = AF_ZIP_HEADER_BYTES + name_len + extra_len;
    if (memcmp(header, "PK\3\4", 4) != 0 ||
        member->limit_at - member->header_at - member->packed_bytes < head_bytes)
        return member_fails(zip, member, "has a damaged header", err);
    if (af_le16(header + 26) != name_len || memcmp(name, member->name, name_len) != 0)
        return member_fails(zip, member, "has another name in its own header", err);
    const char *problem = header_problem(header, name + name_len, extra_len, member);
    if (problem != NULL)
        return member_fails(zip, member, problem, err);
    const uint64_t data_at = member->header_at + head_bytes;
    const uint64_t end_at = data_at + member->packed_bytes;
    if (!is_end_of_member((const unsigned char *)zip->bytes.data + end_at,
                          member->limit_at - end_at, member))
        return member_fails(zip, member, "is followed by bytes that belong to no member", err);
    *data_at_out = data_at;
    return ANYFLASH_OK;
}

/* A member that is being read, from its start. */
struct stream {
    const struct af_zip *zip;
    const struct af_zip_member *member;
    uint64_t done_bytes;     /* bytes returned so far */
    const unsigned char *at; /* next packed bytes */
    uint64_t packed_left;    /* not given to zlib yet */
    uint32_t crc32;          /* of the bytes returned so far */
    z_stream inflate;        /* of a deflated member */
};

static void *zlib_alloc(void *context, unsigned count, unsigned size_bytes)
{
    (void)context;
    return af_memory_alloc((size_t)count * size_bytes);
}

static void zlib_free(void *context, void *memory)
{
    (void)context;
    af_memory_free(memory);
}

static void close_stream(struct stream *stream)
{
    if (stream->member->method == AF_ZIP_DEFLATED)
        inflateEnd(&stream->inflate);
}

/* Close it after success. */
static enum anyflash_status open_stream(const struct af_zip *zip,
                                        const struct af_zip_member *member,
                                        struct stream *stream_out, struct anyflash_error *err)
{
    uint64_t data_at = 0;
    enum anyflash_status status = af_zip_check_header(zip, member, &data_at, err);
    if (status != ANYFLASH_OK)
        return status;
    *stream_out = (struct stream){.zip = zip,
                                  .member = member,
                                  .at = (const unsigned char *)zip->bytes.data + data_at,
                                  .packed_left = member->packed_bytes,
                                  .inflate = {.zalloc = zlib_alloc, .zfree = zlib_free}};
    /* Negative: no zlib header around the deflated bytes. */
    if (member->method == AF_ZIP_DEFLATED &&
        inflateInit2(&stream_out->inflate, -MAX_WBITS) != Z_OK)
        af_memory_end();
    return ANYFLASH_OK;
}

/* Gives packed bytes to zlib if it has none and some are left. */
static void feed(struct stream *stream)
{
    if (stream->inflate.avail_in > 0)
        return;
    size_t len =
        stream->packed_left < CALL_BYTES_MAX ? (size_t)stream->packed_left : CALL_BYTES_MAX;
    stream->inflate.next_in = (unsigned char *)(uintptr_t)stream->at;
    stream->inflate.avail_in = (unsigned)len;
    stream->at += len;
    stream->packed_left -= len;
}

/* Fills `to`. */
static enum anyflash_status inflate_piece(struct stream *stream, unsigned char *to, size_t len,
                                          struct anyflash_error *err)
{
    z_stream *inflating = &stream->inflate;
    inflating->next_out = to;
    inflating->avail_out = (unsigned)len;
    while (inflating->avail_out > 0) {
        feed(stream);
        int result = inflate(inflating, Z_NO_FLUSH);
        if (result == Z_MEM_ERROR)
            af_memory_end();
        if (result == Z_STREAM_END && inflating->avail_out > 0)
            return member_fails(stream->zip, stream->member,
                                "is shorter than its directory says", err);
        if (result != Z_OK && result != Z_STREAM_END)
            return member_fails(stream->zip, stream->member, "cannot be inflated", err);
    }
    return ANYFLASH_OK;
}

/* After the last byte, nothing may follow, neither packed nor unpacked. */
static enum anyflash_status end_inflate(struct stream *stream, struct anyflash_error *err)
{
    unsigned char more = 0;
    int result = Z_OK;
    stream->inflate.next_out = &more;
    stream->inflate.avail_out = 1;
    while (result == Z_OK && stream->inflate.avail_out > 0) {
        feed(stream);
        result = inflate(&stream->inflate, Z_NO_FLUSH);
    }
    if (result == Z_MEM_ERROR)
        af_memory_end();
    if (stream->inflate.avail_out == 0)
        return member_fails(stream->zip, stream->member, "is longer than its directory says",
                            err);
    if (result != Z_STREAM_END || stream->inflate.avail_in > 0 || stream->packed_left > 0)
        return member_fails(stream->zip, stream->member,
                            "does not end where its directory says", err);
    return ANYFLASH_OK;
}

static enum anyflash_status end_member(struct stream *stream, struct anyflash_error *err)
{
    enum anyflash_status status =
        stream->member->method == AF_ZIP_DEFLATED ? end_inflate(stream, err) : ANYFLASH_OK;
    if (status == ANYFLASH_OK && stream->crc32 != stream->member->crc32)
        status = member_fails(stream->zip, stream->member,
                              "does not have the CRC-32 that its directory says", err);
    return status;
}

static enum anyflash_status read_piece(struct stream *stream, unsigned char *to, size_t len,
                                       struct anyflash_error *err)
{
    enum anyflash_status status = ANYFLASH_OK;
    if (stream->member->method == AF_ZIP_DEFLATED) {
        status = inflate_piece(stream, to, len, err);
    } else {
        memcpy(to, stream->at, len);
        stream->at += len;
    }
    if (status == ANYFLASH_OK)
        stream->crc32 = (uint32_t)crc32_z(stream->crc32, to, len);
    return status;
}

/*
 * Reads up to `len` next bytes into `to`; *got_out < len only at the member's end, where size
 * and CRC-32 are checked (DATA).
 */
static enum anyflash_status read_stream(struct stream *stream, void *to, size_t len,
                                        size_t *got_out, struct anyflash_error *err)
{
    uint64_t left = stream->member->size_bytes - stream->done_bytes;
    size_t wanted = left < len ? (size_t)left : len;
    for (size_t done = 0; done < wanted;) {
        size_t piece = wanted - done < CALL_BYTES_MAX ? wanted - done : CALL_BYTES_MAX;
        enum anyflash_status status =
            read_piece(stream, (unsigned char *)to + done, piece, err);
        if (status != ANYFLASH_OK)
            return status;
        done += piece;
        stream->done_bytes += piece;
    }
    if (left == wanted) {
        enum anyflash_status status = end_member(stream, err);
        if (status != ANYFLASH_OK)
            return status;
    }
    *got_out = wanted;
    return ANYFLASH_OK;
}

enum anyflash_status af_zip_read_start(const struct af_zip *zip,
                                       const struct af_zip_member *member,
                                       struct af_arena *arena, size_t max_bytes,
                                       struct af_span *bytes_out, struct anyflash_error *err)
{
    struct stream stream;
    size_t len = member->size_bytes < max_bytes ? (size_t)member->size_bytes : max_bytes;
    enum anyflash_status status = open_stream(zip, member, &stream, err);
    if (status != ANYFLASH_OK)
        return status;
    char *bytes = af_arena_alloc(arena, len + 1);
    status = read_stream(&stream, bytes, len, &len, err);
    close_stream(&stream);
    if (status == ANYFLASH_OK)
        *bytes_out = (struct af_span){bytes, len};
    return status;
}

enum anyflash_status af_zip_read(const struct af_zip *zip, const struct af_zip_member *member,
                                 struct af_arena *arena, size_t max_bytes,
                                 struct af_span *bytes_out, struct anyflash_error *err)
{
    if (member->size_bytes > max_bytes)
        return af_fail(err, ANYFLASH_E_LIMIT,
                       "'%s': member '%s' has %llu bytes; at most %zu are read", zip->name,
                       member->name, (unsigned long long)member->size_bytes, max_bytes);
    return af_zip_read_start(zip, member, arena, max_bytes, bytes_out, err);
}

enum anyflash_status af_zip_extract(const struct af_zip *zip,
                                    const struct af_zip_member *member, af_zip_take *write,
                                    void *context, struct anyflash_error *err)
{
    struct stream stream;
    enum anyflash_status status = open_stream(zip, member, &stream, err);
    if (status != ANYFLASH_OK)
        return status;
    char *piece = af_memory_alloc(PIECE_BYTES);
    for (size_t got = PIECE_BYTES; status == ANYFLASH_OK && got == PIECE_BYTES;) {
        status = read_stream(&stream, piece, PIECE_BYTES, &got, err);
        if (status == ANYFLASH_OK)
            status = write(context, piece, got, err);
    }
    af_memory_free(piece);
    close_stream(&stream);
    return status;
}
