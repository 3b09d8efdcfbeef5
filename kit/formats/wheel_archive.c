/*
 * wheel_archive.c: finds the dist-info folder of a wheel; makes RECORD and the archive of a new
 * one, with zlib's deflate.
 */
#include "kit/formats/wheel_archive.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "kit/base/sha256.h"
#include "kit/base/text.h"

#define INFO_END ".dist-info/"

/* Length of "NAME.dist-info/" at the start of a member's name; 0: not in such a folder. */
static size_t info_len(const char *name)
{
    const char *slash = strchr(name, '/');
    size_t len = slash == NULL ? 0 : (size_t)(slash - name) + 1;
    size_t end_len = sizeof INFO_END - 1;
    return len > end_len && memcmp(slash + 1 - end_len, INFO_END, end_len) == 0 ? len : 0;
}

/* The members of a folder need not be consecutive: only a new name is a new folder. */
static void find_info(struct af_wheel_archive *archive)
{
    const char *last = "";
    for (size_t i = 0; i < archive->zip.member_count; i++) {
        const char *name = archive->zip.members[i].name;
        size_t len = info_len(name);
        if (len == 0 || strncmp(name, last, len) == 0)
            continue;
        last = name;
        if (archive->info == NULL)
            archive->info = af_arena_text_n(&archive->zip.arena, name, len);
        else if (strncmp(name, archive->info, len) == 0)
            continue;
        archive->info_count++;
    }
}

enum anyflash_status af_wheel_archive_open(struct af_span bytes, const char *name,
                                           struct af_wheel_archive *archive_out,
                                           struct anyflash_error *err)
{
    struct af_wheel_archive archive = {.info = NULL};
    enum anyflash_status status = af_zip_open(bytes, name, &archive.zip, err);
    if (status != ANYFLASH_OK)
        return status;
    find_info(&archive);
    *archive_out = archive;
    return ANYFLASH_OK;
}

void af_wheel_archive_close(struct af_wheel_archive *archive)
{
    af_zip_close(&archive->zip);
    *archive = (struct af_wheel_archive){.info = NULL};
}

const struct af_zip_member *af_wheel_archive_info(const struct af_wheel_archive *archive,
                                                  const char *file)
{
    size_t len = archive->info == NULL ? 0 : strlen(archive->info);
    for (size_t i = 0; len > 0 && i < archive->zip.member_count; i++) {
        const struct af_zip_member *member = &archive->zip.members[i];
        if (strncmp(member->name, archive->info, len) == 0 &&
            strcmp(member->name + len, file) == 0)
            return member;
    }
    return NULL;
}

enum anyflash_status af_wheel_archive_read_info(const struct af_wheel_archive *archive,
                                                const char *file, struct af_arena *arena,
                                                size_t max_bytes, struct af_span *bytes_out,
                                                struct anyflash_error *err)
{
    const struct af_zip_member *member = af_wheel_archive_info(archive, file);
    if (member == NULL)
        return af_fail(err, ANYFLASH_E_DATA, "'%s' has no %s: it is not a wheel",
                       archive->zip.name, file);
    return af_zip_read(&archive->zip, member, arena, max_bytes, bytes_out, err);
}

void af_wheel_pack_add(struct af_wheel_pack *pack, const char *name, struct af_span bytes,
                       unsigned mode)
{
    if (pack->count++ < AF_WHEEL_PACK_MEMBERS_MAX)
        pack->members[pack->count - 1] = (struct af_wheel_member){name, bytes, mode};
}

void af_wheel_pack_text(struct af_wheel_pack *pack, const char *name, const char *text)
{
    af_wheel_pack_add(pack, name, (struct af_span){text, strlen(text)}, 0644);
}

void af_wheel_pack_information(struct af_wheel_pack *pack, const char *name, const char *text)
{
    af_wheel_pack_text(pack, af_arena_format(pack->arena, "%s/%s", pack->information, name),
                       text);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct af_wheel_member *)a)->name,
                  ((const struct af_wheel_member *)b)->name);
}

/* RECORD is last, as the format recommends. */
enum anyflash_status af_wheel_pack_record(struct af_wheel_pack *pack,
                                          struct anyflash_error *err)
{
    struct af_text out = {0};
    char hex[AF_SHA256_HEX_BYTES];
    char hash[AF_SHA256_RECORD_BYTES];
    bool fits = pack->count < AF_WHEEL_PACK_MEMBERS_MAX;
    for (size_t i = 0; fits && i < pack->count; i++)
        fits = pack->members[i].bytes.len <= UINT32_MAX;
    if (!fits)
        return af_fail(err, ANYFLASH_E_LIMIT,
                       "a wheel with %zu files, or with one of more "
                       "than 4 GiB, cannot be made",
                       pack->count);
    qsort(pack->members, pack->count, sizeof pack->members[0], compare_names);
    for (size_t i = 0; i < pack->count; i++) {
        const struct af_wheel_member *member = &pack->members[i];
        af_sha256_bytes(member->bytes, hex);
        af_sha256_to_record(hex, hash);
        af_text_format(&out, "%s,sha256=%s,%zu\n", member->name, hash, member->bytes.len);
    }
    af_text_format(&out, "%s/RECORD,,\n", pack->information);
    af_wheel_pack_information(pack, "RECORD", af_text_take(&out, pack->arena));
    return ANYFLASH_OK;
}

static void deflate_member(struct af_arena *arena, const struct af_wheel_member *member,
                           struct af_zip_packed *packed)
{
    struct af_span bytes = member->bytes;
    z_stream stream = {.next_in = (unsigned char *)(uintptr_t)bytes.data,
                       .avail_in = (uInt)bytes.len};
    if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8,
                     Z_DEFAULT_STRATEGY) != Z_OK)
        af_memory_end();
    size_t most = deflateBound(&stream, (uLong)bytes.len);
    stream.next_out = af_arena_alloc(arena, most);
    stream.avail_out = (uInt)most;
    *packed = (struct af_zip_packed){
        .name = member->name,
        .size_bytes = bytes.len,
        .bytes = {(const char *)stream.next_out, 0},
        .crc32 = (uint32_t)crc32_z(0, (const unsigned char *)bytes.data, bytes.len),
        .method = AF_ZIP_DEFLATED,
        .mode = member->mode};
    deflate(&stream, Z_FINISH); /* there is room for all */
    packed->bytes.len = most - stream.avail_out;
    deflateEnd(&stream);
}

enum anyflash_status af_wheel_pack_archive(struct af_wheel_pack *pack,
                                           const struct af_span **pieces_out, size_t *count_out,
                                           struct anyflash_error *err)
{
    enum anyflash_status status = af_wheel_pack_record(pack, err);
    if (status != ANYFLASH_OK)
        return status;
    struct af_zip_packed *packed = af_arena_array(pack->arena, pack->count, sizeof *packed);
    for (size_t i = 0; i < pack->count; i++)
        deflate_member(pack->arena, &pack->members[i], &packed[i]);
    return af_zip_write(packed, pack->count, pack->arena, pieces_out, count_out, err);
}
