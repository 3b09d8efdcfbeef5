/*
 * wheel_archive.h: an open wheel and the files of its dist-info folder.
 *
 * Source: PEP 427 ("NAME-VERSION.dist-info" at the top, with METADATA, WHEEL and
 * RECORD).
 */
#ifndef AF_KIT_FORMATS_WHEEL_ARCHIVE_H
#define AF_KIT_FORMATS_WHEEL_ARCHIVE_H

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

#endif
