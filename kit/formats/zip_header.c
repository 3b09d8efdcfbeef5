/*
 * zip_header.c: extra fields of a zip archive, and the comparison of a member's own header with
 * the directory.
 */
#include "kit/formats/zip_header.h"

#include <string.h>

#include "kit/formats/little.h"

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
    if ((member->flags & FLAG_SIZES_FOLLOW) == 0 &&
        (own.packed_bytes != member->packed_bytes || own.size_bytes != member->size_bytes ||
         af_le32(header + 14) != member->crc32))
        return "has another size or CRC-32 in its own header";
    return NULL;
}

static enum anyflash_status bad_header(struct af_source *source,
                                       const struct af_zip_member *member, const char *problem,
                                       struct anyflash_error *err)
{
    return af_fail(err, ANYFLASH_E_DATA, "'%s': member '%s' %s", source->name, member->name,
                   problem);
}

/* Reads the extra fields behind the own header's name and compares the rest of it. */
static enum anyflash_status check_rest(struct af_source *source,
                                       const struct af_zip_member *member,
                                       const unsigned char *header, size_t name_len,
                                       struct anyflash_error *err)
{
    size_t len = (size_t)af_le16(header + 28);
    unsigned char *extra = af_mem_alloc(len + 1);
    if (extra == NULL)
        return af_fail_memory(err);
    enum anyflash_status status = af_source_read(
        source, member->header_at + AF_ZIP_HEADER_BYTES + name_len, extra, len, err);
    const char *problem =
        status == ANYFLASH_OK ? header_problem(header, extra, len, member) : NULL;
    if (problem != NULL)
        status = bad_header(source, member, problem, err);
    af_mem_free(extra);
    return status;
}

enum anyflash_status af_zip_check_header(struct af_source *source,
                                         const struct af_zip_member *member,
                                         uint64_t *data_at_out, struct anyflash_error *err)
{
    unsigned char header[AF_ZIP_HEADER_BYTES + AF_ZIP_NAME_BYTES_MAX];
    size_t name_len = strlen(member->name);
    enum anyflash_status status =
        af_source_read(source, member->header_at, header, AF_ZIP_HEADER_BYTES + name_len, err);
    if (status != ANYFLASH_OK)
        return status;
    uint64_t head_bytes = AF_ZIP_HEADER_BYTES + name_len + af_le16(header + 28);
    if (memcmp(header, "PK\3\4", 4) != 0 ||
        member->limit_at - member->header_at - member->packed_bytes < head_bytes)
        return bad_header(source, member, "has a damaged header", err);
    if (af_le16(header + 26) != name_len ||
        memcmp(header + AF_ZIP_HEADER_BYTES, member->name, name_len) != 0)
        return bad_header(source, member, "has another name in its own header", err);
    status = check_rest(source, member, header, name_len, err);
    if (status == ANYFLASH_OK)
        *data_at_out = member->header_at + head_bytes;
    return status;
}
