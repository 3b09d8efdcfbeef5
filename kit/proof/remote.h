/*
 * remote.h: a file at a URL as a source. It is read in parts by HTTP range requests, so that
 * a wheel of 250 MB can be examined by reading a few per cent of it.
 *
 * A bounded number of blocks of AF_REMOTE_BLOCK_BYTES is cached; sequential reading fetches
 * several blocks at a time. The file must not change while it is open: every response must have
 * the size and the ETag (or date) of the first.
 */
#ifndef AF_KIT_PROOF_REMOTE_H
#define AF_KIT_PROOF_REMOTE_H

#include "kit/base/source.h"
#include "kit/system/http.h"

#define AF_REMOTE_BLOCK_BYTES (64u << 10)

/*
 * Opens `url` and reads its first block. `http` is borrowed and must outlive the source. Fails
 * with UNSUPPORTED when the server does not support range requests (the file must then be
 * downloaded as a whole), DATA when the address returns something other than a wheel (a web
 * page, a Git LFS pointer), else as af_http_get(). A read fails with DATA when the file has
 * changed. bytes_read counts the bytes of response bodies.
 */
enum anyflash_status af_remote_open(const struct af_http *http, const char *url,
                                    struct af_source *source_out, struct anyflash_error *err);

/*
 * For servers without range requests: downloads the whole file to the cache folder and opens
 * it. The file's name is removed at once; its disk space is freed when the source is closed.
 * The next call resumes an interrupted download. bytes_read starts at the file's size. Fails as
 * af_download_run(), and with NOT_FOUND without a home folder.
 */
enum anyflash_status af_remote_download(const struct af_http *http, const char *url,
                                        struct af_arena *arena, struct af_source *source_out,
                                        struct anyflash_error *err);

#endif
