/*
 * zip_end.c: the end of a zip archive, found so that no other program can find
 * another one. Its form: APPNOTE.TXT 6.3, sections 4.3.14 to 4.3.16.
 *
 * The archive must end with its end record and that record's comment. What the
 * record says must agree with where it stands: the directory lies directly
 * before it, or before the zip64 record and its locator.
 */
#include "kit/formats/zip_parts.h"

#include <string.h>

#define END_BYTES 22u
#define LOCATOR_BYTES 20u
#define END64_BYTES 56u
#define COMMENT_BYTES_MAX 65535u

static const char end_mark[4] = {'P', 'K', 5, 6};
static const char locator_mark[4] = {'P', 'K', 6, 7};
static const char end64_mark[4] = {'P', 'K', 6, 6};

uint64_t af_zip_number(const unsigned char *bytes, size_t count)
{
    uint64_t number = 0;
    for (size_t i = 0; i < count; i++)
        number |= (uint64_t)bytes[i] << (8 * i);
    return number;
}

/* The record among the last bytes of the archive. */
static const unsigned char *scan(const unsigned char *tail, size_t len, bool *ambiguous_out)
{
    const unsigned char *found = NULL;
    *ambiguous_out = false;
    for (size_t at = len - END_BYTES + 1; at-- > 0;) {
        if (memcmp(tail + at, end_mark, sizeof end_mark) != 0)
            continue;
        bool whole = af_zip_number(tail + at + 20, 2) == len - at - END_BYTES;
        if (found != NULL ? whole : !whole)
            *ambiguous_out = true; /* some programs would take this one */
        else if (whole)
            found = tail + at;
    }
    return found;
}

static enum anyflash_status no_archive(struct af_source *source, struct anyflash_error *err)
{
    return af_fail(err, ANYFLASH_E_DATA,
                   "'%s' is no zip archive or is cut short: it does not end as one",
                   source->name);
}

static enum anyflash_status ambiguous(struct af_source *source, struct anyflash_error *err)
{
    return af_fail(err, ANYFLASH_E_DATA,
                   "'%s' has more than one end, so that programs see different archives in it",
                   source->name);
}

/* Looks for the record with the longest comment there may be. */
static enum anyflash_status find_commented(struct af_source *source, unsigned char *record,
                                           uint64_t *at_out, struct anyflash_error *err)
{
    uint64_t most = END_BYTES + COMMENT_BYTES_MAX;
    size_t len = (size_t)(source->size_bytes < most ? source->size_bytes : most);
    bool two = false;
    unsigned char *tail = af_mem_alloc(len);
    if (tail == NULL)
        return af_fail_memory(err);
    enum anyflash_status status =
        af_source_read(source, source->size_bytes - len, tail, len, err);
    const unsigned char *found = status == ANYFLASH_OK ? scan(tail, len, &two) : NULL;
    if (found != NULL) {
        memcpy(record, found, END_BYTES);
        *at_out = source->size_bytes - len + (uint64_t)(found - tail);
    }
    af_mem_free(tail);
    if (status != ANYFLASH_OK)
        return status;
    if (found == NULL)
        return no_archive(source, err);
    return two ? ambiguous(source, err) : ANYFLASH_OK;
}

/* The end record and its place: nearly always the last bytes, without a comment. */
static enum anyflash_status find_record(struct af_source *source, unsigned char *record,
                                        uint64_t *at_out, struct anyflash_error *err)
{
    if (source->size_bytes < END_BYTES)
        return no_archive(source, err);
    *at_out = source->size_bytes - END_BYTES;
    enum anyflash_status status = af_source_read(source, *at_out, record, END_BYTES, err);
    if (status != ANYFLASH_OK)
        return status;
    if (memcmp(record, end_mark, sizeof end_mark) == 0 && af_zip_number(record + 20, 2) == 0)
        return ANYFLASH_OK;
    return find_commented(source, record, at_out, err);
}

/* The zip64 record before the end record at `*at`, if its locator is there; moves *at. */
static enum anyflash_status read_end64(struct af_source *source, uint64_t *at,
                                       struct af_zip_end *end, bool *found_out,
                                       struct anyflash_error *err)
{
    unsigned char locator[LOCATOR_BYTES];
    unsigned char record[END64_BYTES];
    *found_out = false;
    if (*at < LOCATOR_BYTES + END64_BYTES)
        return ANYFLASH_OK;
    uint64_t locator_at = *at - LOCATOR_BYTES;
    enum anyflash_status status =
        af_source_read(source, locator_at, locator, sizeof locator, err);
    if (status != ANYFLASH_OK || memcmp(locator, locator_mark, sizeof locator_mark) != 0)
        return status;
    uint64_t record_at = af_zip_number(locator + 8, 8);
    if (af_zip_number(locator + 4, 4) != 0 || af_zip_number(locator + 16, 4) > 1 ||
        record_at > locator_at - END64_BYTES)
        return ambiguous(source, err);
    status = af_source_read(source, record_at, record, sizeof record, err);
    if (status != ANYFLASH_OK)
        return status;
    if (memcmp(record, end64_mark, sizeof end64_mark) != 0 ||
        af_zip_number(record + 4, 8) != locator_at - record_at - 12 ||
        af_zip_number(record + 16, 8) != 0 ||
        af_zip_number(record + 24, 8) != af_zip_number(record + 32, 8))
        return ambiguous(source, err);
    *end = (struct af_zip_end){.member_count = af_zip_number(record + 32, 8),
                               .directory_bytes = af_zip_number(record + 40, 8),
                               .directory_at = af_zip_number(record + 48, 8)};
    *at = record_at;
    *found_out = true;
    return ANYFLASH_OK;
}

/* A number of the end record: what zip64 says too, or a mark that zip64 says it. */
static bool agrees(uint64_t said, uint64_t mark, uint64_t said64)
{
    return said == mark || said == said64;
}

static enum anyflash_status check_end(struct af_source *source, const struct af_zip_end *end,
                                      uint64_t at, struct anyflash_error *err)
{
    if (end->directory_bytes > at || end->directory_at != at - end->directory_bytes)
        return af_fail(err, ANYFLASH_E_DATA,
                       "'%s' is cut short or has bytes that belong to no archive: its "
                       "directory is not where its end says",
                       source->name);
    if (end->member_count > end->directory_bytes / AF_ZIP_ENTRY_BYTES)
        return af_fail(err, ANYFLASH_E_DATA,
                       "'%s' counts %llu members in a directory of %llu bytes", source->name,
                       (unsigned long long)end->member_count,
                       (unsigned long long)end->directory_bytes);
    if (end->member_count > AF_ZIP_MEMBERS_MAX ||
        end->directory_bytes > AF_ZIP_DIRECTORY_BYTES_MAX)
        return af_fail(err, ANYFLASH_E_LIMIT, "'%s' has %llu members; at most %u are read",
                       source->name, (unsigned long long)end->member_count, AF_ZIP_MEMBERS_MAX);
    if (end->member_count == 0)
        return af_fail(err, ANYFLASH_E_DATA, "'%s' is an empty archive", source->name);
    return ANYFLASH_OK;
}

enum anyflash_status af_zip_end_find(struct af_source *source, struct af_zip_end *end_out,
                                     struct anyflash_error *err)
{
    unsigned char record[END_BYTES];
    struct af_zip_end end64 = {0};
    uint64_t at = 0;
    bool is_64 = false;
    enum anyflash_status status = find_record(source, record, &at, err);
    if (status != ANYFLASH_OK)
        return status;
    if (af_zip_number(record + 4, 4) != 0 ||
        af_zip_number(record + 8, 2) != af_zip_number(record + 10, 2))
        return af_fail(err, ANYFLASH_E_UNSUPPORTED, "'%s' is one of several disks",
                       source->name);
    struct af_zip_end end = {.member_count = af_zip_number(record + 10, 2),
                             .directory_bytes = af_zip_number(record + 12, 4),
                             .directory_at = af_zip_number(record + 16, 4)};
    status = read_end64(source, &at, &end64, &is_64, err);
    if (status != ANYFLASH_OK)
        return status;
    if (is_64) {
        if (!agrees(end.member_count, UINT16_MAX, end64.member_count) ||
            !agrees(end.directory_bytes, UINT32_MAX, end64.directory_bytes) ||
            !agrees(end.directory_at, UINT32_MAX, end64.directory_at))
            return ambiguous(source, err);
        end = end64;
    }
    status = check_end(source, &end, at, err);
    if (status == ANYFLASH_OK)
        *end_out = end;
    return status;
}
