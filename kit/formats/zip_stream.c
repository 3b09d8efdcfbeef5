/*
 * zip_stream.c: reads members of an open archive: streams, inflated by zlib
 * piece by piece, and functions based on them. Stored members allow random
 * access.
 */
#include "kit/formats/zip.h"

#include <string.h>
#include <zlib.h>

#include "kit/formats/zip_header.h"

#define PACKED_BYTES (64u << 10)  /* read from the source at a time */
#define PIECE_BYTES (256u << 10)  /* written to a file at a time */
#define CALL_BYTES_MAX (1u << 30) /* zlib counts in unsigned int */

/* State of a member that is being read. */
struct af_zip_inflate {
    struct af_source *source;
    uint64_t at;          /* offset of the next packed bytes */
    uint64_t packed_left; /* not read from the source yet */
    uint32_t crc32;       /* of the bytes returned so far */
    bool ended;           /* size and CRC-32 were checked */
    z_stream inflate;     /* of a deflated member */
    unsigned char packed[PACKED_BYTES];
};

static enum anyflash_status damaged(const struct af_source *source,
                                    const struct af_zip_member *member, const char *problem,
                                    struct anyflash_error *err)
{
    return af_fail(err, ANYFLASH_E_DATA, "'%s': member '%s' %s", source->name, member->name,
                   problem);
}

static void *zlib_alloc(void *context, unsigned count, unsigned size_bytes)
{
    size_t bytes = 0;
    (void)context;
    return af_size_mul(count, size_bytes, &bytes) ? af_mem_alloc(bytes) : NULL;
}

static void zlib_free(void *context, void *memory)
{
    (void)context;
    af_mem_free(memory);
}

void af_zip_stream_close(struct af_zip_stream *stream)
{
    if (stream->state != NULL && stream->member->method == AF_ZIP_DEFLATED)
        inflateEnd(&stream->state->inflate);
    af_mem_free(stream->state);
    *stream = (struct af_zip_stream){0};
}

enum anyflash_status af_zip_stream_open(const struct af_zip *zip,
                                        const struct af_zip_member *member,
                                        struct af_zip_stream *stream_out,
                                        struct anyflash_error *err)
{
    uint64_t data_at = 0;
    enum anyflash_status status = af_zip_check_header(zip->source, member, &data_at, err);
    if (status != ANYFLASH_OK)
        return status;
    struct af_zip_inflate *state = af_mem_alloc(sizeof *state);
    if (state == NULL)
        return af_fail_memory(err);
    state->source = zip->source;
    state->at = data_at;
    state->packed_left = member->packed_bytes;
    state->crc32 = 0;
    state->ended = false;
    state->inflate = (z_stream){.zalloc = zlib_alloc, .zfree = zlib_free};
    /* Negative: no zlib header around the deflated bytes. */
    if (member->method == AF_ZIP_DEFLATED &&
        inflateInit2(&state->inflate, -MAX_WBITS) != Z_OK) {
        af_mem_free(state);
        return af_fail_memory(err);
    }
    *stream_out = (struct af_zip_stream){.member = member, .state = state};
    return ANYFLASH_OK;
}

/* Reads packed bytes for zlib if it has none and some are left. */
static enum anyflash_status feed(struct af_zip_inflate *state, struct anyflash_error *err)
{
    if (state->inflate.avail_in > 0 || state->packed_left == 0)
        return ANYFLASH_OK;
    size_t len = state->packed_left < PACKED_BYTES ? (size_t)state->packed_left : PACKED_BYTES;
    enum anyflash_status status =
        af_source_read(state->source, state->at, state->packed, len, err);
    if (status != ANYFLASH_OK)
        return status;
    state->at += len;
    state->packed_left -= len;
    state->inflate.next_in = state->packed;
    state->inflate.avail_in = (unsigned)len;
    return ANYFLASH_OK;
}

/* Fills `to`. */
static enum anyflash_status inflate_piece(struct af_zip_stream *stream, unsigned char *to,
                                          size_t len, struct anyflash_error *err)
{
    struct af_zip_inflate *state = stream->state;
    z_stream *inflating = &state->inflate;
    inflating->next_out = to;
    inflating->avail_out = (unsigned)len;
    while (inflating->avail_out > 0) {
        enum anyflash_status status = feed(state, err);
        if (status != ANYFLASH_OK)
            return status;
        int result = inflate(inflating, Z_NO_FLUSH);
        if (result == Z_MEM_ERROR)
            return af_fail_memory(err);
        if (result == Z_STREAM_END && inflating->avail_out > 0)
            return damaged(state->source, stream->member, "is shorter than its directory says",
                           err);
        if (result != Z_OK && result != Z_STREAM_END)
            return damaged(state->source, stream->member, "cannot be inflated", err);
    }
    return ANYFLASH_OK;
}

/* After the last byte, nothing may follow, neither packed nor unpacked. */
static enum anyflash_status end_inflate(struct af_zip_stream *stream,
                                        struct anyflash_error *err)
{
    struct af_zip_inflate *state = stream->state;
    unsigned char more = 0;
    int result = Z_OK;
    state->inflate.next_out = &more;
    state->inflate.avail_out = 1;
    while (result == Z_OK && state->inflate.avail_out > 0) {
        enum anyflash_status status = feed(state, err);
        if (status != ANYFLASH_OK)
            return status;
        result = inflate(&state->inflate, Z_NO_FLUSH);
    }
    if (result == Z_MEM_ERROR)
        return af_fail_memory(err);
    if (state->inflate.avail_out == 0)
        return damaged(state->source, stream->member, "is longer than its directory says", err);
    if (result != Z_STREAM_END || state->inflate.avail_in > 0 || state->packed_left > 0)
        return damaged(state->source, stream->member, "does not end where its directory says",
                       err);
    return ANYFLASH_OK;
}

static enum anyflash_status end_member(struct af_zip_stream *stream, struct anyflash_error *err)
{
    struct af_zip_inflate *state = stream->state;
    if (state->ended)
        return ANYFLASH_OK;
    state->ended = true;
    enum anyflash_status status =
        stream->member->method == AF_ZIP_DEFLATED ? end_inflate(stream, err) : ANYFLASH_OK;
    if (status == ANYFLASH_OK && state->crc32 != stream->member->crc32)
        status = damaged(state->source, stream->member,
                         "does not have the CRC-32 that its directory says", err);
    return status;
}

static enum anyflash_status read_piece(struct af_zip_stream *stream, unsigned char *to,
                                       size_t len, struct anyflash_error *err)
{
    struct af_zip_inflate *state = stream->state;
    enum anyflash_status status;
    if (stream->member->method == AF_ZIP_DEFLATED) {
        status = inflate_piece(stream, to, len, err);
    } else {
        status = af_source_read(state->source, state->at, to, len, err);
        state->at += len;
    }
    if (status == ANYFLASH_OK)
        state->crc32 = (uint32_t)crc32_z(state->crc32, to, len);
    return status;
}

enum anyflash_status af_zip_stream_read(struct af_zip_stream *stream, void *to, size_t len,
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
    struct af_zip_stream stream;
    size_t len = member->size_bytes < max_bytes ? (size_t)member->size_bytes : max_bytes;
    enum anyflash_status status = af_zip_stream_open(zip, member, &stream, err);
    if (status != ANYFLASH_OK)
        return status;
    char *bytes = len < SIZE_MAX ? af_arena_alloc(arena, len + 1) : NULL;
    if (bytes == NULL)
        status = af_fail_memory(err);
    else
        status = af_zip_stream_read(&stream, bytes, len, &len, err);
    af_zip_stream_close(&stream);
    if (status == ANYFLASH_OK)
        *bytes_out = (struct af_span){bytes, len};
    return status;
}

enum anyflash_status af_zip_read(const struct af_zip *zip, const struct af_zip_member *member,
                                 struct af_arena *arena, size_t max_bytes,
                                 struct af_span *bytes_out, struct anyflash_error *err)
{
    if (member->size_bytes > max_bytes)
        return af_fail(
            err, ANYFLASH_E_LIMIT, "'%s': member '%s' has %llu bytes; at most %zu are read",
            zip->source->name, member->name, (unsigned long long)member->size_bytes, max_bytes);
    return af_zip_read_start(zip, member, arena, max_bytes, bytes_out, err);
}

enum anyflash_status af_zip_extract(const struct af_zip *zip,
                                    const struct af_zip_member *member, af_zip_write *write,
                                    void *context, struct anyflash_error *err)
{
    struct af_zip_stream stream;
    enum anyflash_status status = af_zip_stream_open(zip, member, &stream, err);
    if (status != ANYFLASH_OK)
        return status;
    char *piece = af_mem_alloc(PIECE_BYTES);
    if (piece == NULL)
        status = af_fail_memory(err);
    for (size_t got = PIECE_BYTES; status == ANYFLASH_OK && got == PIECE_BYTES;) {
        status = af_zip_stream_read(&stream, piece, PIECE_BYTES, &got, err);
        if (status == ANYFLASH_OK)
            status = write(context, piece, got, err);
    }
    af_mem_free(piece);
    af_zip_stream_close(&stream);
    return status;
}
