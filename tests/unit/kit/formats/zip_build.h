/*
 * zip_build.h: writes zip archives field by field, so that any field can be
 * wrong. Deflated members consist of stored blocks (RFC 1951, 3.2.4).
 */
#ifndef AF_TESTS_ZIP_BUILD_H
#define AF_TESTS_ZIP_BUILD_H

#include "engine/base/base.h"

#include <assert.h>
#include <string.h>

#define BUILD_BYTES (256u << 10)
#define BUILD_MEMBERS 16

/* The fields of a member; fields that are zero get the correct value. */
struct member_given {
    const char *name;
    size_t name_len; /* 0: strlen(name) */
    const char *content;
    size_t content_len; /* 0: strlen(content) */
    uint16_t method;    /* the method written; 8 is really deflated */
    uint16_t flags;
    uint32_t external;    /* attributes: Unix mode in the upper half */
    const char *own_name; /* in its own header */
    uint32_t size, packed, crc, own_extra;
    uint16_t own_flags;    /* in its own header; + 1 */
    uint16_t own_method;   /* in its own header; + 1 */
    uint32_t own_size;     /* in its own header */
    const char *extra;     /* extra fields in the directory */
    const char *own_field; /* extra fields in its own header */
    size_t extra_len;      /* of each of the two */
    uint32_t own_header;   /* + 1: where the directory says it is */
    bool is_64;            /* sizes and place in a zip64 field */
};

struct build {
    unsigned char bytes[BUILD_BYTES];
    size_t len;
    struct member_given given[BUILD_MEMBERS];
    uint32_t header_at[BUILD_MEMBERS], size[BUILD_MEMBERS], packed[BUILD_MEMBERS],
        crc[BUILD_MEMBERS];
    size_t count;
    size_t directory_at, directory_len, end_at;
};

static inline void build_number(struct build *build, uint64_t number, size_t bytes)
{
    assert(build->len + bytes <= sizeof build->bytes);
    for (size_t i = 0; i < bytes; i++)
        build->bytes[build->len++] = (unsigned char)(number >> (8 * i));
}

static inline void build_bytes(struct build *build, const char *bytes, size_t len)
{
    assert(build->len + len <= sizeof build->bytes);
    if (len > 0)
        memcpy(build->bytes + build->len, bytes, len);
    build->len += len;
}

static inline uint32_t crc32_of(const char *bytes, size_t len)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < len; i++) {
        crc ^= (unsigned char)bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ 0xedb88320u : crc >> 1;
    }
    return ~crc;
}

/* The content as deflate's stored blocks. */
static inline void build_deflated(struct build *build, const char *content, size_t len)
{
    do {
        size_t piece = len < 60000 ? len : 60000;
        build_number(build, piece == len, 1);
        build_number(build, piece, 2);
        build_number(build, ~piece, 2);
        build_bytes(build, content, piece);
        content += piece;
        len -= piece;
    } while (len > 0);
}

static inline void build_sizes(struct build *build, const struct member_given *given, size_t at)
{
    build_number(build, given->crc != 0 ? given->crc : build->crc[at], 4);
    build_number(build,
                 given->is_64         ? UINT32_MAX
                 : given->packed != 0 ? given->packed
                                      : build->packed[at],
                 4);
    build_number(build,
                 given->is_64       ? UINT32_MAX
                 : given->size != 0 ? given->size
                                    : build->size[at],
                 4);
}

static inline void build_member(struct build *build, struct member_given given)
{
    size_t at = build->count++;
    assert(at < BUILD_MEMBERS);
    given.name_len = given.name_len != 0 ? given.name_len : strlen(given.name);
    if (given.content != NULL && given.content_len == 0)
        given.content_len = strlen(given.content);
    const char *own_name = given.own_name != NULL ? given.own_name : given.name;
    size_t own_len = given.own_name != NULL ? strlen(own_name) : given.name_len;
    struct build body = {.len = 0};
    if (given.method == 8)
        build_deflated(&body, given.content, given.content_len);
    else
        build_bytes(&body, given.content, given.content_len);
    build->given[at] = given;
    build->header_at[at] = (uint32_t)build->len;
    build->size[at] = (uint32_t)given.content_len;
    build->packed[at] = (uint32_t)body.len;
    build->crc[at] = crc32_of(given.content, given.content_len);
    build_bytes(build, "PK\3\4", 4);
    build_number(build, given.is_64 ? 45 : 20, 2);
    build_number(build, given.own_flags != 0 ? given.own_flags - 1u : given.flags, 2);
    build_number(build, given.own_method != 0 ? given.own_method - 1u : given.method, 2);
    build_number(build, 0, 4);
    struct member_given own = given;
    own.size = own.own_size != 0 ? own.own_size : own.size;
    build_sizes(build, &own, at);
    build_number(build, own_len, 2);
    build_number(build,
                 given.is_64               ? 20
                 : given.own_field != NULL ? given.extra_len
                                           : given.own_extra,
                 2);
    build_bytes(build, own_name, own_len);
    if (given.own_field != NULL)
        build_bytes(build, given.own_field, given.extra_len);
    if (given.is_64) {
        build_number(build, 1, 2);
        build_number(build, 16, 2);
        build_number(build, build->size[at], 8);
        build_number(build, build->packed[at], 8);
    }
    build_bytes(build, (const char *)body.bytes, body.len);
}

static inline void build_entry(struct build *build, size_t at)
{
    const struct member_given *given = &build->given[at];
    uint32_t header_at = given->own_header != 0 ? given->own_header - 1 : build->header_at[at];
    build_bytes(build, "PK\1\2", 4);
    build_number(build, 3u << 8 | 20, 2);
    build_number(build, given->is_64 ? 45 : 20, 2);
    build_number(build, given->flags, 2);
    build_number(build, given->method, 2);
    build_number(build, 0, 4);
    build_sizes(build, given, at);
    build_number(build, given->name_len, 2);
    build_number(build, given->is_64 ? 28 : given->extra != NULL ? given->extra_len : 0, 2);
    build_number(build, 0, 2);
    build_number(build, 0, 4);
    build_number(build, given->external, 4);
    build_number(build, given->is_64 ? UINT32_MAX : header_at, 4);
    build_bytes(build, given->name, given->name_len);
    if (given->extra != NULL)
        build_bytes(build, given->extra, given->extra_len);
    if (given->is_64) {
        build_number(build, 1, 2);
        build_number(build, 24, 2);
        build_number(build, given->size != 0 ? given->size : build->size[at], 8);
        build_number(build, given->packed != 0 ? given->packed : build->packed[at], 8);
        build_number(build, header_at, 8);
    }
}

static inline void build_directory(struct build *build)
{
    build->directory_at = build->len;
    for (size_t i = 0; i < build->count; i++)
        build_entry(build, i);
    build->directory_len = build->len - build->directory_at;
}

static inline void build_end64(struct build *build, uint64_t count)
{
    size_t record_at = build->len;
    build_bytes(build, "PK\6\6", 4);
    build_number(build, 44, 8);
    build_number(build, 45, 4);
    build_number(build, 0, 8);
    build_number(build, count, 8);
    build_number(build, count, 8);
    build_number(build, build->directory_len, 8);
    build_number(build, build->directory_at, 8);
    build_bytes(build, "PK\6\7", 4);
    build_number(build, 0, 4);
    build_number(build, record_at, 8);
    build_number(build, 1, 4);
}

static inline void build_end(struct build *build, const char *comment, size_t comment_len)
{
    build->end_at = build->len;
    build_bytes(build, "PK\5\6", 4);
    build_number(build, 0, 4);
    build_number(build, build->count, 2);
    build_number(build, build->count, 2);
    build_number(build, build->directory_len, 4);
    build_number(build, build->directory_at, 4);
    build_number(build, comment_len, 2);
    build_bytes(build, comment, comment_len);
}

/* Directory and end without a comment. */
static inline void build_finish(struct build *build)
{
    build_directory(build);
    build_end(build, NULL, 0);
}

#endif
