/*
 * zip_end.c: finds the end of an archive, which says where its directory is.
 *
 * The end must be unambiguous, so that no other program can find a different
 * one: the archive must end with its end record and that record's comment, and
 * the directory must end directly before it, or before the zip64 record and its
 * locator (APPNOTE.TXT 6.3, 4.3.14 to 4.3.16).
 */
#include "kit/formats/zip.h"

#include <string.h>

#include "kit/formats/little.h"

#define ENTRY_BYTES 46u /* of an entry of the directory, without its name */
#define END_BYTES 22u
#define LOCATOR_BYTES 20u
#define END64_BYTES 56u
#define COMMENT_BYTES_MAX 65535u

static const char end_mark[4] = {'P', 'K', 5, 6};
static const char locator_mark[4] = {'P', 'K', 6, 7};
static const char end64_mark[4] = {'P', 'K', 6, 6};

/* Finds the record among the last bytes of the archive. */
static const unsigned char *scan(const unsigned char *tail, size_t len, bool *ambiguous_out)
{
    const unsigned char *found = NULL;
    *ambiguous_out = false;
    for (size_t at = len - END_BYTES + 1; at-- > 0;) {
        if (memcmp(tail + at, end_mark, sizeof end_mark) != 0)
            continue;
        bool whole = af_le16(tail + at + 20) == len - at - END_BYTES;
        if (found != NULL ? whole : !whole)
            *ambiguous_out = true; /* some programs would use this one */
        else if (whole)
            found = tail + at;
    }
    return found;
}

static enum anyflash_status ambiguous(const struct af_zip *zip, struct anyflash_error *err)
{
    return af_fail(
        err, ANYFLASH_E_DATA,
        "'%s' has more than one end record, so programs may read different archives from it",
        zip->name);
}

static const unsigned char *bytes_at(const struct af_zip *zip, uint64_t at)
{
    return (const unsigned char *)zip->bytes.data + at;
}

/*
 * Finds the offset of the end record: usually the last bytes, without a comment. Searches as
 * far back as the longest possible comment.
 */
static enum anyflash_status find_record(const struct af_zip *zip, uint64_t *at_out,
                                        struct anyflash_error *err)
{
    size_t most = END_BYTES + COMMENT_BYTES_MAX;
    size_t len = zip->bytes.len < most ? zip->bytes.len : most;
    const unsigned char *found = NULL;
    bool two = false;
    if (len >= END_BYTES) {
        const unsigned char *last = bytes_at(zip, zip->bytes.len - END_BYTES);
        bool is_last = memcmp(last, end_mark, sizeof end_mark) == 0 && af_le16(last + 20) == 0;
        found = is_last ? last : scan(bytes_at(zip, zip->bytes.len - len), len, &two);
    }
    if (found == NULL)
        return af_fail(err, ANYFLASH_E_DATA,
                       "'%s' is truncated or not a zip archive: it has no end record",
                       zip->name);
    *at_out = (uint64_t)(found - bytes_at(zip, 0));
    return two ? ambiguous(zip, err) : ANYFLASH_OK;
}

/*
 * Reads the zip64 record before the end record at `*at` if there is a locator; moves *at. The
 * record must have no data of its own: Python looks for it 56 bytes before the locator, other
 * programs where the locator says (CVE-2025-8291).
 */
static enum anyflash_status read_end64(const struct af_zip *zip, uint64_t *at,
                                       struct af_zip_end *end, bool *found_out,
                                       struct anyflash_error *err)
{
    *found_out = false;
    if (*at < LOCATOR_BYTES + END64_BYTES)
        return ANYFLASH_OK;
    uint64_t locator_at = *at - LOCATOR_BYTES;
    const unsigned char *locator = bytes_at(zip, locator_at);
    if (memcmp(locator, locator_mark, sizeof locator_mark) != 0)
        return ANYFLASH_OK;
    uint64_t record_at = af_le64(locator + 8);
    if (af_le32(locator + 4) != 0 || af_le32(locator + 16) > 1 ||
        record_at > locator_at - END64_BYTES)
        return ambiguous(zip, err);
    const unsigned char *record = bytes_at(zip, record_at);
    if (memcmp(record, end64_mark, sizeof end64_mark) != 0 ||
        locator_at - record_at != END64_BYTES || af_le64(record + 4) != END64_BYTES - 12 ||
        af_le64(record + 16) != 0 || af_le64(record + 24) != af_le64(record + 32))
        return ambiguous(zip, err);
    *end = (struct af_zip_end){.member_count = af_le64(record + 32),
                               .directory_bytes = af_le64(record + 40),
                               .directory_at = af_le64(record + 48)};
    *at = record_at;
    *found_out = true;
    return ANYFLASH_OK;
}

/*
 * Whether a number of the end record equals zip64's, or is the mark that refers
 * to zip64.
 */
static bool agrees(uint64_t said, uint64_t mark, uint64_t said64)
{
    return said == mark || said == said64;
}

static enum anyflash_status check_end(const struct af_zip *zip, const struct af_zip_end *end,
                                      uint64_t at, struct anyflash_error *err)
{
    if (end->directory_bytes > at || end->directory_at != at - end->directory_bytes)
        return af_fail(err, ANYFLASH_E_DATA,
                       "'%s' is truncated or has extra bytes: its directory is not where the "
                       "end record says",
                       zip->name);
    if (end->member_count > end->directory_bytes / ENTRY_BYTES)
        return af_fail(err, ANYFLASH_E_DATA,
                       "'%s' claims %llu members in a directory of only %llu bytes", zip->name,
                       (unsigned long long)end->member_count,
                       (unsigned long long)end->directory_bytes);
    if (end->member_count > AF_ZIP_MEMBERS_MAX ||
        end->directory_bytes > AF_ZIP_DIRECTORY_BYTES_MAX)
        return af_fail(err, ANYFLASH_E_LIMIT, "'%s' has %llu members; at most %u are read",
                       zip->name, (unsigned long long)end->member_count, AF_ZIP_MEMBERS_MAX);
    if (end->member_count == 0)
        return af_fail(err, ANYFLASH_E_DATA, "'%s' is an empty archive", zip->name);
    return ANYFLASH_OK;
}

enum anyflash_status af_zip_find_end(const struct af_zip *zip, struct af_zip_end *end_out,
                                     struct anyflash_error *err)
{
    struct af_zip_end end64 = {0};
    uint64_t at = 0;
    bool is_64 = false;
    enum anyflash_status status = find_record(zip, &at, err);
    if (status != ANYFLASH_OK)
        return status;
    const unsigned char *record = bytes_at(zip, at);
    if (af_le32(record + 4) != 0 || af_le16(record + 8) != af_le16(record + 10))
        return af_fail(err, ANYFLASH_E_UNSUPPORTED, "'%s' is part of a multi-disk archive",
                       zip->name);
    struct af_zip_end end = {.member_count = af_le16(record + 10),
                             .directory_bytes = af_le32(record + 12),
                             .directory_at = af_le32(record + 16)};
    status = read_end64(zip, &at, &end64, &is_64, err);
    if (status != ANYFLASH_OK)
        return status;
    if (is_64) {
        if (!agrees(end.member_count, UINT16_MAX, end64.member_count) ||
            !agrees(end.directory_bytes, UINT32_MAX, end64.directory_bytes) ||
            !agrees(end.directory_at, UINT32_MAX, end64.directory_at))
            return ambiguous(zip, err);
        end = end64;
    }
    status = check_end(zip, &end, at, err);
    if (status == ANYFLASH_OK)
        *end_out = end;
    return status;
}
