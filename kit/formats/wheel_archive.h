/*
 * wheel_archive.h: a wheel as an archive. Opens one and reads the files of its dist-info
 * folder; makes one from its members: RECORD and the zip archive.
 *
 * The same members give the same bytes: they are sorted, and no time is stored. Sources: PEP
 * 427 ("NAME-VERSION.dist-info" at the top, with METADATA, WHEEL and RECORD), APPNOTE.TXT 6.3
 * (zip), the binary distribution format of packaging.python.org.
 */
#ifndef AF_KIT_FORMATS_WHEEL_ARCHIVE_H
#define AF_KIT_FORMATS_WHEEL_ARCHIVE_H

#include "engine/base/base.h"
#include "kit/base/memory.h"
#include "kit/formats/zip.h"

struct af_wheel_archive {
    struct af_zip zip;
    const char *info;  /* "flash_attn-2.8.3.dist-info/", the first such folder; NULL: none */
    size_t info_count; /* number of such folders; a valid wheel has one */
};

/*
 * Reads the list of members. The bytes are borrowed until
 * af_wheel_archive_close(); `name` is for errors. Fails as af_zip_open(); an
 * archive without dist-info is not a failure.
 */
enum anyflash_status af_wheel_archive_open(struct af_span bytes, const char *name,
                                           struct af_wheel_archive *archive_out,
                                           struct anyflash_error *err);

/* Closes it. Does nothing for a zero-initialised archive. */
void af_wheel_archive_close(struct af_wheel_archive *archive);

/* The member `file` ("METADATA") of the dist-info folder, or NULL. */
const struct af_zip_member *af_wheel_archive_info(const struct af_wheel_archive *archive,
                                                  const char *file);

/* Reads that member, as af_zip_read(). Fails with DATA when there is no such member. */
enum anyflash_status af_wheel_archive_read_info(const struct af_wheel_archive *archive,
                                                const char *file, struct af_arena *arena,
                                                size_t max_bytes, struct af_span *bytes_out,
                                                struct anyflash_error *err);

#define AF_WHEEL_PACK_MEMBERS_MAX 1024

struct af_wheel_member {
    const char *name;
    struct af_span bytes;
    unsigned mode; /* 0644, or 0755 for a program or library */
};

/*
 * A wheel that is being made. Set the arena and `information` first. Names and bytes are
 * borrowed.
 */
struct af_wheel_pack {
    struct af_arena *arena;
    const char *information; /* the name of its dist-info folder */
    struct af_wheel_member members[AF_WHEEL_PACK_MEMBERS_MAX];
    size_t count; /* may be larger: then the last ones were left out */
};

void af_wheel_pack_add(struct af_wheel_pack *pack, const char *name, struct af_span bytes,
                       unsigned mode);
void af_wheel_pack_text(struct af_wheel_pack *pack, const char *name, const char *text);

/* A text of the dist-info folder. */
void af_wheel_pack_information(struct af_wheel_pack *pack, const char *name, const char *text);

/*
 * Sorts the members and adds RECORD as the last one. Fails with LIMIT for too many members or
 * one of more than 4 GiB.
 */
enum anyflash_status af_wheel_pack_record(struct af_wheel_pack *pack,
                                          struct anyflash_error *err);

/* The same, and the file in pieces, in the arena. Fails with LIMIT beyond 4 GiB, too. */
enum anyflash_status af_wheel_pack_archive(struct af_wheel_pack *pack,
                                           const struct af_span **pieces_out, size_t *count_out,
                                           struct anyflash_error *err);

#endif
