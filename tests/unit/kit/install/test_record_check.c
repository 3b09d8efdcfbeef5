/*
 * test_record_check.c: compares RECORD with the files of a folder made for it.
 */
#include "kit/base/sha256.h"
#include "kit/base/text.h"
#include "kit/install/record.h"
#include "kit/system/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/own_folder.h"

/* "abc", by FIPS 180-4's example, in the base64 that RECORD uses. */
#define ABC "sha256=ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0,3"

struct site {
    char folder[OWN_FOLDER_BYTES];
    struct af_arena arena;
};

static void put(const struct site *site, const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", site->folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static int make_site(void **state)
{
    struct site *site = calloc(1, sizeof *site);
    assert_true(own_folder_make(site->folder));
    af_arena_init(&site->arena);
    const char *info = af_path_join(&site->arena, site->folder, "a-1.dist-info");
    assert_int_equal(mkdir(info, 0700), 0);
    put(site, "a.py", "abc");
    put(site, "a-1.dist-info/INSTALLER", "uv");
    *state = site;
    return 0;
}

static int remove_site(void **state)
{
    struct site *site = *state;
    static const char *const names[] = {
        "a.py", "b.py", "a-1.dist-info/INSTALLER", "a-1.dist-info/RECORD", "a-1.dist-info", ""};
    for (size_t i = 0; i < AF_COUNT(names); i++)
        remove(af_path_join(&site->arena, site->folder, names[i]));
    af_arena_release(&site->arena);
    free(site);
    return 0;
}

static struct af_record_result check(struct site *site, const char *record)
{
    struct af_record_result result;
    struct anyflash_error err = {0};
    put(site, "a-1.dist-info/RECORD", record);
    const char *info = af_path_join(&site->arena, site->folder, "a-1.dist-info");
    assert_int_equal(af_record_check(site->folder, info, &site->arena, &result, &err), 0);
    return result;
}

static void expect_fault(struct site *site, const char *record, enum af_record_fault_kind kind)
{
    struct af_record_result result = check(site, record);
    assert_int_equal(result.fault_count, 1);
    assert_int_equal(result.faults[0].kind, kind);
}

static void test_record__a_whole_installation_has_no_fault(void **state)
{
    struct af_record_result result =
        check(*state, "a.py," ABC "\na-1.dist-info/INSTALLER,,\na-1.dist-info/RECORD,,\n");
    assert_int_equal(result.fault_count, 0);
    assert_int_equal(result.line_count, 3);
    assert_int_equal(result.hashed_bytes, 3);
    assert_true(result.has_installer);
}

static void test_record__a_missing_file_is_named(void **state)
{
    struct af_record_result result = check(*state, "a.py," ABC "\nb.py," ABC "\n");
    assert_int_equal(result.fault_count, 1);
    assert_string_equal(result.faults[0].path, "b.py");
    assert_int_equal(result.faults[0].kind, AF_RECORD_FILE_MISSING);
}

static void test_record__other_bytes_of_the_same_size_are_found(void **state)
{
    put(*state, "a.py", "abd");
    expect_fault(*state, "a.py," ABC "\n", AF_RECORD_FILE_CHANGED);
}

static void test_record__another_size_is_found(void **state)
{
    put(*state, "a.py", "ab");
    expect_fault(*state, "a.py," ABC "\n", AF_RECORD_FILE_SIZE);
}

static void test_record__nothing_outside_is_opened(void **state)
{
    expect_fault(*state, "/etc/passwd,,\n", AF_RECORD_FILE_OUTSIDE);
    expect_fault(*state, "../../../../victim/x.pyc,,\n", AF_RECORD_FILE_OUTSIDE);
    expect_fault(*state, "a/../../x,,\n", AF_RECORD_FILE_OUTSIDE);
}

static void test_record__byte_code_may_be_gone(void **state)
{
    assert_int_equal(check(*state, "__pycache__/a.cpython-312.pyc,,\n").fault_count, 0);
}

static void test_record__more_faults_than_shown_are_counted(void **state)
{
    struct af_text record = {0};
    for (int i = 0; i < 100; i++)
        af_text_format(&record, "gone%d.py,,\n", i);
    assert_int_equal(check(*state, af_text_get(&record)).fault_count, 100);
    af_text_release(&record);
}

static void test_record__no_record_is_an_error_that_names_it(void **state)
{
    struct site *site = *state;
    struct af_record_result result;
    struct anyflash_error err = {0};
    assert_int_equal(af_record_check(site->folder, site->folder, &site->arena, &result, &err),
                     ANYFLASH_E_NOT_FOUND);
    assert_non_null(strstr(err.message, "RECORD"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_site, remove_site)
    const struct CMUnitTest tests[] = {
        TEST(test_record__a_whole_installation_has_no_fault),
        TEST(test_record__a_missing_file_is_named),
        TEST(test_record__other_bytes_of_the_same_size_are_found),
        TEST(test_record__another_size_is_found),
        TEST(test_record__nothing_outside_is_opened),
        TEST(test_record__byte_code_may_be_gone),
        TEST(test_record__more_faults_than_shown_are_counted),
        TEST(test_record__no_record_is_an_error_that_names_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
