/*
 * sha256.c: hashing by nettle, files in large pieces.
 */
#include "formats/sha256.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"

#define PIECE_BYTES (256u << 10)

void af_sha256_init(struct af_sha256 *hash)
{
    sha256_init(&hash->state);
}

void af_sha256_add(struct af_sha256 *hash, const void *bytes, size_t len)
{
    sha256_update(&hash->state, len, bytes);
}

void af_sha256_finish(struct af_sha256 *hash, char hex[AF_SHA256_HEX_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    uint8_t digest[SHA256_DIGEST_SIZE];
    sha256_digest(&hash->state, sizeof digest, digest);
    for (size_t i = 0; i < sizeof digest; i++) {
        hex[2 * i] = digits[digest[i] >> 4];
        hex[2 * i + 1] = digits[digest[i] & 15];
    }
    hex[2 * sizeof digest] = '\0';
}

void af_sha256_bytes(struct af_span bytes, char hex[AF_SHA256_HEX_BYTES])
{
    struct af_sha256 hash;
    af_sha256_init(&hash);
    if (bytes.len > 0)
        af_sha256_add(&hash, bytes.data, bytes.len);
    af_sha256_finish(&hash, hex);
}

enum anyflash_status af_sha256_fd(int fd, const char *name, char hex[AF_SHA256_HEX_BYTES],
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

enum anyflash_status af_sha256_file(const char *path, char hex[AF_SHA256_HEX_BYTES],
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
        status = af_sha256_fd(fd, path, hex, size_out, err);
    close(fd);
    return status;
}

bool af_sha256_is_hex(const char *text)
{
    size_t len = text == NULL ? 0 : strspn(text, "0123456789abcdefABCDEF");
    return len == AF_SHA256_HEX_BYTES - 1 && text[len] == '\0';
}

bool af_sha256_equal(const char *hex_a, const char *hex_b)
{
    return af_sha256_is_hex(hex_a) && af_sha256_is_hex(hex_b) && strcasecmp(hex_a, hex_b) == 0;
}
