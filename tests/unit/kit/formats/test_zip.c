/*
 * test_zip.c: reading valid archives, and rejecting damaged ones. Archives that
 * are built to mislead are in test_zip_tricks.c.
 */
#include "kit/formats/zip.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kit/base/sha256.h"
#include "kit/base/text.h"
#include "kit/system/file.h"
#include "tests/unit/kit/formats/zip_build.h"

#define WHEEL AF_TEST_SEEDS "/fuzz_zip/wheel.zip"

static struct build build; /* the archive of the running test */

static struct af_span built(void)
{
    return (struct af_span){(const char *)build.bytes, build.len};
}

/* A stored, a deflated and an empty member, and a folder. */
static void build_good(void)
{
    memset(&build, 0, sizeof build);
    build_member(&build, (struct member_given){.name = "a/", .external = 040755u << 16});
    build_member(&build, (struct member_given){.name = "a/stored", .content = "as it is"});
    build_member(&build, (struct member_given){.name = "a/deflated",
                                               .content = "packed words",
                                               .method = 8,
                                               .external = 0100755u << 16});
    build_member(&build, (struct member_given){.name = "empty"});
    build_finish(&build);
}

static void test_zip__lists_members_with_sizes(void **state)
{
    (void)state;
    struct af_zip zip;
    build_good();
    assert_int_equal(af_zip_open(built(), "good.zip", &zip, NULL), ANYFLASH_OK);
    assert_int_equal(zip.member_count, 4);
    assert_string_equal(zip.members[0].name, "a/");
    assert_true(zip.members[0].is_folder);
    const struct af_zip_member *deflated = af_zip_find(&zip, "a/deflated");
    assert_non_null(deflated);
    assert_int_equal(deflated->size_bytes, 12);
    assert_int_equal(deflated->method, AF_ZIP_DEFLATED);
    assert_int_equal(deflated->header_at, build.header_at[2]);
    assert_null(af_zip_find(&zip, "a/none"));
    af_zip_close(&zip);
}

static void test_zip__reads_members_whole(void **state)
{
    (void)state;
    static const char *const expected[][2] = {
        {"a/stored", "as it is"}, {"a/deflated", "packed words"}, {"empty", ""}};
    struct af_zip zip;
    struct af_arena arena;
    struct af_span bytes;
    build_good();
    af_arena_init(&arena);
    assert_int_equal(af_zip_open(built(), "good.zip", &zip, NULL), ANYFLASH_OK);
    for (size_t i = 0; i < AF_COUNT(expected); i++) {
        const struct af_zip_member *member = af_zip_find(&zip, expected[i][0]);
        assert_int_equal(af_zip_read(&zip, member, &arena, 100, &bytes, NULL), ANYFLASH_OK);
        assert_int_equal(bytes.len, strlen(expected[i][1]));
        assert_string_equal(bytes.data, expected[i][1]);
    }
    assert_int_equal(
        af_zip_read(&zip, af_zip_find(&zip, "a/deflated"), &arena, 11, &bytes, NULL),
        ANYFLASH_E_LIMIT);
    af_zip_close(&zip);
    af_arena_release(&arena);
}

static void test_zip__reads_zip64_sizes_and_end(void **state)
{
    (void)state;
    struct af_zip zip;
    struct af_arena arena;
    struct af_span bytes;
    memset(&build, 0, sizeof build);
    build_member(&build, (struct member_given){.name = "first", .content = "1"});
    build_member(&build,
                 (struct member_given){
                     .name = "large", .content = "sixty-four", .method = 8, .is_64 = true});
    build_directory(&build);
    build_end64(&build, 2);
    build_end(&build, "a comment", 9);
    memset(build.bytes + build.end_at + 8, 0xff, 12); /* counts, size, place: see zip64 */
    af_arena_init(&arena);
    assert_int_equal(af_zip_open(built(), "64.zip", &zip, NULL), ANYFLASH_OK);
    const struct af_zip_member *member = af_zip_find(&zip, "large");
    assert_int_equal(member->header_at, build.header_at[1]);
    assert_int_equal(af_zip_read(&zip, member, &arena, 100, &bytes, NULL), ANYFLASH_OK);
    assert_string_equal(bytes.data, "sixty-four");
    af_zip_close(&zip);
    af_arena_release(&arena);
}

/* A real wheel, packed by Python's zipfile. */
static void test_zip__reads_a_wheel_from_a_file(void **state)
{
    (void)state;
    struct af_mapping mapping = {0};
    struct af_zip zip;
    struct af_arena arena;
    struct af_span bytes;
    af_arena_init(&arena);
    assert_int_equal(af_file_map(WHEEL, &mapping, NULL), ANYFLASH_OK);
    assert_int_equal(af_zip_open(af_mapping_bytes(&mapping), WHEEL, &zip, NULL), ANYFLASH_OK);
    const struct af_zip_member *member = af_zip_find(&zip, "tiny-1.0.dist-info/METADATA");
    assert_non_null(member);
    assert_int_equal(af_zip_read(&zip, member, &arena, 4096, &bytes, NULL), ANYFLASH_OK);
    assert_non_null(strstr(bytes.data, "Name: tiny"));
    af_zip_close(&zip);
    af_file_unmap(&mapping);
    af_arena_release(&arena);
}

static void test_zip__reads_the_start_of_a_member(void **state)
{
    (void)state;
    struct af_zip zip;
    struct af_arena arena;
    struct af_span bytes;
    build_good();
    af_arena_init(&arena);
    assert_int_equal(af_zip_open(built(), "wheel.zip", &zip, NULL), ANYFLASH_OK);
    assert_int_equal(
        af_zip_read_start(&zip, af_zip_find(&zip, "a/deflated"), &arena, 6, &bytes, NULL),
        ANYFLASH_OK);
    assert_int_equal(bytes.len, 6);
    assert_string_equal(bytes.data, "packed");
    af_zip_close(&zip);
    af_arena_release(&arena);
}

static enum anyflash_status keep(void *context, const void *bytes, size_t len,
                                 struct anyflash_error *err)
{
    if (context == NULL)
        return af_fail(err, ANYFLASH_E_IO, "no space");
    af_text_add_n(context, bytes, len);
    return ANYFLASH_OK;
}

static void test_zip__extracts_piece_by_piece(void **state)
{
    (void)state;
    struct af_text text = {0};
    struct af_zip zip;
    build_good();
    assert_int_equal(af_zip_open(built(), "good.zip", &zip, NULL), ANYFLASH_OK);
    assert_int_equal(af_zip_extract(&zip, af_zip_find(&zip, "a/deflated"), keep, &text, NULL),
                     ANYFLASH_OK);
    assert_int_equal(text.len, 12);
    assert_string_equal(text.data, "packed words");
    af_text_release(&text);
    assert_int_equal(af_zip_extract(&zip, af_zip_find(&zip, "a/stored"), keep, NULL, NULL),
                     ANYFLASH_E_IO);
    af_zip_close(&zip);
}

/* Opens `bytes` and reads every member; must return a status and never crash. */
static enum anyflash_status read_all(struct af_span bytes)
{
    struct af_zip zip;
    struct af_arena arena;
    struct af_span content;
    enum anyflash_status status = af_zip_open(bytes, "bytes", &zip, NULL);
    if (status != ANYFLASH_OK)
        return status;
    af_arena_init(&arena);
    for (size_t i = 0; i < zip.member_count && status == ANYFLASH_OK; i++)
        status = af_zip_read(&zip, &zip.members[i], &arena, 1u << 20, &content, NULL);
    af_arena_release(&arena);
    af_zip_close(&zip);
    return status;
}

static void test_zip__cut_at_every_byte_is_refused(void **state)
{
    (void)state;
    build_good();
    for (size_t len = 0; len < build.len; len++) {
        char *exact = malloc(len + 1);
        memcpy(exact, build.bytes, len);
        assert_int_equal(read_all((struct af_span){exact, len}), ANYFLASH_E_DATA);
        free(exact);
    }
    assert_int_equal(read_all(built()), ANYFLASH_OK);
}

static void test_zip__cut_at_every_byte_of_the_front_is_refused(void **state)
{
    (void)state;
    build_good();
    for (size_t cut = 1; cut < build.len; cut++)
        assert_int_equal(
            read_all((struct af_span){(const char *)build.bytes + cut, build.len - cut}),
            ANYFLASH_E_DATA);
}

static void test_zip__survives_every_changed_byte(void **state)
{
    (void)state;
    static const unsigned char changes[] = {0x01, 0x80, 0xff};
    size_t refused = 0;
    build_good();
    for (size_t at = 0; at < build.len; at++) {
        for (size_t i = 0; i < sizeof changes; i++) {
            build.bytes[at] ^= changes[i];
            refused += read_all(built()) != ANYFLASH_OK;
            build.bytes[at] ^= changes[i];
        }
    }
    assert_true(refused > build.len); /* dates and versions may have any value */
}

static void test_zip__damaged_content_is_refused(void **state)
{
    (void)state;
    struct af_zip zip;
    struct af_arena arena;
    struct af_span bytes;
    struct anyflash_error err = {0};
    build_good();
    char *content = strstr((char *)build.bytes + build.header_at[2] + 30, "packed words");
    content = content != NULL ? content : (char *)build.bytes + build.header_at[2] + 45;
    content[0] = 'P';
    af_arena_init(&arena);
    assert_int_equal(af_zip_open(built(), "bad.zip", &zip, NULL), ANYFLASH_OK);
    assert_int_equal(
        af_zip_read(&zip, af_zip_find(&zip, "a/deflated"), &arena, 100, &bytes, &err),
        ANYFLASH_E_DATA);
    assert_string_equal(err.message, "'bad.zip': member 'a/deflated' does not have the CRC-32 "
                                     "that its directory says");
    af_zip_close(&zip);
    af_arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_zip__lists_members_with_sizes),
        cmocka_unit_test(test_zip__reads_members_whole),
        cmocka_unit_test(test_zip__reads_zip64_sizes_and_end),
        cmocka_unit_test(test_zip__reads_a_wheel_from_a_file),
        cmocka_unit_test(test_zip__reads_the_start_of_a_member),
        cmocka_unit_test(test_zip__extracts_piece_by_piece),
        cmocka_unit_test(test_zip__cut_at_every_byte_is_refused),
        cmocka_unit_test(test_zip__cut_at_every_byte_of_the_front_is_refused),
        cmocka_unit_test(test_zip__survives_every_changed_byte),
        cmocka_unit_test(test_zip__damaged_content_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
