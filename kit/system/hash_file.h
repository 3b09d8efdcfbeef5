/*
 * hash_file.h: SHA-256 of files.
 */
#ifndef AF_KIT_SYSTEM_HASH_FILE_H
#define AF_KIT_SYSTEM_HASH_FILE_H

#include "kit/base/sha256.h"

/*
 * The hash of a regular file, read in pieces; *size_out, unless NULL, becomes
 * its size. Fails with NOT_FOUND or IO, naming the path.
 */
enum anyflash_status af_file_sha256(const char *path, char hex[AF_SHA256_HEX_BYTES],
                                    uint64_t *size_out, struct anyflash_error *err);

/* As af_file_sha256() from where `fd` stands to its end; `name` is for errors. */
enum anyflash_status af_file_sha256_fd(int fd, const char *name, char hex[AF_SHA256_HEX_BYTES],
                                       uint64_t *size_out, struct anyflash_error *err);

#endif
