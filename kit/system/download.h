/*
 * download.h: a file from an address to a place, whole and checked, or not at
 * all.
 *
 * Bytes go to NAME.part, what they are part of to NAME.part.json (address, size,
 * ETag). A download that was cut, by the network, a signal or a crash, goes on
 * where it stopped, if the server still has the same file; else it begins anew.
 * Only a file with the right size and SHA-256 is renamed to NAME. Who downloads
 * to the same place at the same time is told so.
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
    bool wheel;         /* must start as a zip archive; pages and pointers are named */
    /*
     * Called now and then with the bytes that are there and the whole (-1: not
     * known). False ends the download with IO; the part stays for the next time.
     */
    bool (*progress)(void *context, uint64_t done_bytes, int64_t total_bytes);
    void *context;
};

/* What happened. */
struct af_download_result {
    char sha256[AF_SHA256_HEX_BYTES];
    uint64_t size_bytes;
    uint64_t received_bytes; /* over the network, this time */
    uint64_t resumed_bytes;  /* that were there from an earlier time */
    int attempts;            /* requests; 0: the file was there already */
};

/*
 * Downloads. A file that is there already with the expected hash is taken as it
 * is. A cut connection is tried again as long as bytes come. Fails as
 * af_http_get(), and with IO (full disk: says how much is needed; folder not
 * writable; another download runs; wrong hash, with both hashes: the part is
 * removed then), DATA (not a wheel), LIMIT, or TIMEOUT.
 */
enum anyflash_status af_download_run(struct af_http *http, const struct af_download *download,
                                     struct af_download_result *result_out,
                                     struct anyflash_error *err);

/*
 * What the first bytes of a file that should be a zip archive are instead: "a web
 * page (HTML)", "a Git LFS pointer, not the file itself", ...; NULL when they may
 * be an archive.
 */
const char *af_download_not_a_wheel(struct af_span start);

#endif
