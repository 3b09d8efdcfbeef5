/*
 * download.h: downloads a file completely and checked, or not at all.
 *
 * Bytes are written to NAME.part. When the connection is cut, the rest is requested if the
 * server still has the same file; else the download starts again. Only a file with the right
 * size and SHA-256 is renamed to NAME; NAME.part is removed after every other end. A second
 * download to the same path at the same time fails with a message that says so.
 */
#ifndef AF_KIT_SYSTEM_DOWNLOAD_H
#define AF_KIT_SYSTEM_DOWNLOAD_H

#include "kit/base/sha256.h"
#include "kit/system/http.h"

#define AF_DOWNLOAD_BYTES_MAX (UINT64_C(16) << 30)

struct af_download {
    const char *url;
    const char *path;   /* of the finished file; its folder must exist */
    const char *sha256; /* expected, hexadecimal; NULL: not known */
    int64_t size_bytes; /* expected; -1: not known */
    uint64_t max_bytes; /* 0: AF_DOWNLOAD_BYTES_MAX */
    /* must start as a zip archive; the error names web pages and Git LFS pointers */
    bool wheel;
    /*
     * Called regularly with the bytes received and the total (-1: not known). Returning false
     * ends the download with IO.
     */
    bool (*progress)(void *context, uint64_t done_bytes, int64_t total_bytes);
    void *context;
};

/* The result of a download. */
struct af_download_result {
    char sha256[AF_SHA256_HEX_BYTES];
    uint64_t size_bytes;
    uint64_t received_bytes; /* received over the network by this call */
    int attempts;            /* number of requests; 0: the file already existed */
};

/*
 * Downloads the file. An existing file with the expected hash is used as it is. An interrupted
 * connection is retried as long as bytes arrive. Fails as af_http_get(), and with IO (full
 * disk: the message says how much is needed; folder not writable; another download runs), DATA
 * (not a wheel, or the wrong hash or size), LIMIT, or TIMEOUT.
 */
enum anyflash_status af_download_run(const struct af_http *http,
                                     const struct af_download *download,
                                     struct af_download_result *result_out,
                                     struct anyflash_error *err);

/*
 * For the first bytes of a file that should be a zip archive, says what it is instead: "a web
 * page (HTML)", "a Git LFS pointer, not the file itself", ...; NULL when it may be an archive.
 */
const char *af_download_not_a_wheel(struct af_span start);

#endif
