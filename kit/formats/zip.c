/*
 * zip.c: opening an archive: its end (zip_end.c), its directory, and whether the
 * list may be trusted (zip_check.c). Members are read in zip_stream.c.
 */
#include "kit/formats/zip.h"

#include <string.h>
#include <sys/stat.h>

#include "kit/base/text.h"
#include "kit/formats/zip_parts.h"

#define FLAG_ENCRYPTED 0x2041u /* encrypted, strongly, or its headers are */
#define EXTRA_ZIP64 1u

struct listing {
    const struct af_source *source;
    struct af_arena *arena;
    struct af_zip_member *members;
    size_t count;
    const unsigned char *at; /* what is left of the directory */
    const unsigned char *end;
    uint64_t total_bytes; /* of all members, unpacked */
    struct anyflash_error *err;
};

static enum anyflash_status damaged(const struct listing *listing)
{
    return af_fail(listing->err, ANYFLASH_E_DATA, "'%s': its directory is damaged",
                   listing->source->name);
}

static enum anyflash_status refuse(const struct listing *listing,
                                   const struct af_zip_member *member,
                                   enum anyflash_status status, const char *problem)
{
    return af_fail(listing->err, status, "'%s': member '%s' %s", listing->source->name,
                   member->name, problem);
}

/*
 * The numbers that do not fit 32 bits: a zip64 field has, in this order, those
 * of size, packed size and place that read UINT32_MAX in the entry.
 */
static bool read_zip64(const unsigned char *extra, size_t len, struct af_zip_member *member)
{
    uint64_t *const numbers[] = {&member->size_bytes, &member->packed_bytes,
                                 &member->header_at};
    size_t needed = 0;
    for (size_t i = 0; i < AF_COUNT(numbers); i++)
        needed += *numbers[i] == UINT32_MAX ? 8 : 0;
    for (size_t at = 0; needed > 0 && len - at >= 4;) {
        size_t field = (size_t)af_zip_number(extra + at + 2, 2);
        bool found = af_zip_number(extra + at, 2) == EXTRA_ZIP64;
        at += 4;
        if (field > len - at || (found && field < needed))
            return false;
        if (found) {
            for (size_t i = 0; i < AF_COUNT(numbers); i++) {
                if (*numbers[i] != UINT32_MAX)
                    continue;
                *numbers[i] = af_zip_number(extra + at, 8);
                at += 8;
            }
            return true;
        }
        at += field;
    }
    return needed == 0;
}

static enum anyflash_status take_name(struct listing *listing, const unsigned char *bytes,
                                      size_t len, struct af_zip_member *member)
{
    char shown[160];
    if (len > AF_ZIP_NAME_BYTES_MAX)
        return af_fail(listing->err, ANYFLASH_E_LIMIT,
                       "'%s': a member's name has %zu bytes; at most %u are read",
                       listing->source->name, len, AF_ZIP_NAME_BYTES_MAX);
    const char *name = af_arena_text_n(listing->arena, (const char *)bytes, len);
    if (name == NULL)
        return af_fail_memory(listing->err);
    const char *problem = strlen(name) != len ? "has a NUL in it" : af_zip_name_problem(name);
    if (problem != NULL)
        return af_fail(listing->err, ANYFLASH_E_DATA, "'%s': the name of member '%s' %s",
                       listing->source->name, af_text_quote(shown, sizeof shown, name, len),
                       problem);
    member->name = name;
    member->is_folder = af_ends_with(name, "/");
    return ANYFLASH_OK;
}

static enum anyflash_status check_kind(const struct listing *listing,
                                       const struct af_zip_member *member,
                                       const unsigned char *entry)
{
    unsigned type = (unsigned)af_zip_number(entry + 40, 2) & S_IFMT;
    if ((af_zip_number(entry + 8, 2) & FLAG_ENCRYPTED) != 0)
        return refuse(listing, member, ANYFLASH_E_UNSUPPORTED, "is encrypted");
    if (af_zip_number(entry + 34, 2) != 0)
        return refuse(listing, member, ANYFLASH_E_UNSUPPORTED, "is on another disk");
    if (type == S_IFLNK)
        return refuse(listing, member, ANYFLASH_E_DATA, "is a symbolic link");
    if (type != 0 && type != S_IFREG && type != S_IFDIR)
        return refuse(listing, member, ANYFLASH_E_DATA, "is neither file nor folder");
    if ((type == S_IFDIR && !member->is_folder) || (type == S_IFREG && member->is_folder))
        return refuse(listing, member, ANYFLASH_E_DATA,
                      "is a folder by its name or its kind, but not by both");
    if (member->method != AF_ZIP_STORED && member->method != AF_ZIP_DEFLATED)
        return refuse(listing, member, ANYFLASH_E_UNSUPPORTED,
                      "is packed by a method other than deflate");
    return ANYFLASH_OK;
}

static enum anyflash_status check_sizes(struct listing *listing,
                                        const struct af_zip_member *member)
{
    uint64_t size = member->size_bytes;
    if (member->method == AF_ZIP_STORED && size != member->packed_bytes)
        return refuse(listing, member, ANYFLASH_E_DATA, "has two sizes though it is stored");
    if (member->is_folder && size != 0)
        return refuse(listing, member, ANYFLASH_E_DATA, "is a folder with content");
    if (size > AF_ZIP_MEMBER_BYTES_MAX || member->packed_bytes > AF_ZIP_MEMBER_BYTES_MAX ||
        size > AF_ZIP_TOTAL_BYTES_MAX - listing->total_bytes)
        return refuse(listing, member, ANYFLASH_E_LIMIT, "is larger than what is unpacked");
    if (size > AF_ZIP_RATIO_FROM && size / AF_ZIP_RATIO_MAX > member->packed_bytes)
        return refuse(listing, member, ANYFLASH_E_LIMIT,
                      "would unpack to more than 250 times its size, as bombs do");
    listing->total_bytes += size;
    return ANYFLASH_OK;
}

/* The next entry of the directory into the list. */
static enum anyflash_status take_member(struct listing *listing)
{
    const unsigned char *entry = listing->at;
    size_t left = (size_t)(listing->end - entry);
    if (left < AF_ZIP_ENTRY_BYTES || memcmp(entry, "PK\1\2", 4) != 0)
        return damaged(listing);
    size_t name_len = (size_t)af_zip_number(entry + 28, 2);
    size_t extra_len = (size_t)af_zip_number(entry + 30, 2);
    size_t rest = name_len + extra_len + (size_t)af_zip_number(entry + 32, 2);
    if (left - AF_ZIP_ENTRY_BYTES < rest)
        return damaged(listing);
    listing->at += AF_ZIP_ENTRY_BYTES + rest;
    struct af_zip_member *member = &listing->members[listing->count++];
    *member = (struct af_zip_member){
        .method = (enum af_zip_method)af_zip_number(entry + 10, 2),
        .crc32 = (uint32_t)af_zip_number(entry + 16, 4),
        .packed_bytes = af_zip_number(entry + 20, 4),
        .size_bytes = af_zip_number(entry + 24, 4),
        .mode = (uint16_t)(af_zip_number(entry + 40, 2) & 07777u),
        .header_at = af_zip_number(entry + 42, 4),
    };
    const unsigned char *name = entry + AF_ZIP_ENTRY_BYTES;
    enum anyflash_status status = take_name(listing, name, name_len, member);
    if (status != ANYFLASH_OK)
        return status;
    if (!read_zip64(name + name_len, extra_len, member))
        return damaged(listing);
    status = check_kind(listing, member, entry);
    return status == ANYFLASH_OK ? check_sizes(listing, member) : status;
}

static enum anyflash_status take_members(struct listing *listing, const struct af_zip_end *end)
{
    listing->members =
        af_arena_array(listing->arena, (size_t)end->member_count, sizeof *listing->members);
    if (listing->members == NULL)
        return af_fail_memory(listing->err);
    while (listing->count < end->member_count) {
        enum anyflash_status status = take_member(listing);
        if (status != ANYFLASH_OK)
            return status;
    }
    if (listing->at != listing->end)
        return af_fail(listing->err, ANYFLASH_E_DATA,
                       "'%s': its directory has more bytes than its %zu members take",
                       listing->source->name, listing->count);
    return af_zip_check(listing->members, listing->count, listing->source->name,
                        end->directory_at, listing->err);
}

/* Reads the directory as a whole, for as long as it is taken apart. */
static enum anyflash_status list_members(struct af_source *source, const struct af_zip_end *end,
                                         struct listing *listing)
{
    size_t len = (size_t)end->directory_bytes;
    unsigned char *directory = af_mem_alloc(len);
    if (directory == NULL)
        return af_fail_memory(listing->err);
    enum anyflash_status status =
        af_source_read(source, end->directory_at, directory, len, listing->err);
    listing->at = directory;
    listing->end = directory + len;
    if (status == ANYFLASH_OK)
        status = take_members(listing, end);
    af_mem_free(directory);
    return status;
}

void af_zip_close(struct af_zip *zip)
{
    af_arena_release(&zip->arena);
    *zip = (struct af_zip){0};
}

enum anyflash_status af_zip_open(struct af_source *source, struct af_zip *zip_out,
                                 struct anyflash_error *err)
{
    struct af_zip zip = {.source = source};
    struct af_zip_end end;
    enum anyflash_status status = af_zip_end_find(source, &end, err);
    if (status != ANYFLASH_OK)
        return status;
    af_arena_init(&zip.arena);
    struct listing listing = {.source = source, .arena = &zip.arena, .err = err};
    status = list_members(source, &end, &listing);
    if (status != ANYFLASH_OK) {
        af_zip_close(&zip);
        return status;
    }
    zip.members = listing.members;
    zip.member_count = listing.count;
    *zip_out = zip;
    return ANYFLASH_OK;
}

const struct af_zip_member *af_zip_find(const struct af_zip *zip, const char *name)
{
    for (size_t i = 0; i < zip->member_count; i++)
        if (strcmp(zip->members[i].name, name) == 0)
            return &zip->members[i];
    return NULL;
}
