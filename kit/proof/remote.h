/*
 * remote.h: a file behind an address as a source, read in parts by HTTP ranges,
 * so that a wheel of 250 MB can be examined by reading a few per cent of it.
 *
 * Blocks of AF_REMOTE_BLOCK_BYTES are kept (a bounded number of them); reading
 * onwards fetches more of them at a time. The file may not change in between:
 * every answer must have the size and the ETag (or date) of the first.
 */
#ifndef AF_KIT_PROOF_REMOTE_H
#define AF_KIT_PROOF_REMOTE_H

#include "kit/base/source.h"
#include "kit/proof/wheel_facts.h"
#include "kit/system/http.h"

#define AF_REMOTE_BLOCK_BYTES (64u << 10)

/*
 * Opens `url`, reading its first block. `http` is borrowed and must outlive the
 * source. Fails with UNSUPPORTED when the server gives no parts of files (the
 * file must be downloaded as a whole then), DATA when something else is there in
 * place of a wheel (a web page, a Git LFS pointer), else as af_http_get(). A
 * read fails with DATA when the file has changed. bytes_read counts bodies.
 */
enum anyflash_status af_remote_open(struct af_http *http, const char *url,
                                    struct af_source *source_out, struct anyflash_error *err);

/* Where the bytes of a source from af_remote_open() lie, by its first answer. */
struct af_place af_remote_place(const struct af_source *source, struct af_arena *arena);

/*
 * Where parts cannot be had: downloads the whole file to the cache folder and
 * opens it; its name there is removed at once, the bytes go with the source. A
 * download that was cut is resumed by the next call. bytes_read begins with its
 * size; its place goes by its hash. Fails as af_download_run(), and with NOT_FOUND
 * without a home.
 */
enum anyflash_status af_remote_download(const struct af_http_options *options, const char *url,
                                        struct af_arena *arena, struct af_source *source_out,
                                        struct af_place *place_out, struct anyflash_error *err);

#endif
