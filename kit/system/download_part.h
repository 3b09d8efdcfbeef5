/*
 * download_part.h: the unfinished file of a download and what it is part of. Own
 * to download*.c.
 */
#ifndef AF_KIT_SYSTEM_DOWNLOAD_PART_H
#define AF_KIT_SYSTEM_DOWNLOAD_PART_H

#include "kit/system/download.h"

/* What the bytes of a part belong to. */
struct af_part_identity {
    char url_sha256[AF_SHA256_HEX_BYTES]; /* an address may hold secrets: not kept itself */
    char etag[AF_HTTP_HEADER_BYTES];
    char last_modified[AF_HTTP_HEADER_BYTES];
    int64_t total_bytes; /* -1: not known */
};

/* An open part, locked against other downloads to the same place. */
struct af_part {
    int fd;
    uint64_t len;
    bool is_same; /* identity was read and is of this address: may be continued */
    struct af_part_identity identity;
    const char *path;          /* of the finished file */
    const char *part_path;     /* NAME.part */
    const char *identity_path; /* NAME.part.json */
    char shown[300];           /* of the finished file, for errors */
    struct af_arena arena;
};

/*
 * Opens or creates it. Fails with IO (folder not writable, not a regular file,
 * another download holds it) or NO_MEMORY.
 */
enum anyflash_status af_part_open(const char *path, const char *url, struct af_part *part_out,
                                  struct anyflash_error *err);

/* Keeps the part for the next time. */
void af_part_close(struct af_part *part);

/* Empties it and forgets what it belonged to. */
enum anyflash_status af_part_empty(struct af_part *part, struct anyflash_error *err);

/* Writes down what the part belongs to; that it cannot be written is no error. */
void af_part_remember(struct af_part *part);

/* Appends bytes. Fails with IO; a full disk says so. */
enum anyflash_status af_part_add(struct af_part *part, const void *bytes, size_t len,
                                 struct anyflash_error *err);

/* Whether `more_bytes` fit on the disk: IO with both numbers when not. */
enum anyflash_status af_part_check_disk_space(const struct af_part *part, uint64_t more_bytes,
                                              struct anyflash_error *err);

/* Removes part and identity. */
void af_part_remove(struct af_part *part);

/* Makes it the finished file, safe against a power cut. */
enum anyflash_status af_part_finish(struct af_part *part, struct anyflash_error *err);

#endif
