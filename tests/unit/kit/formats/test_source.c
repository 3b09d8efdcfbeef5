/*
 * test_source.c: files and bytes as sources, and hashes of them.
 */
#include "kit/formats/source.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "kit/system/file.h"

#include "tests/unit/own_folder.h"

static char path[OWN_FOLDER_BYTES + 8];

static int make_file(void **state)
{
    (void)state;
    char folder[OWN_FOLDER_BYTES];
    if (!own_folder_make(folder))
        return -1;
    snprintf(path, sizeof path, "%s/file", folder);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    return fd < 0 || write(fd, "0123456789", 10) != 10 || close(fd) != 0 ? -1 : 0;
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

static void test_source__reads_within_a_file_only(void **state)
{
    (void)state;
    struct af_source source;
    char text[8] = "";
    assert_int_equal(af_source_open_file(path, &source, NULL), ANYFLASH_OK);
    assert_int_equal(source.size_bytes, 10);
    assert_int_equal(af_source_read(&source, 4, text, 3, NULL), ANYFLASH_OK);
    assert_string_equal(text, "456");
    assert_int_equal(source.bytes_read, 3);
    assert_int_equal(af_source_read(&source, 8, text, 3, NULL), ANYFLASH_E_DATA);
    assert_int_equal(af_source_read(&source, UINT64_MAX, text, 3, NULL), ANYFLASH_E_DATA);
    assert_int_equal(af_source_read(&source, 10, text, 0, NULL), ANYFLASH_OK);
    af_source_close(&source);
    af_source_close(&source);
}

static void test_source__a_file_that_shrinks_is_bad_data(void **state)
{
    (void)state;
    struct af_source source;
    char text[8];
    assert_int_equal(af_source_open_file(path, &source, NULL), ANYFLASH_OK);
    assert_int_equal(truncate(path, 2), 0);
    assert_int_equal(af_source_read(&source, 0, text, 5, NULL), ANYFLASH_E_DATA);
    af_source_close(&source);
}

static void test_source__refuses_what_is_no_file(void **state)
{
    (void)state;
    struct af_source source;
    char fifo[sizeof path + 8];
    snprintf(fifo, sizeof fifo, "%s.fifo", path);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_int_equal(af_source_open_file(fifo, &source, NULL), ANYFLASH_E_IO);
    unlink(fifo);
    assert_int_equal(af_source_open_file(fifo, &source, NULL), ANYFLASH_E_NOT_FOUND);
    assert_int_equal(af_source_open_file("/", &source, NULL), ANYFLASH_E_IO);
}

/* FIPS 180-4's examples. */
static void test_sha256__agrees_with_the_standard(void **state)
{
    (void)state;
    char hex[AF_SHA256_HEX_BYTES];
    af_sha256_bytes((struct af_span){"abc", 3}, hex);
    assert_string_equal(hex,
                        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    af_sha256_bytes((struct af_span){NULL, 0}, hex);
    assert_string_equal(hex,
                        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

static void test_sha256__of_a_file_with_its_size(void **state)
{
    (void)state;
    char hex[AF_SHA256_HEX_BYTES], expected[AF_SHA256_HEX_BYTES];
    uint64_t size = 0;
    assert_int_equal(af_file_sha256(path, hex, &size, NULL), ANYFLASH_OK);
    af_sha256_bytes((struct af_span){"0123456789", 10}, expected);
    assert_string_equal(hex, expected);
    assert_int_equal(size, 10);
    assert_int_equal(af_file_sha256("/", hex, &size, NULL), ANYFLASH_E_IO);
    assert_int_equal(af_file_sha256("/nonexistent", hex, &size, NULL), ANYFLASH_E_NOT_FOUND);
}

static void test_sha256__compares_hashes_whatever_their_case(void **state)
{
    (void)state;
    const char *lower = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_true(af_sha256_equal(
        lower, "BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD"));
    assert_false(af_sha256_equal(lower, lower + 1));
    assert_false(af_sha256_equal("", ""));
    assert_false(af_sha256_equal(NULL, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_source__reads_within_a_file_only, make_file,
                                        remove_file),
        cmocka_unit_test_setup_teardown(test_source__a_file_that_shrinks_is_bad_data, make_file,
                                        remove_file),
        cmocka_unit_test_setup_teardown(test_source__refuses_what_is_no_file, make_file,
                                        remove_file),
        cmocka_unit_test(test_sha256__agrees_with_the_standard),
        cmocka_unit_test_setup_teardown(test_sha256__of_a_file_with_its_size, make_file,
                                        remove_file),
        cmocka_unit_test(test_sha256__compares_hashes_whatever_their_case),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
