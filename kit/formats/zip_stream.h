/*
 * zip_stream.h: what the directory of a zip archive and a member's own header have in common,
 * and where they differ. Private to zip.c and zip_stream.c.
 */
#ifndef AF_KIT_FORMATS_ZIP_STREAM_H
#define AF_KIT_FORMATS_ZIP_STREAM_H

#include "kit/formats/zip.h"

/*
 * Reads extra fields; those of zip64 replace numbers of the member that are UINT32_MAX.
 * Returns what is wrong with them, for "member 'x' ...", or NULL. The field "Unicode path"
 * is refused: programs that know it use the name in it, others the member's own.
 */
const char *af_zip_take_extra(const unsigned char *extra, size_t len,
                              struct af_zip_member *member);

/*
 * Compares the member's own header with the directory; *data_at_out is where its
 * bytes begin. Fails with DATA.
 */
enum anyflash_status af_zip_check_header(const struct af_zip *zip,
                                         const struct af_zip_member *member,
                                         uint64_t *data_at_out, struct anyflash_error *err);

#endif
