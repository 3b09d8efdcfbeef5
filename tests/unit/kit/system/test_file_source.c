/*
 * test_file_source.c: files and bytes as sources, and hashes of files.
 */
#include "kit/base/source.h"

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
    assert_int_equal(af_file_source_open(path, &source, NULL), ANYFLASH_OK);
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
    assert_int_equal(af_file_source_open(path, &source, NULL), ANYFLASH_OK);
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
    assert_int_equal(af_file_source_open(fifo, &source, NULL), ANYFLASH_E_IO);
    unlink(fifo);
    assert_int_equal(af_file_source_open(fifo, &source, NULL), ANYFLASH_E_NOT_FOUND);
    assert_int_equal(af_file_source_open("/", &source, NULL), ANYFLASH_E_IO);
}

static void test_hash_file__gives_hash_and_size(void **state)
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_source__reads_within_a_file_only, make_file,
                                        remove_file),
        cmocka_unit_test_setup_teardown(test_source__a_file_that_shrinks_is_bad_data, make_file,
                                        remove_file),
        cmocka_unit_test_setup_teardown(test_source__refuses_what_is_no_file, make_file,
                                        remove_file),
        cmocka_unit_test_setup_teardown(test_hash_file__gives_hash_and_size, make_file,
                                        remove_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
