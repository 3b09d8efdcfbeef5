/*
 * test_wheel_archive.c: finding the dist-info folder of a wheel. What is packed can be read,
 * RECORD describes it, and the bytes depend on the members alone.
 */
#include "kit/formats/wheel_archive.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kit/base/text.h"
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

static struct af_arena arena;

static int set_up(void **state)
{
    (void)state;
    af_arena_init(&arena);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    af_arena_release(&arena);
    return 0;
}

static struct af_wheel_pack *new_pack(void)
{
    struct af_wheel_pack *pack = af_arena_alloc(&arena, sizeof *pack);
    assert_non_null(pack);
    pack->arena = &arena;
    pack->information = "one-1.dist-info";
    return pack;
}

static struct af_span file_of(struct af_wheel_pack *pack)
{
    const struct af_span *pieces;
    struct af_text text = {0};
    size_t count;
    assert_int_equal(af_wheel_pack_archive(pack, &pieces, &count, NULL), ANYFLASH_OK);
    for (size_t i = 0; i < count; i++)
        af_text_add_n(&text, pieces[i].data, pieces[i].len);
    char *copy = af_arena_alloc(&arena, text.len);
    memcpy(copy, af_text_get(&text), text.len);
    struct af_span file = {copy, text.len};
    af_text_release(&text);
    return file;
}

static void test_wheel_pack__reads_back_with_its_record(void **state)
{
    (void)state;
    struct af_wheel_pack *pack = new_pack();
    struct af_zip zip;
    struct af_span record;
    af_wheel_pack_add(pack, "two/b.so", (struct af_span){"\0\1\2", 3}, 0755);
    af_wheel_pack_text(pack, "one/__init__.py", "x = 1\n");
    af_wheel_pack_information(pack, "WHEEL", "");
    struct af_span file = file_of(pack);
    assert_int_equal(af_zip_open(file, "one.whl", &zip, NULL), ANYFLASH_OK);
    assert_int_equal(zip.member_count, 4);
    assert_string_equal(zip.members[3].name, "one-1.dist-info/RECORD");
    assert_int_equal(af_zip_read(&zip, af_zip_find(&zip, "one-1.dist-info/RECORD"), &arena,
                                 4096, &record, NULL),
                     ANYFLASH_OK);
    assert_string_equal(
        record.data,
        "one-1.dist-info/WHEEL,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0\n"
        "one/__init__.py,sha256=nia_NpkRxFwkPGhBR7I_yeHc_PJX0pmhxjIBam_NM_Q,6\n"
        "two/b.so,sha256=rksygOVuL6-D9BSm49q-nV--GJdlRMBf7RIazLhbU_w,3\n"
        "one-1.dist-info/RECORD,,\n");
    af_zip_close(&zip);
}

static void test_wheel_pack__order_of_adding_does_not_matter(void **state)
{
    (void)state;
    struct af_wheel_pack *packs[] = {new_pack(), new_pack()};
    for (size_t i = 0; i < 2; i++)
        for (size_t j = 0; j < 2; j++)
            af_wheel_pack_text(packs[i], i == j ? "a" : "b", i == j ? "first" : "second");
    struct af_span one = file_of(packs[0]);
    struct af_span other = file_of(packs[1]);
    assert_int_equal(one.len, other.len);
    assert_memory_equal(one.data, other.data, one.len);
}

static void test_wheel_pack__refuses_too_many_members(void **state)
{
    const struct af_span *pieces;
    size_t count;
    (void)state;
    struct af_wheel_pack *pack = new_pack();
    for (size_t i = 0; i < AF_WHEEL_PACK_MEMBERS_MAX + 2; i++)
        af_wheel_pack_text(pack, af_arena_format(&arena, "%zu", i), "");
    assert_int_equal(af_wheel_pack_archive(pack, &pieces, &count, NULL), ANYFLASH_E_LIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wheel_archive__reads_the_texts_of_its_dist_info),
        cmocka_unit_test(test_wheel_archive__counts_several_dist_infos),
        cmocka_unit_test(test_wheel_archive__of_other_archives_has_none),
        cmocka_unit_test_setup_teardown(test_wheel_pack__reads_back_with_its_record, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_wheel_pack__order_of_adding_does_not_matter,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_wheel_pack__refuses_too_many_members, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
