/*
 * zip.c: opens an archive: reads its directory, and checks the list of members. The end of the
 * archive is found in zip_end.c, members are read in zip_stream.c.
 *
 * Names must stay inside the folder and not contradict each other, and each byte belongs to one
 * member or to the directory: a program that reads from the start would find others in a gap.
 */
#include "kit/formats/zip.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "kit/base/text.h"
#include "kit/formats/little.h"

#define ENTRY_BYTES 46u /* of an entry of the directory, without its name */
#define NAME_SHOWN_BYTES 300u
#define FLAG_ENCRYPTED 0x2041u /* encrypted, strongly, or its headers are */
#define FLAG_UTF8 0x800u

static bool is_ascii(const char *text)
{
    while (*text != '\0' && (unsigned char)*text < 0x80)
        text++;
    return *text == '\0';
}

static bool is_plain(const char *name)
{
    char quoted[AF_ZIP_NAME_BYTES_MAX * 4 + 1];
    return strcmp(af_text_quote(quoted, sizeof quoted, name, strlen(name)), name) == 0;
}

/*
 * Whether the text has U+0300 to U+036F: with these marks the same name can be written in two
 * ways, which some file systems take for one file.
 */
static bool has_combining_marks(const char *text)
{
    for (; *text != '\0'; text++) {
        unsigned char next = (unsigned char)text[1];
        if ((*text == '\xcc' && next >= 0x80) ||
            (*text == '\xcd' && next >= 0x80 && next <= 0xaf))
            return true;
    }
    return false;
}

/* Checks one part between slashes. */
static const char *part_problem(const char *part, size_t len)
{
    if (len == 0)
        return "has an empty part";
    if (len == 1 && part[0] == '.')
        return "has '.' as a part";
    if (len == 2 && part[0] == '.' && part[1] == '.')
        return "leaves the folder";
    return NULL;
}

static const char *name_problem(const char *name)
{
    if (name[0] == '\0')
        return "is empty";
    if (name[0] == '/')
        return "is absolute";
    if (strchr(name, '\\') != NULL)
        return "has a backslash";
    if (name[1] == ':')
        return "names a drive";
    if (!is_plain(name))
        return "has characters that cannot be shown";
    if (has_combining_marks(name))
        return "has combining marks, so another name could mean the same file";
    for (const char *part = name; *part != '\0';) {
        size_t len = strcspn(part, "/");
        const char *problem = part_problem(part, len);
        if (problem != NULL)
            return problem;
        part += len;
        part += *part == '/';
    }
    return NULL;
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const struct af_zip_member *const *)a)->name,
                  (*(const struct af_zip_member *const *)b)->name);
}

/* Names that differ only in the case of ASCII letters stand beside each other. */
static int by_folded_name(const void *a, const void *b)
{
    int order = strcasecmp((*(const struct af_zip_member *const *)a)->name,
                           (*(const struct af_zip_member *const *)b)->name);
    return order != 0 ? order : by_name(a, b);
}

static int compare_name(const void *key, const void *element)
{
    return strcmp(key, (*(const struct af_zip_member *const *)element)->name);
}

static int by_offset(const void *a, const void *b)
{
    uint64_t one = (*(const struct af_zip_member *const *)a)->header_at;
    uint64_t two = (*(const struct af_zip_member *const *)b)->header_at;
    return one < two ? -1 : one > two;
}

struct start {
    const char *text;
    size_t len;
};

static int compare_start(const void *key, const void *element)
{
    const struct start *start = key;
    const char *name = (*(const struct af_zip_member *const *)element)->name;
    int order = strncasecmp(start->text, name, start->len);
    return order != 0 ? order : name[start->len] == '\0' ? 0 : -1;
}

/* A file whose name, in any case of its letters, is also a parent folder of `name`, or NULL. */
static const struct af_zip_member *file_above(struct af_zip_member *const *sorted, size_t count,
                                              const char *name)
{
    for (const char *slash = strchr(name, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        struct start start = {name, (size_t)(slash - name)};
        struct af_zip_member *const *found =
            bsearch(&start, sorted, count, sizeof *sorted, compare_start);
        if (found != NULL)
            return *found;
    }
    return NULL;
}

/*
 * Checks that no member takes the place of another one, also where a file system ignores case.
 * Sorts the array.
 */
static enum anyflash_status check_names(struct af_zip_member **sorted, size_t count,
                                        const char *name, struct anyflash_error *err)
{
    qsort(sorted, count, sizeof *sorted, by_folded_name);
    for (size_t i = 1; i < count; i++) {
        if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0)
            return af_fail(err, ANYFLASH_E_DATA, "'%s' has two members called '%s'", name,
                           sorted[i]->name);
        if (strcasecmp(sorted[i - 1]->name, sorted[i]->name) == 0)
            return af_fail(err, ANYFLASH_E_DATA,
                           "'%s': the names of members '%s' and '%s' differ only in case", name,
                           sorted[i - 1]->name, sorted[i]->name);
    }
    for (size_t i = 0; i < count; i++)
        if (file_above(sorted, count, sorted[i]->name) != NULL)
            return af_fail(err, ANYFLASH_E_DATA,
                           "'%s' has a file that would have to be a folder for '%s'", name,
                           sorted[i]->name);
    return ANYFLASH_OK;
}

static enum anyflash_status check_places(struct af_zip_member **sorted, size_t count,
                                         const char *name, uint64_t directory_at,
                                         struct anyflash_error *err)
{
    qsort(sorted, count, sizeof *sorted, by_offset);
    if (sorted[0]->header_at != 0)
        return af_fail(err, ANYFLASH_E_DATA, "'%s' has bytes before its first member", name);
    for (size_t i = 0; i < count; i++) {
        struct af_zip_member *member = sorted[i];
        uint64_t limit = i + 1 < count ? sorted[i + 1]->header_at : directory_at;
        uint64_t least = AF_ZIP_HEADER_BYTES + strlen(member->name) + member->packed_bytes;
        if (limit < member->header_at || limit - member->header_at < least)
            return af_fail(err, ANYFLASH_E_DATA,
                           "'%s': member '%s' overlaps what comes after it", name,
                           member->name);
        member->limit_at = limit;
    }
    return ANYFLASH_OK;
}

struct listing {
    const struct af_zip *zip;
    struct af_arena *arena;
    struct af_zip_member *members;
    struct af_zip_member **by_name;
    size_t count;
    const unsigned char *at; /* rest of the directory */
    const unsigned char *end;
    uint64_t total_bytes; /* uncompressed total of all members */
    struct anyflash_error *err;
};

static enum anyflash_status damaged(const struct listing *listing)
{
    return af_fail(listing->err, ANYFLASH_E_DATA, "'%s': its directory is corrupt",
                   listing->zip->name);
}

static enum anyflash_status refuse(const struct listing *listing,
                                   const struct af_zip_member *member,
                                   enum anyflash_status status, const char *problem)
{
    return af_fail(listing->err, status, "'%s': member '%s' %s", listing->zip->name,
                   member->name, problem);
}

static enum anyflash_status take_name(struct listing *listing, const unsigned char *bytes,
                                      size_t len, struct af_zip_member *member)
{
    char shown[160];
    if (len > AF_ZIP_NAME_BYTES_MAX)
        return af_fail(listing->err, ANYFLASH_E_LIMIT,
                       "'%s': a member's name has %zu bytes; at most %u are read",
                       listing->zip->name, len, AF_ZIP_NAME_BYTES_MAX);
    const char *name = af_arena_text_n(listing->arena, (const char *)bytes, len);
    const char *problem = strlen(name) != len ? "has a NUL in it" : name_problem(name);
    if (problem == NULL && !is_ascii(name) && (member->flags & FLAG_UTF8) == 0)
        problem = "is not ASCII, but is not marked as UTF-8 either";
    if (problem != NULL)
        return af_fail(listing->err, ANYFLASH_E_DATA, "'%s': the name of member '%s' %s",
                       listing->zip->name, af_text_quote(shown, sizeof shown, name, len),
                       problem);
    member->name = name;
    member->is_folder = af_ends_with(name, "/");
    return ANYFLASH_OK;
}

static enum anyflash_status check_kind(const struct listing *listing,
                                       const struct af_zip_member *member,
                                       const unsigned char *entry)
{
    unsigned type = (unsigned)af_le16(entry + 40) & S_IFMT;
    if ((member->flags & FLAG_ENCRYPTED) != 0)
        return refuse(listing, member, ANYFLASH_E_UNSUPPORTED, "is encrypted");
    if (af_le16(entry + 34) != 0)
        return refuse(listing, member, ANYFLASH_E_UNSUPPORTED, "is on another disk");
    if (type == S_IFLNK)
        return refuse(listing, member, ANYFLASH_E_DATA, "is a symbolic link");
    if (type != 0 && type != S_IFREG && type != S_IFDIR)
        return refuse(listing, member, ANYFLASH_E_DATA, "is neither file nor folder");
    if ((type == S_IFDIR && !member->is_folder) || (type == S_IFREG && member->is_folder))
        return refuse(listing, member, ANYFLASH_E_DATA,
                      "is a folder by its name or its type, but not by both");
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
        return refuse(listing, member, ANYFLASH_E_DATA, "is stored, but its two sizes differ");
    if (member->is_folder && size != 0)
        return refuse(listing, member, ANYFLASH_E_DATA, "is a folder with content");
    if (size > AF_ZIP_MEMBER_BYTES_MAX || member->packed_bytes > AF_ZIP_MEMBER_BYTES_MAX ||
        size > AF_ZIP_TOTAL_BYTES_MAX - listing->total_bytes)
        return refuse(listing, member, ANYFLASH_E_LIMIT,
                      "is larger than the limit for unpacking");
    if (size > AF_ZIP_RATIO_FROM && size / AF_ZIP_RATIO_MAX > member->packed_bytes)
        return refuse(listing, member, ANYFLASH_E_LIMIT,
                      "would unpack to more than 250 times its size, like a zip bomb");
    listing->total_bytes += size;
    return ANYFLASH_OK;
}

/* Adds the next entry of the directory to the list. */
static enum anyflash_status take_member(struct listing *listing)
{
    const unsigned char *entry = listing->at;
    size_t left = (size_t)(listing->end - entry);
    if (left < ENTRY_BYTES || memcmp(entry, "PK\1\2", 4) != 0)
        return damaged(listing);
    size_t name_len = (size_t)af_le16(entry + 28);
    size_t extra_len = (size_t)af_le16(entry + 30);
    size_t rest = name_len + extra_len + (size_t)af_le16(entry + 32);
    if (left - ENTRY_BYTES < rest)
        return damaged(listing);
    listing->at += ENTRY_BYTES + rest;
    struct af_zip_member *member = &listing->members[listing->count++];
    *member = (struct af_zip_member){
        .flags = (uint16_t)af_le16(entry + 8),
        .method = (enum af_zip_method)af_le16(entry + 10),
        .crc32 = (uint32_t)af_le32(entry + 16),
        .packed_bytes = af_le32(entry + 20),
        .size_bytes = af_le32(entry + 24),
        .header_at = af_le32(entry + 42),
        .is_executable = (af_le16(entry + 40) & S_IXUSR) != 0,
    };
    const unsigned char *name = entry + ENTRY_BYTES;
    enum anyflash_status status = take_name(listing, name, name_len, member);
    if (status != ANYFLASH_OK)
        return status;
    const char *problem = af_zip_take_extra(name + name_len, extra_len, member);
    if (problem != NULL)
        return refuse(listing, member, ANYFLASH_E_DATA, problem);
    status = check_kind(listing, member, entry);
    return status == ANYFLASH_OK ? check_sizes(listing, member) : status;
}

/* Checks the members together. */
static enum anyflash_status check_members(struct listing *listing, uint64_t directory_at)
{
    size_t count = listing->count;
    struct af_zip_member **by_place = af_memory_alloc(count * sizeof *by_place);
    for (size_t i = 0; i < count; i++)
        by_place[i] = listing->by_name[i] = &listing->members[i];
    enum anyflash_status status =
        check_names(by_place, count, listing->zip->name, listing->err);
    qsort(listing->by_name, count, sizeof *listing->by_name, by_name);
    if (status == ANYFLASH_OK)
        status = check_places(by_place, count, listing->zip->name, directory_at, listing->err);
    af_memory_free(by_place);
    return status;
}

static enum anyflash_status take_members(struct listing *listing, const struct af_zip_end *end)
{
    listing->members =
        af_arena_array(listing->arena, (size_t)end->member_count, sizeof *listing->members);
    listing->by_name =
        af_arena_array(listing->arena, (size_t)end->member_count, sizeof *listing->by_name);
    while (listing->count < end->member_count) {
        enum anyflash_status status = take_member(listing);
        if (status != ANYFLASH_OK)
            return status;
    }
    if (listing->at != listing->end)
        return af_fail(listing->err, ANYFLASH_E_DATA,
                       "'%s': its directory has more bytes than its %zu members take",
                       listing->zip->name, listing->count);
    uint64_t total = listing->total_bytes;
    if (total > AF_ZIP_RATIO_FROM && total / AF_ZIP_RATIO_ALL_MAX > listing->zip->bytes.len)
        return af_fail(listing->err, ANYFLASH_E_LIMIT,
                       "'%s' would unpack to more than %u times its size, like a zip bomb",
                       listing->zip->name, AF_ZIP_RATIO_ALL_MAX);
    return check_members(listing, end->directory_at);
}

/* Compares the members' own headers with the directory. */
static enum anyflash_status check_headers(const struct listing *listing)
{
    enum anyflash_status status = ANYFLASH_OK;
    uint64_t data_at;
    for (size_t i = 0; status == ANYFLASH_OK && i < listing->count; i++)
        status =
            af_zip_check_header(listing->zip, &listing->members[i], &data_at, listing->err);
    return status;
}

void af_zip_close(struct af_zip *zip)
{
    af_arena_release(&zip->arena);
    *zip = (struct af_zip){0};
}

enum anyflash_status af_zip_open(struct af_span bytes, const char *name, struct af_zip *zip_out,
                                 struct anyflash_error *err)
{
    struct af_zip zip = {.bytes = bytes};
    struct af_zip_end end = {0};
    af_arena_init(&zip.arena);
    zip.name = af_text_scrub(&zip.arena, name, NAME_SHOWN_BYTES);
    struct listing listing = {.zip = &zip, .arena = &zip.arena, .err = err};
    enum anyflash_status status = af_zip_find_end(&zip, &end, err);
    if (status == ANYFLASH_OK) {
        listing.at = (const unsigned char *)bytes.data + end.directory_at;
        listing.end = listing.at + end.directory_bytes;
        status = take_members(&listing, &end);
    }
    if (status == ANYFLASH_OK)
        status = check_headers(&listing);
    if (status != ANYFLASH_OK) {
        af_zip_close(&zip);
        return status;
    }
    zip.members = listing.members;
    zip.by_name = (const struct af_zip_member *const *)listing.by_name;
    zip.member_count = listing.count;
    *zip_out = zip;
    return ANYFLASH_OK;
}

const struct af_zip_member *af_zip_find(const struct af_zip *zip, const char *name)
{
    const struct af_zip_member *const *found =
        zip->member_count == 0 ? NULL
                               : bsearch(name, zip->by_name, zip->member_count,
                                         sizeof *zip->by_name, compare_name);
    return found == NULL ? NULL : *found;
}
