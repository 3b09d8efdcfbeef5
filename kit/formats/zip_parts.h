/*
 * zip_parts.h: what the files of the zip reader share: the end of an archive and
 * the checks on a list of members. Own to zip*.c.
 */
#ifndef AF_KIT_FORMATS_ZIP_PARTS_H
#define AF_KIT_FORMATS_ZIP_PARTS_H

#include "kit/formats/zip.h"

#define AF_ZIP_HEADER_BYTES 30u /* of a member's own header, without its name */
#define AF_ZIP_ENTRY_BYTES 46u  /* of an entry of the directory, without its name */

/* The little-endian number of `count` bytes. */
uint64_t af_zip_number(const unsigned char *bytes, size_t count);

/* Where the directory is. */
struct af_zip_end {
    uint64_t directory_at;
    uint64_t directory_bytes;
    uint64_t member_count;
};

/*
 * Finds the one end of the archive. Fails with DATA when there is none, more
 * than one, or it does not agree with where it stands; LIMIT, UNSUPPORTED.
 */
enum anyflash_status af_zip_end_find(struct af_source *source, struct af_zip_end *end_out,
                                     struct anyflash_error *err);

/* What is wrong with a member's name, as "leaves the folder", or NULL. */
const char *af_zip_name_problem(const char *name);

/*
 * Refuses names that contradict each other and members that overlap. Fills in
 * `limit_at` of each. `name` is the archive's, for errors.
 */
enum anyflash_status af_zip_check(struct af_zip_member *members, size_t count, const char *name,
                                  uint64_t directory_at, struct anyflash_error *err);

#endif
