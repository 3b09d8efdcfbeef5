/*
 * test_sha256.c: hashes of known bytes, with both implementations. The source
 * file is included, so that each can be called by itself.
 */
#include "kit/base/sha256.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void test_sha256__gives_the_published_examples(void **state)
{
    (void)state;
    /* FIPS 180-2, appendix B; the empty message. */
    static const struct {
        const char *text;
        const char *hex;
    } cases[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    };
    for (size_t i = 0; i < AF_COUNT(cases); i++) {
        char hex[AF_SHA256_HEX_BYTES];
        af_sha256_bytes((struct af_span){cases[i].text, strlen(cases[i].text)}, hex);
        assert_string_equal(hex, cases[i].hex);
    }
}

static void test_sha256__gives_the_published_example_of_a_million_letters(void **state)
{
    (void)state;
    char thousand[1000];
    char hex[AF_SHA256_HEX_BYTES];
    struct af_sha256 hash;
    memset(thousand, 'a', sizeof thousand);
    af_sha256_init(&hash);
    for (int i = 0; i < 1000; i++)
        af_sha256_add(&hash, thousand, sizeof thousand);
    af_sha256_finish(&hash, hex);
    assert_string_equal(hex,
                        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

/*
 * Messages of 0 to 300 bytes: the hash of the hashes of all of them, computed by
 * hashlib of CPython 3.11. Each is added in two parts, split at every third byte.
 */
static void test_sha256__is_right_for_each_length_and_split(void **state)
{
    (void)state;
    unsigned char message[300];
    struct af_sha256 all;
    char hex[AF_SHA256_HEX_BYTES];
    for (size_t i = 0; i < sizeof message; i++)
        message[i] = (unsigned char)(i * 7 + 3);
    af_sha256_init(&all);
    for (size_t len = 0; len <= sizeof message; len++) {
        af_sha256_bytes((struct af_span){(const char *)message, len}, hex);
        af_sha256_add(&all, hex, 64);
        for (size_t split = 0; split <= len; split += 3) {
            struct af_sha256 hash;
            char again[AF_SHA256_HEX_BYTES];
            af_sha256_init(&hash);
            af_sha256_add(&hash, message, split);
            af_sha256_add(&hash, message + split, len - split);
            af_sha256_finish(&hash, again);
            assert_string_equal(hex, again);
        }
    }
    af_sha256_finish(&all, hex);
    assert_string_equal(hex,
                        "9ab015b3431ba48c0f99e81c5bb7d903f6bfea343d7d7b190120d07cc51e653b");
}

static void test_sha256__both_ways_of_computing_agree(void **state)
{
    (void)state;
#if defined(__x86_64__)
    if (!has_sha_instructions()) {
        print_message("this processor has no SHA instructions\n");
        skip();
    }
    unsigned char blocks[5 * BLOCK_BYTES];
    uint32_t seed = 1;
    for (int round = 0; round < 200; round++) {
        uint32_t a[8];
        uint32_t b[8];
        for (size_t i = 0; i < sizeof blocks; i++)
            blocks[i] = (unsigned char)((seed = seed * 1664525u + 1013904223u) >> 24);
        memcpy(a, blocks, sizeof a);
        memcpy(b, blocks, sizeof b);
        compress_portable(a, blocks, (size_t)round % 6);
        compress_x86(b, blocks, (size_t)round % 6);
        assert_memory_equal(a, b, sizeof a);
    }
#else
    print_message("needs an x86_64 processor\n");
    skip();
#endif
}

static void test_sha256__finish_starts_a_new_hash(void **state)
{
    (void)state;
    struct af_sha256 hash;
    char first[AF_SHA256_HEX_BYTES];
    char second[AF_SHA256_HEX_BYTES];
    af_sha256_init(&hash);
    af_sha256_add(&hash, "abc", 3);
    af_sha256_finish(&hash, first);
    af_sha256_add(&hash, "abc", 3);
    af_sha256_finish(&hash, second);
    assert_string_equal(first, second);
}

static void test_sha256__compares_digits_of_either_case(void **state)
{
    (void)state;
    char lower[AF_SHA256_HEX_BYTES];
    char upper[AF_SHA256_HEX_BYTES];
    memset(lower, 'a', 64);
    memset(upper, 'A', 64);
    lower[64] = upper[64] = '\0';
    assert_true(af_sha256_equal(lower, upper));
    upper[0] = 'g';
    assert_false(af_sha256_equal(upper, upper));
    lower[63] = '\0';
    assert_false(af_sha256_is_hex(lower));
    assert_false(af_sha256_is_hex(NULL));
}

static void test_sha256__digits_and_bytes_go_both_ways(void **state)
{
    (void)state;
    unsigned char bytes[AF_SHA256_BYTES];
    char hex[AF_SHA256_HEX_BYTES];
    char wanted[AF_SHA256_HEX_BYTES];
    af_sha256_bytes((struct af_span){"abc", 3}, wanted);
    assert_true(af_sha256_from_hex(wanted, bytes));
    af_sha256_to_hex(bytes, hex);
    assert_string_equal(hex, wanted);
    assert_true(af_sha256_from_hex(
        "BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD", bytes));
    af_sha256_to_hex(bytes, hex);
    assert_string_equal(hex, wanted);
    wanted[63] = 'g';
    assert_false(af_sha256_from_hex(wanted, bytes));
    assert_false(af_sha256_from_hex("ba78", bytes));
    assert_false(af_sha256_from_hex(NULL, bytes));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sha256__gives_the_published_examples),
        cmocka_unit_test(test_sha256__gives_the_published_example_of_a_million_letters),
        cmocka_unit_test(test_sha256__is_right_for_each_length_and_split),
        cmocka_unit_test(test_sha256__both_ways_of_computing_agree),
        cmocka_unit_test(test_sha256__finish_starts_a_new_hash),
        cmocka_unit_test(test_sha256__compares_digits_of_either_case),
        cmocka_unit_test(test_sha256__digits_and_bytes_go_both_ways),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
