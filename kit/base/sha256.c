/*
 * sha256.c: hashing by nettle.
 */
#include "kit/base/sha256.h"

#include <string.h>
#include <strings.h>

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

bool af_sha256_is_hex(const char *text)
{
    size_t len = text == NULL ? 0 : strspn(text, "0123456789abcdefABCDEF");
    return len == AF_SHA256_HEX_BYTES - 1 && text[len] == '\0';
}

bool af_sha256_equal(const char *hex_a, const char *hex_b)
{
    return af_sha256_is_hex(hex_a) && af_sha256_is_hex(hex_b) && strcasecmp(hex_a, hex_b) == 0;
}
