/*
 * hash_file.c: hashes files in large pieces.
 */
#include "kit/system/hash_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/mem.h"
#include "kit/base/text.h"

#define PIECE_BYTES (256u << 10)

enum anyflash_status af_file_sha256_fd(int fd, const char *name, char hex[AF_SHA256_HEX_BYTES],
                                       uint64_t *size_out, struct anyflash_error *err)
{
    char shown[300];
    struct af_sha256 hash;
    uint64_t size = 0;
    ssize_t got;
    char *piece = af_mem_alloc(PIECE_BYTES);
    if (piece == NULL)
        return af_fail_memory(err);
    af_sha256_init(&hash);
    while ((got = read(fd, piece, PIECE_BYTES)) > 0 || (got < 0 && errno == EINTR)) {
        if (got > 0) {
            af_sha256_add(&hash, piece, (size_t)got);
            size += (uint64_t)got;
        }
    }
    int failed = got < 0 ? errno : 0;
    af_mem_free(piece);
    if (failed != 0)
        return af_fail(err, ANYFLASH_E_IO, "cannot read '%s': %s",
                       af_text_quote(shown, sizeof shown, name, strlen(name)),
                       strerror(failed));
    af_sha256_finish(&hash, hex);
    if (size_out != NULL)
        *size_out = size;
    return ANYFLASH_OK;
}

enum anyflash_status af_file_sha256(const char *path, char hex[AF_SHA256_HEX_BYTES],
                                    uint64_t *size_out, struct anyflash_error *err)
{
    char shown[300];
    struct stat about;
    af_text_quote(shown, sizeof shown, path, strlen(path));
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return af_fail(err, errno == ENOENT ? ANYFLASH_E_NOT_FOUND : ANYFLASH_E_IO,
                       "cannot open '%s': %s", shown, strerror(errno));
    enum anyflash_status status;
    if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode))
        status = af_fail(err, ANYFLASH_E_IO, "'%s' is no regular file", shown);
    else
        status = af_file_sha256_fd(fd, path, hex, size_out, err);
    close(fd);
    return status;
}
