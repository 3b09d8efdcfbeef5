/*
 * test_wheel_archive.c: finding the dist-info folder of a wheel.
 */
#include "kit/formats/wheel_archive.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/unit/kit/formats/zip_build.h"

static struct build build;

/* An archive of the members `names`, up to a NULL. */
static void open_archive(const char *const *names, struct af_wheel_archive *archive)
{
    memset(&build, 0, sizeof build);
    for (; *names != NULL; names++)
        build_member(&build, (struct member_given){.name = *names, .content = *names});
    build_finish(&build);
    assert_int_equal(
        af_wheel_archive_open((struct af_span){(const char *)build.bytes, build.len},
                              "made.whl", archive, NULL),
        ANYFLASH_OK);
}

static void test_wheel_archive__reads_the_texts_of_its_dist_info(void **state)
{
    (void)state;
    static const char *const names[] = {"a/b-1.dist-info/METADATA",
                                        "x.dist-info",
                                        "a-1.dist-info/RECORD",
                                        "a-1.dist-info/deep/WHEEL",
                                        "a/c.py",
                                        "a-1.dist-info/METADATA",
                                        NULL};
    struct af_wheel_archive archive;
    struct af_arena arena;
    struct af_span text;
    struct anyflash_error err = {0};
    af_arena_init(&arena);
    open_archive(names, &archive);
    assert_string_equal(archive.info, "a-1.dist-info/");
    assert_int_equal(archive.info_count, 1);
    assert_int_equal(af_wheel_archive_read_info(&archive, "METADATA", &arena, 100, &text, NULL),
                     ANYFLASH_OK);
    assert_string_equal(text.data, "a-1.dist-info/METADATA");
    assert_null(af_wheel_archive_info(&archive, "METADAT"));
    assert_int_equal(af_wheel_archive_read_info(&archive, "WHEEL", &arena, 100, &text, &err),
                     ANYFLASH_E_DATA);
    assert_string_equal(err.message, "'made.whl' has no WHEEL: it is not a wheel");
    af_wheel_archive_close(&archive);
    af_arena_release(&arena);
}

static void test_wheel_archive__counts_several_dist_infos(void **state)
{
    (void)state;
    static const char *const names[] = {"a-1.dist-info/RECORD", "b-1.dist-info/RECORD",
                                        "a-1.dist-info/WHEEL", NULL};
    struct af_wheel_archive archive;
    open_archive(names, &archive);
    assert_string_equal(archive.info, "a-1.dist-info/");
    assert_true(archive.info_count > 1);
    af_wheel_archive_close(&archive);
}

static void test_wheel_archive__of_other_archives_has_none(void **state)
{
    (void)state;
    static const char *const names[] = {"a/b", ".dist-info/METADATA", NULL};
    struct af_wheel_archive archive;
    open_archive(names, &archive);
    assert_null(archive.info);
    assert_int_equal(archive.info_count, 0);
    assert_null(af_wheel_archive_info(&archive, "METADATA"));
    af_wheel_archive_close(&archive);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wheel_archive__reads_the_texts_of_its_dist_info),
        cmocka_unit_test(test_wheel_archive__counts_several_dist_infos),
        cmocka_unit_test(test_wheel_archive__of_other_archives_has_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
