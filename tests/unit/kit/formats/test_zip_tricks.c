/*
 * test_zip_tricks.c: archives that are built to mislead an unpacker are
 * rejected on opening, each with a message that says why.
 */
#include "kit/formats/zip.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/unit/kit/formats/zip_build.h"

static struct build build;

static enum anyflash_status open_and_read(struct af_span bytes, struct anyflash_error *err)
{
    struct af_zip zip;
    struct af_arena arena;
    struct af_span content;
    enum anyflash_status status = af_zip_open(bytes, "x.whl", &zip, err);
    if (status != ANYFLASH_OK)
        return status;
    af_arena_init(&arena);
    for (size_t i = 0; i < zip.member_count && status == ANYFLASH_OK; i++)
        status = af_zip_read(&zip, &zip.members[i], &arena, 1u << 20, &content, err);
    af_arena_release(&arena);
    af_zip_close(&zip);
    return status;
}

/* The archive is rejected with `status` and a message that contains `words`. */
static void assert_refused(enum anyflash_status status, const char *words)
{
    struct anyflash_error err = {0};
    struct af_span bytes = {(const char *)build.bytes, build.len};
    assert_int_equal(open_and_read(bytes, &err), status);
    if (strstr(err.message, words) == NULL)
        fail_msg("'%s' lacks '%s'", err.message, words);
}

/* An archive of a good member and then `given`. */
static void refuse(struct member_given given, enum anyflash_status status, const char *words)
{
    memset(&build, 0, sizeof build);
    build_member(&build, (struct member_given){.name = "good", .content = "good"});
    build_member(&build, given);
    build_finish(&build);
    assert_refused(status, words);
}

static void refuse_name(const char *name, const char *words)
{
    refuse((struct member_given){.name = name, .content = "x"}, ANYFLASH_E_DATA, words);
}

static void test_zip_tricks__names_that_leave_the_folder(void **state)
{
    (void)state;
    refuse_name("../evil", "leaves the folder");
    refuse_name("a/../../evil", "leaves the folder");
    refuse_name("a/..", "leaves the folder");
    refuse_name("/etc/passwd", "is absolute");
    refuse_name("C:/evil", "names a drive");
    refuse_name("a\\..\\evil", "has a backslash");
    refuse_name("a//b", "has an empty part");
    refuse_name("./a", "has '.' as a part");
    refuse_name("a\033[2Jb", "cannot be shown");
    refuse_name("a\xff", "cannot be shown");
    refuse((struct member_given){.name = "a\0b", .name_len = 3}, ANYFLASH_E_DATA, "NUL");
}

static void test_zip_tricks__two_members_of_one_name(void **state)
{
    (void)state;
    refuse((struct member_given){.name = "good", .content = "bad!"}, ANYFLASH_E_DATA,
           "two members called 'good'");
    refuse((struct member_given){.name = "good/inside", .content = "x"}, ANYFLASH_E_DATA,
           "have to be a folder");
    refuse((struct member_given){.name = "good/"}, ANYFLASH_E_DATA, "have to be a folder");
}

static void test_zip_tricks__two_names_of_one_file(void **state)
{
    (void)state;
    refuse((struct member_given){.name = "GOOD", .content = "bad!"}, ANYFLASH_E_DATA,
           "'GOOD' and 'good' differ only in case");
    refuse((struct member_given){.name = "Good/inside", .content = "x"}, ANYFLASH_E_DATA,
           "have to be a folder");
    refuse((struct member_given){.name = "cafe\xcc\x81", .content = "x", .flags = 0x800},
           ANYFLASH_E_DATA, "combining marks");
    memset(&build, 0, sizeof build);
    build_member(&build, (struct member_given){.name = "good", .content = "x"});
    build_member(&build, (struct member_given){.name = "goods", .content = "x"});
    build_member(&build,
                 (struct member_given){.name = "caf\xc3\xa9", .content = "x", .flags = 0x800});
    build_finish(&build);
    struct anyflash_error err = {0};
    assert_int_equal(
        open_and_read((struct af_span){(const char *)build.bytes, build.len}, &err),
        ANYFLASH_OK);
}

static void test_zip_tricks__links_and_devices(void **state)
{
    (void)state;
    refuse((struct member_given){.name = "l", .content = "/etc", .external = 0120777u << 16},
           ANYFLASH_E_DATA, "symbolic link");
    refuse((struct member_given){.name = "d", .external = 020666u << 16}, ANYFLASH_E_DATA,
           "neither file nor folder");
    refuse((struct member_given){.name = "f", .external = 040755u << 16}, ANYFLASH_E_DATA,
           "not by both");
}

static void test_zip_tricks__encryption_and_other_methods(void **state)
{
    (void)state;
    refuse((struct member_given){.name = "e", .content = "x", .flags = 1},
           ANYFLASH_E_UNSUPPORTED, "encrypted");
    refuse((struct member_given){.name = "m", .content = "x", .method = 93},
           ANYFLASH_E_UNSUPPORTED, "other than deflate");
}

static void test_zip_tricks__sizes_that_lie(void **state)
{
    (void)state;
    refuse((struct member_given){.name = "s", .content = "abc", .size = 2}, ANYFLASH_E_DATA,
           "two sizes");
    refuse((struct member_given){.name = "s", .content = "abc", .method = 8, .size = 4},
           ANYFLASH_E_DATA, "shorter");
    refuse((struct member_given){.name = "s", .content = "abc", .method = 8, .size = 2},
           ANYFLASH_E_DATA, "longer");
    refuse((struct member_given){.name = "s", .content = "abc", .method = 8, .packed = 7},
           ANYFLASH_E_DATA, "belong to no member");
    refuse((struct member_given){.name = "s", .content = "abc", .method = 8, .packed = 999},
           ANYFLASH_E_DATA, "overlaps");
    refuse((struct member_given){.name = "s", .content = "abc", .method = 8, .packed = 9},
           ANYFLASH_E_DATA, "overlaps");
    refuse((struct member_given){.name = "s", .content = "abc", .crc = 1}, ANYFLASH_E_DATA,
           "CRC-32");
    refuse((struct member_given){.name = "f/", .content = "abc"}, ANYFLASH_E_DATA,
           "folder with content");
}

static void test_zip_tricks__bombs(void **state)
{
    (void)state;
    refuse((struct member_given){.name = "b", .content = "abc", .method = 8, .size = 1u << 30},
           ANYFLASH_E_LIMIT, "more than 250 times");
}

/* Each member is below the size from which its own ratio counts. */
static void test_zip_tricks__bombs_of_many_members(void **state)
{
    (void)state;
    memset(&build, 0, sizeof build);
    static const char *const names[] = {"a", "b", "c", "d"};
    for (size_t i = 0; i < AF_COUNT(names); i++)
        build_member(&build,
                     (struct member_given){
                         .name = names[i], .content = "abc", .method = 8, .size = 16u << 20});
    build_finish(&build);
    assert_refused(ANYFLASH_E_LIMIT, "more than 100 times");
}

static void test_zip_tricks__members_that_overlap(void **state)
{
    (void)state;
    refuse((struct member_given){.name = "twin", .content = "x", .own_header = 1},
           ANYFLASH_E_DATA, "overlaps");
    refuse((struct member_given){.name = "in", .content = "x", .own_header = 3},
           ANYFLASH_E_DATA, "overlaps");
    refuse((struct member_given){.name = "far", .content = "x", .own_header = 1u << 30},
           ANYFLASH_E_DATA, "overlaps");
    refuse((struct member_given){.name = "long", .content = "x", .own_extra = 500},
           ANYFLASH_E_DATA, "damaged");
}

/* An archive of a good member and then `given` is refused before a member is opened. */
static void refuse_opening(struct member_given given, const char *words)
{
    struct af_zip zip;
    struct anyflash_error err = {0};
    memset(&build, 0, sizeof build);
    build_member(&build, (struct member_given){.name = "good", .content = "good"});
    build_member(&build, given);
    build_finish(&build);
    assert_int_equal(af_zip_open((struct af_span){(const char *)build.bytes, build.len},
                                 "x.whl", &zip, &err),
                     ANYFLASH_E_DATA);
    if (strstr(err.message, words) == NULL)
        fail_msg("'%s' lacks '%s'", err.message, words);
}

static void test_zip_tricks__an_own_header_that_differs_from_the_directory(void **state)
{
    (void)state;
    refuse_opening((struct member_given){.name = "seen", .content = "x", .own_name = "took"},
                   "another name");
    refuse_opening((struct member_given){.name = "f", .content = "x", .own_flags = 0x800 + 1},
                   "another way");
    refuse_opening((struct member_given){.name = "m", .content = "x", .own_method = 8 + 1},
                   "another way");
    refuse_opening((struct member_given){.name = "s", .content = "x", .own_size = 2},
                   "another size");
}

/* Info-ZIP's "Unicode path" (APPNOTE.TXT 4.6.9): version, CRC-32 of the name, other name. */
static const char unicode_path[] = "\x75\x70\x0d\0\1\0\0\0\0evil.pth";
#define UNICODE_PATH_BYTES (sizeof unicode_path - 1)

static void test_zip_tricks__a_second_name_in_an_extra_field(void **state)
{
    (void)state;
    refuse_opening((struct member_given){.name = "flash_attn/x.py",
                                         .content = "x",
                                         .extra = unicode_path,
                                         .extra_len = UNICODE_PATH_BYTES},
                   "second name");
    refuse_opening((struct member_given){.name = "flash_attn/x.py",
                                         .content = "x",
                                         .own_field = unicode_path,
                                         .extra_len = UNICODE_PATH_BYTES},
                   "second name");
    refuse_opening((struct member_given){.name = "flash_attn/x.py",
                                         .content = "x",
                                         .extra = unicode_path,
                                         .extra_len = UNICODE_PATH_BYTES - 1},
                   "damaged extra field");
}

/* Programs that do not expect UTF-8 without its flag read the name as code page 437. */
static void test_zip_tricks__a_name_of_unknown_encoding(void **state)
{
    (void)state;
    refuse_opening((struct member_given){.name = "n\xc3\xa9.py", .content = "x"}, "not ASCII");
    memset(&build, 0, sizeof build);
    build_member(&build,
                 (struct member_given){.name = "n\xc3\xa9.py", .content = "x", .flags = 0x800});
    build_finish(&build);
    assert_int_equal(
        open_and_read((struct af_span){(const char *)build.bytes, build.len}, NULL),
        ANYFLASH_OK);
}

static void build_good(void)
{
    memset(&build, 0, sizeof build);
    build_member(&build, (struct member_given){.name = "good", .content = "good"});
    build_directory(&build);
}

static void test_zip_tricks__two_ends(void **state)
{
    (void)state;
    char comment[22] = "PK\5\6";
    build_good();
    build_end(&build, comment,
              sizeof comment); /* the end record of an empty archive in the comment */
    assert_refused(ANYFLASH_E_DATA, "not where the end record says");
    build_good();
    build_end(&build, "PK\5\6 but not at the end of a record", 36);
    assert_refused(ANYFLASH_E_DATA, "more than one end record");
}

static void test_zip_tricks__a_comment_is_no_trick(void **state)
{
    (void)state;
    build_good();
    build_end(&build, "made by hand", 12);
    struct af_span bytes = {(const char *)build.bytes, build.len};
    assert_int_equal(open_and_read(bytes, NULL), ANYFLASH_OK);
}

static void test_zip_tricks__bytes_around_the_archive(void **state)
{
    (void)state;
    build_good();
    build_end(&build, NULL, 0);
    build_bytes(&build, "behind", 6);
    assert_refused(ANYFLASH_E_DATA, "no end record");
    build_good();
    build_bytes(&build, "between", 7);
    build_end(&build, NULL, 0);
    assert_refused(ANYFLASH_E_DATA, "not where the end record says");
    memset(&build, 0, sizeof build);
    build_bytes(&build, "#!/bin/sh", 9);
    build_member(&build, (struct member_given){.name = "good", .content = "good"});
    build_finish(&build);
    assert_refused(ANYFLASH_E_DATA, "bytes before its first member");
}

static void test_zip_tricks__a_false_zip64_end_is_not_followed(void **state)
{
    (void)state;
    struct af_zip zip;
    build_good();
    struct build evil = build; /* an archive with a zip64 end, inside of a member */
    build_end64(&evil, 1);
    memset(&build, 0, sizeof build);
    build_member(&build, (struct member_given){.name = "outer",
                                               .content = (const char *)evil.bytes,
                                               .content_len = evil.len});
    build_finish(&build);
    assert_int_equal(
        af_zip_open((struct af_span){(const char *)build.bytes, build.len}, "x", &zip, NULL),
        ANYFLASH_OK);
    assert_string_equal(zip.members[0].name, "outer");
    af_zip_close(&zip);
}

static void test_zip_tricks__zip64_that_contradicts(void **state)
{
    (void)state;
    build_good();
    build_end64(&build, 1);
    build_end(&build, NULL, 0);
    build.bytes[build.end_at + 8]++;
    build.bytes[build.end_at + 10]++;
    assert_refused(ANYFLASH_E_DATA, "more than one end record");
    build_good();
    build_end64(&build, 2);
    build_end(&build, NULL, 0);
    memset(build.bytes + build.end_at + 8, 0xff, 12);
    assert_refused(ANYFLASH_E_DATA, "claims 2 members");
}

/* Python looks for the record 56 bytes before the locator, where this one has only its data. */
static void test_zip_tricks__a_zip64_record_with_data_of_its_own(void **state)
{
    (void)state;
    unsigned char data[80];
    build_good();
    build_end64(&build, 1);
    const size_t locator_at = build.len - 20, record_at = locator_at - 56;
    memcpy(data, build.bytes + record_at, 76); /* the record again, and the locator */
    build.bytes[record_at + 4] += 56;
    build.len = locator_at;
    build_bytes(&build, (const char *)data, 76);
    build_end(&build, NULL, 0);
    assert_refused(ANYFLASH_E_DATA, "more than one end record");
}

/* A program that reads from the start takes what lies between members for a member. */
static void test_zip_tricks__bytes_between_members(void **state)
{
    (void)state;
    struct build hidden = {.len = 0};
    build_member(&hidden, (struct member_given){.name = "evil.pth", .content = "import os"});
    for (int n = 0; n < 3; n++) {
        build_good();
        build.len = build.directory_at;
        build_bytes(&build, n == 0 ? "x" : (const char *)hidden.bytes, n == 0 ? 1 : hidden.len);
        if (n == 2)
            build_member(&build, (struct member_given){.name = "last", .content = "x"});
        build_finish(&build);
        assert_refused(ANYFLASH_E_DATA, "belong to no member");
    }
}

/* Sizes behind a member (APPNOTE.TXT 4.3.9): with and without a mark, of 4 and of 8 bytes. */
static void test_zip_tricks__sizes_behind_a_member(void **state)
{
    (void)state;
    for (int n = 0; n < 4 * 4; n++) {
        const size_t bytes = n % 2 == 0 ? 4 : 8, marked = n / 2 % 2 == 0 ? 0 : 4;
        memset(&build, 0, sizeof build);
        build_member(&build,
                     (struct member_given){.name = "good", .content = "good", .flags = 8});
        build_bytes(&build, "PK\7\10", marked);
        build_number(&build, build.crc[0] + (n / 4 == 1), 4);
        build_number(&build, 4 + (n / 4 == 2), bytes);
        build_number(&build, 4 + (n / 4 == 3), bytes);
        build_finish(&build);
        if (n / 4 > 0)
            assert_refused(ANYFLASH_E_DATA, "belong to no member");
        else
            assert_int_equal(
                open_and_read((struct af_span){(const char *)build.bytes, build.len}, NULL),
                ANYFLASH_OK);
    }
}

static void test_zip_tricks__a_million_members(void **state)
{
    (void)state;
    size_t directory = 46u * 1000000u;
    memset(&build, 0, sizeof build);
    build.directory_len = directory;
    build.len = 0;
    char *bytes = calloc(1, directory + 200);
    build_end64(&build, 1000000);
    build.bytes[56 + 8] = (unsigned char)directory; /* the locator: the record is behind it */
    build.bytes[56 + 9] = (unsigned char)(directory >> 8);
    build.bytes[56 + 10] = (unsigned char)(directory >> 16);
    build.bytes[56 + 11] = (unsigned char)(directory >> 24);
    build_end(&build, NULL, 0);
    memset(build.bytes + build.end_at + 8, 0xff, 12);
    memcpy(bytes + directory, build.bytes, build.len);
    struct anyflash_error err = {0};
    assert_int_equal(open_and_read((struct af_span){bytes, directory + build.len}, &err),
                     ANYFLASH_E_LIMIT);
    assert_non_null(strstr(err.message, "1000000 members"));
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_zip_tricks__names_that_leave_the_folder),
        cmocka_unit_test(test_zip_tricks__two_members_of_one_name),
        cmocka_unit_test(test_zip_tricks__two_names_of_one_file),
        cmocka_unit_test(test_zip_tricks__links_and_devices),
        cmocka_unit_test(test_zip_tricks__encryption_and_other_methods),
        cmocka_unit_test(test_zip_tricks__sizes_that_lie),
        cmocka_unit_test(test_zip_tricks__bombs),
        cmocka_unit_test(test_zip_tricks__bombs_of_many_members),
        cmocka_unit_test(test_zip_tricks__members_that_overlap),
        cmocka_unit_test(test_zip_tricks__an_own_header_that_differs_from_the_directory),
        cmocka_unit_test(test_zip_tricks__a_second_name_in_an_extra_field),
        cmocka_unit_test(test_zip_tricks__a_name_of_unknown_encoding),
        cmocka_unit_test(test_zip_tricks__two_ends),
        cmocka_unit_test(test_zip_tricks__a_comment_is_no_trick),
        cmocka_unit_test(test_zip_tricks__bytes_around_the_archive),
        cmocka_unit_test(test_zip_tricks__a_false_zip64_end_is_not_followed),
        cmocka_unit_test(test_zip_tricks__zip64_that_contradicts),
        cmocka_unit_test(test_zip_tricks__a_zip64_record_with_data_of_its_own),
        cmocka_unit_test(test_zip_tricks__bytes_between_members),
        cmocka_unit_test(test_zip_tricks__sizes_behind_a_member),
        cmocka_unit_test(test_zip_tricks__a_million_members),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
