/*
 * sha256.c: FIPS 180-4 in C, and a second compression function with the SHA
 * instructions of x86 (four times as fast).
 */
#include "kit/base/sha256.h"

#include <stdatomic.h>
#include <string.h>
#include <strings.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#define BLOCK_BYTES 64u
#define DIGEST_BYTES 32u

/* FIPS 180-4, 4.2.2 */
static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
    0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
    0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
    0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
    0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
    0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
    0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
    0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
    0xc67178f2};

static uint32_t rotate(uint32_t word, unsigned bits)
{
    return word >> bits | word << (32 - bits);
}

static uint32_t big_endian_at(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* FIPS 180-4, 6.2.2, for `count` blocks. */
static void compress_portable(uint32_t state[8], const unsigned char *blocks, size_t count)
{
    uint32_t w[64];
    for (; count > 0; count--, blocks += BLOCK_BYTES) {
        uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
        uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
        for (size_t t = 0; t < 16; t++)
            w[t] = big_endian_at(blocks + 4 * t);
        for (size_t t = 16; t < 64; t++) {
            uint32_t s0 = rotate(w[t - 15], 7) ^ rotate(w[t - 15], 18) ^ w[t - 15] >> 3;
            uint32_t s1 = rotate(w[t - 2], 17) ^ rotate(w[t - 2], 19) ^ w[t - 2] >> 10;
            w[t] = s1 + w[t - 7] + s0 + w[t - 16];
        }
        for (size_t t = 0; t < 64; t++) {
            uint32_t s1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
            uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + round_constants[t] + w[t];
            uint32_t s0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
            uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
            h = g, g = f, f = e, e = d + t1;
            d = c, c = b, b = a, a = t1 + t2;
        }
        state[0] += a, state[1] += b, state[2] += c, state[3] += d;
        state[4] += e, state[5] += f, state[6] += g, state[7] += h;
    }
}

#if defined(__x86_64__)

static bool has_sha_instructions(void)
{
    static atomic_int known; /* 0: not checked yet, 1: no, 2: yes */
    if (known == 0) {
        unsigned a, b, c, d;
        bool has = __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_SSE4_1) != 0 &&
                   (c & bit_SSSE3) != 0 && __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 &&
                   (b & 1u << 29) != 0;
        known = has ? 2 : 1;
    }
    return known == 2;
}

/*
 * The same with SHA256RNDS2 (two rounds), SHA256MSG1 and SHA256MSG2 (the message
 * schedule). They keep the state as the words ABEF and CDGH. Source: Intel SDM,
 * volume 2.
 */
__attribute__((target("sha,sse4.1,ssse3"))) static void compress_x86(
    uint32_t state[8], const unsigned char *blocks, size_t count)
{
    const __m128i to_big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    __m128i low =
        _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(const void *)state), 0xb1);
    __m128i high =
        _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(const void *)(state + 4)), 0x1b);
    __m128i abef = _mm_alignr_epi8(low, high, 8);
    __m128i cdgh = _mm_blend_epi16(high, low, 0xf0);
    for (; count > 0; count--, blocks += BLOCK_BYTES) {
        const __m128i abef_before = abef;
        const __m128i cdgh_before = cdgh;
        __m128i w[4]; /* the last 16 words of the schedule */
#pragma GCC unroll 16
        for (unsigned i = 0; i < 16; i++) {
            __m128i *now = &w[i % 4];
            if (i < 4) {
                *now = _mm_shuffle_epi8(
                    _mm_loadu_si128((const __m128i *)(const void *)(blocks + 16 * i)),
                    to_big_endian);
            } else {
                const __m128i before = w[(i + 3) % 4];
                *now = _mm_add_epi32(_mm_sha256msg1_epu32(*now, w[(i + 1) % 4]),
                                     _mm_alignr_epi8(before, w[(i + 2) % 4], 4));
                *now = _mm_sha256msg2_epu32(*now, before);
            }
            __m128i wk = _mm_add_epi32(
                *now,
                _mm_loadu_si128((const __m128i *)(const void *)(round_constants + 4 * i)));
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, wk);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(wk, 0x0e));
        }
        abef = _mm_add_epi32(abef, abef_before);
        cdgh = _mm_add_epi32(cdgh, cdgh_before);
    }
    low = _mm_shuffle_epi32(abef, 0x1b);  /* FEBA */
    high = _mm_shuffle_epi32(cdgh, 0xb1); /* DCHG */
    _mm_storeu_si128((__m128i *)(void *)state, _mm_blend_epi16(low, high, 0xf0));
    _mm_storeu_si128((__m128i *)(void *)(state + 4), _mm_alignr_epi8(high, low, 8));
}

#endif

static void compress(uint32_t state[8], const unsigned char *blocks, size_t count)
{
#if defined(__x86_64__)
    if (has_sha_instructions()) {
        compress_x86(state, blocks, count);
        return;
    }
#endif
    compress_portable(state, blocks, count);
}

void af_sha256_init(struct af_sha256 *hash)
{
    /* FIPS 180-4, 5.3.3 */
    *hash = (struct af_sha256){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void af_sha256_add(struct af_sha256 *hash, const void *bytes, size_t len)
{
    const unsigned char *at = bytes;
    size_t held = (size_t)(hash->len % BLOCK_BYTES);
    hash->len += len;
    if (held > 0) {
        size_t part = len < BLOCK_BYTES - held ? len : BLOCK_BYTES - held;
        if (part > 0)
            memcpy(hash->block + held, at, part);
        if (held + part < BLOCK_BYTES)
            return;
        compress(hash->state, hash->block, 1);
        at += part;
        len -= part;
    }
    if (len >= BLOCK_BYTES)
        compress(hash->state, at, len / BLOCK_BYTES);
    if (len % BLOCK_BYTES > 0)
        memcpy(hash->block, at + len / BLOCK_BYTES * BLOCK_BYTES, len % BLOCK_BYTES);
}

/* The bit 1, zeros, and the message's length in bits: FIPS 180-4, 5.1.1. */
static void add_padding(struct af_sha256 *hash)
{
    unsigned char padding[BLOCK_BYTES + 8] = {0x80};
    uint64_t bits = hash->len * 8;
    size_t held = (size_t)(hash->len % BLOCK_BYTES);
    size_t len = (held < BLOCK_BYTES - 8 ? BLOCK_BYTES : 2 * BLOCK_BYTES) - held;
    for (size_t i = 0; i < 8; i++)
        padding[len - 1 - i] = (unsigned char)(bits >> 8 * i);
    af_sha256_add(hash, padding, len);
}

void af_sha256_finish(struct af_sha256 *hash, char hex[AF_SHA256_HEX_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    add_padding(hash);
    for (size_t i = 0; i < 2 * DIGEST_BYTES; i++)
        hex[i] = digits[hash->state[i / 8] >> (28 - 4 * (i % 8)) & 15];
    hex[2 * DIGEST_BYTES] = '\0';
    af_sha256_init(hash);
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

void af_sha256_to_hex(const unsigned char *bytes, char hex[AF_SHA256_HEX_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < AF_SHA256_BYTES; i++) {
        hex[2 * i] = digits[bytes[i] >> 4];
        hex[2 * i + 1] = digits[bytes[i] & 15];
    }
    hex[2 * AF_SHA256_BYTES] = '\0';
}

static unsigned digit_value(char digit)
{
    return digit <= '9' ? (unsigned)(digit - '0') : (unsigned)((digit | 32) - 'a' + 10);
}

bool af_sha256_from_hex(const char *hex, unsigned char bytes[AF_SHA256_BYTES])
{
    if (!af_sha256_is_hex(hex))
        return false;
    for (size_t i = 0; i < AF_SHA256_BYTES; i++)
        bytes[i] = (unsigned char)(digit_value(hex[2 * i]) << 4 | digit_value(hex[2 * i + 1]));
    return true;
}

void af_sha256_to_record(const char *hex, char text[AF_SHA256_RECORD_BYTES])
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    unsigned char bytes[AF_SHA256_BYTES + 1] = {0};
    af_sha256_from_hex(hex, bytes);
    for (size_t i = 0; i < AF_SHA256_RECORD_BYTES - 1; i++) {
        size_t bit = 6 * i;
        unsigned pair = (unsigned)bytes[bit / 8] << 8 | bytes[bit / 8 + 1];
        text[i] = letters[pair >> (10 - bit % 8) & 63];
    }
    text[AF_SHA256_RECORD_BYTES - 1] = '\0';
}

bool af_sha256_equal(const char *hex_a, const char *hex_b)
{
    return af_sha256_is_hex(hex_a) && af_sha256_is_hex(hex_b) && strcasecmp(hex_a, hex_b) == 0;
}
