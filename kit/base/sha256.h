/*
 * sha256.h: SHA-256 of bytes. Source: FIPS 180-4.
 */
#ifndef AF_KIT_BASE_SHA256_H
#define AF_KIT_BASE_SHA256_H

#include "engine/base/base.h"

#define AF_SHA256_BYTES 32

/* 64 hexadecimal digits, lower case, and the NUL. */
#define AF_SHA256_HEX_BYTES 65

/* A running hash. */
struct af_sha256 {
    uint32_t state[8];
    uint64_t len;            /* bytes added so far */
    unsigned char block[64]; /* the last len % 64 of them */
};

void af_sha256_init(struct af_sha256 *hash);
void af_sha256_add(struct af_sha256 *hash, const void *bytes, size_t len);

/* Writes the digits to `hex` and starts a new hash. */
void af_sha256_finish(struct af_sha256 *hash, char hex[AF_SHA256_HEX_BYTES]);

void af_sha256_bytes(struct af_span bytes, char hex[AF_SHA256_HEX_BYTES]);

/* Writes a hash of AF_SHA256_BYTES bytes as digits, and reads it back; false: not a hash. */
void af_sha256_to_hex(const unsigned char *bytes, char hex[AF_SHA256_HEX_BYTES]);
bool af_sha256_from_hex(const char *hex, unsigned char bytes[AF_SHA256_BYTES]);

/* The hash `hex` as RECORD writes it: base64url without padding (PEP 376), with a NUL. */
#define AF_SHA256_RECORD_BYTES 44
void af_sha256_to_record(const char *hex, char text[AF_SHA256_RECORD_BYTES]);

/* Whether `text` is 64 hexadecimal digits, in either case. */
bool af_sha256_is_hex(const char *text);

/* Whether both are valid hashes and equal; the case of the digits does not matter. */
bool af_sha256_equal(const char *hex_a, const char *hex_b);

#endif
