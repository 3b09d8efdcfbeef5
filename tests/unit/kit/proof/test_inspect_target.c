/*
 * test_inspect_target.c: what is found in synthetic files, folders and wheels,
 * and what a wheel's metadata says. Also makes each allocation fail in turn:
 * nothing is left in the temporary folder.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "kit/proof/inspect_target.h"
#include "kit/system/file.h"
#include "tests/unit/kit/formats/zip_build.h"

#define CORPUS AF_TEST_SEEDS "/fuzz_binary/"
#define WHEEL "demo-1.0-cp312-cp312-linux_x86_64.whl"
#define RECORD                                                                                 \
    "demo/small.so,,\ndemo.libs/libtiny.so,,\ndemo-1.0.dist-info/METADATA,,\n"                 \
    "demo-1.0.dist-info/WHEEL,,\ndemo-1.0.dist-info/RECORD,,\n"

static char in_memory[] = "/dev/shm/anyflash-subject-XXXXXX";
static const char *folder;
static struct af_arena arena;
static struct build build;

static const char *path_of(const char *name)
{
    return af_path_join(&arena, folder, name);
}

static void write_file(const char *name, const void *bytes, size_t len)
{
    FILE *file = fopen(path_of(name), "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    fclose(file);
}

static void write_text(const char *name, const char *text)
{
    write_file(name, text, strlen(text));
}

static struct af_span load(const char *name)
{
    struct af_span bytes;
    assert_int_equal(
        af_file_read(&arena, af_path_join(&arena, CORPUS, name), 1u << 20, &bytes, NULL),
        ANYFLASH_OK);
    return bytes;
}

/* A wheel with two libraries and the given metadata. */
static void write_wheel(const char *name, const char *metadata, const char *record)
{
    struct af_span small = load("small.so");
    struct af_span tiny = load("libtiny.so");
    const struct member_given given[] = {
        {.name = "demo/small.so", .content = small.data, .content_len = small.len, .method = 8},
        {.name = "demo.libs/libtiny.so", .content = tiny.data, .content_len = tiny.len},
        {.name = "demo-1.0.dist-info/METADATA", .content = metadata},
        {.name = "demo-1.0.dist-info/WHEEL",
         .content = "Wheel-Version: 1.0\nTag: cp312-cp312-linux_x86_64\n"},
        {.name = "demo-1.0.dist-info/RECORD", .content = record},
    };
    memset(&build, 0, sizeof build);
    for (size_t i = 0; i < AF_COUNT(given); i++)
        build_member(&build, given[i]);
    build_finish(&build);
    write_file(name, build.bytes, build.len);
}

static const char metadata[] = "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n"
                               "Requires-Dist: torch==2.8.0\n";

static int make_folder(void **state)
{
    const struct timespec settle = {0, 150000000};
    (void)state;
    af_json_start();
    af_arena_init(&arena);
    folder = mkdtemp(in_memory);
    if (folder == NULL || mkdir(path_of("tmp"), 0700) != 0 ||
        mkdir(path_of("tree"), 0700) != 0 || mkdir(path_of("tree/deep"), 0700) != 0)
        return 1;
    write_wheel(WHEEL, metadata, RECORD);
    struct af_span small = load("small.so");
    write_file("tree/deep/small.so", small.data, small.len);
    write_file("tree/libsmall.so.1", small.data, small.len);
    write_text("tree/notes.txt", "no library");
    write_text("tree/broken.so", "no library either");
    nanosleep(&settle, NULL);
    return setenv("TMPDIR", path_of("tmp"), 1) != 0;
}

static int remove_folder(void **state)
{
    static const char *const names[] = {WHEEL,
                                        "other-2.0-cp311-cp311-linux_x86_64.whl",
                                        "page.whl",
                                        "lfs.whl",
                                        "tree/deep/small.so",
                                        "tree/libsmall.so.1",
                                        "tree/notes.txt",
                                        "tree/broken.so",
                                        "short.whl",
                                        "pipe.so"};
    static const char *const folders[] = {"tree/deep", "tree", "tmp", "."};
    (void)state;
    for (size_t i = 0; i < AF_COUNT(names); i++)
        unlink(path_of(names[i]));
    for (size_t i = 0; i < AF_COUNT(folders); i++)
        if (rmdir(i + 1 < AF_COUNT(folders) ? path_of(folders[i]) : folder) != 0)
            return 1; /* a file was left */
    af_arena_release(&arena);
    return 0;
}

static struct af_inspect_target open_target(const char *name)
{
    struct af_inspect_target target;
    struct anyflash_error err;
    if (af_inspect_target_open(path_of(name), &arena, &target, &err) != ANYFLASH_OK)
        fail_msg("%s", err.message);
    return target;
}

static void test_target__finds_libraries_below_a_folder(void **unused)
{
    (void)unused;
    struct af_inspect_target target = open_target("tree");
    assert_int_equal(target.count, 3);
    for (size_t i = 0; i < target.count; i++)
        assert_int_equal(af_inspect_target_read(&target, i, &arena, NULL), ANYFLASH_OK);
    assert_string_equal(target.extensions[0].path, "broken.so");
    assert_non_null(target.extensions[0].problem);
    assert_string_equal(target.extensions[1].path, "libsmall.so.1");
    assert_string_equal(target.extensions[2].path, "deep/small.so");
    assert_true(target.extensions[2].has_facts);
    assert_false(target.is_package);
    af_inspect_target_close(&target);
}

static void test_target__reads_a_wheel_and_leaves_nothing(void **unused)
{
    const char **names;
    size_t count;
    (void)unused;
    struct af_inspect_target target = open_target(WHEEL);
    assert_true(target.is_package);
    assert_int_equal(target.count, 2);
    assert_false(target.extensions[0].is_bundled);
    assert_true(target.extensions[1].is_bundled);
    assert_int_equal(af_inspect_target_read(&target, 0, &arena, NULL), ANYFLASH_OK);
    assert_string_equal(target.extensions[0].facts.binary.name, "small.so");
    assert_non_null(target.unpacked);
    af_inspect_target_close(&target);
    assert_int_equal(af_folder_list(&arena, path_of("tmp"), 10, &names, &count, NULL, NULL),
                     ANYFLASH_OK);
    assert_int_equal(count, 0);
}

static void test_target__believes_no_name(void **unused)
{
    (void)unused;
    write_wheel("other-2.0-cp311-cp311-linux_x86_64.whl", metadata, "demo/small.so,,7\n");
    struct af_inspect_target target = open_target("other-2.0-cp311-cp311-linux_x86_64.whl");
    assert_int_equal(target.wheel->contradictions.count, 4);
    assert_string_equal(target.wheel->stated_torch, "2.8.0");
    af_inspect_target_close(&target);
    target = open_target(WHEEL);
    assert_int_equal(target.wheel->contradictions.count, 0);
    af_inspect_target_close(&target);
}

static void assert_fails(const char *name, enum anyflash_status expected, const char *words)
{
    struct af_inspect_target target;
    struct anyflash_error err;
    assert_int_equal(af_inspect_target_open(path_of(name), &arena, &target, &err), expected);
    if (strstr(err.message, words) == NULL)
        fail_msg("'%s' does not say '%s'", err.message, words);
}

static void test_target__names_what_is_no_wheel(void **unused)
{
    (void)unused;
    write_text("page.whl", "<!DOCTYPE html><html>");
    write_text("lfs.whl", "version https://git-lfs.github.com/spec/v1\noid sha256:1\n");
    write_file("short.whl", build.bytes, build.len / 2);
    assert_int_equal(mkfifo(path_of("pipe.so"), 0600), 0);
    assert_fails("page.whl", ANYFLASH_E_DATA, "web page");
    assert_fails("lfs.whl", ANYFLASH_E_DATA, "Git LFS");
    assert_fails("short.whl", ANYFLASH_E_DATA, "short.whl");
    assert_fails("pipe.so", ANYFLASH_E_IO, "pipe.so");
    assert_fails("absent.so", ANYFLASH_E_NOT_FOUND, "absent.so");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_target__finds_libraries_below_a_folder),
        cmocka_unit_test(test_target__reads_a_wheel_and_leaves_nothing),
        cmocka_unit_test(test_target__believes_no_name),
        cmocka_unit_test(test_target__names_what_is_no_wheel),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
