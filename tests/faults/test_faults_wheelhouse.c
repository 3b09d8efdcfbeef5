/*
 * test_faults_wheelhouse.c: makes each allocation of `anyflash wheelhouse` fail
 * in turn, for a new index and over an earlier one: no page may name a missing
 * file, and no file may keep a temporary name.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <sys/stat.h>

#include "whole_command.h"

#include "kit/base/text.h"
#include "kit/system/file.h"
#include "kit/system/output.h"
#include "tests/unit/kit/formats/zip_build.h"
#include "tests/unit/own_folder.h"

static char folder[OWN_FOLDER_BYTES];
static const char *const versions[] = {"1.0", "2.0"};

static const char *path_of(struct af_arena *arena, const char *name)
{
    const char *path = af_path_join(arena, folder, name);
    assert_non_null(path);
    return path;
}

/* A wheel of the package "demo". */
static void write_wheel(const char *version)
{
    struct af_arena arena;
    struct build build = {.len = 0};
    af_arena_init(&arena);
    const char *info = af_arena_format(&arena, "demo-%s.dist-info", version);
    const struct member_given members[] = {
        {.name = "demo.py", .content = "x = 1\n", .method = 8},
        {.name = af_arena_format(&arena, "%s/METADATA", info),
         .content = af_arena_format(&arena,
                                    "Metadata-Version: 2.1\nName: demo\nVersion: %s\n"
                                    "Requires-Python: >=3.9\n\n",
                                    version)},
        {.name = af_arena_format(&arena, "%s/WHEEL", info), .content = "Wheel-Version: 1.0\n"},
        {.name = af_arena_format(&arena, "%s/RECORD", info), .content = "demo.py,,\n"}};
    for (size_t i = 0; i < AF_COUNT(members); i++)
        build_member(&build, members[i]);
    build_finish(&build);
    const struct af_span bytes = {(const char *)build.bytes, build.len};
    const char *name = af_arena_format(&arena, "demo-%s-py3-none-any.whl", version);
    assert_int_equal(af_file_write(&arena, path_of(&arena, name), &bytes, 1, NULL),
                     ANYFLASH_OK);
    af_arena_release(&arena);
}

/* Checks what a run left, whether it failed or not. */
static void check_index(void)
{
    struct af_arena arena;
    struct af_span page;
    const char **names;
    size_t count = 0;
    af_arena_init(&arena);
    const char *project = path_of(&arena, "simple/demo");
    if (af_folder_list(&arena, project, 100, &names, &count, NULL, NULL) != ANYFLASH_OK)
        count = 0;
    for (size_t i = 0; i < count; i++)
        assert_false(af_ends_with(names[i], ".part"));
    if (af_file_read(&arena, path_of(&arena, "simple/demo/index.html"), 1 << 20, &page, NULL) ==
        ANYFLASH_OK) {
        for (size_t i = 0; i < AF_COUNT(versions); i++) {
            const char *wheel =
                af_arena_format(&arena, "demo-%s-py3-none-any.whl", versions[i]);
            const char *metadata = af_arena_format(&arena, "%s.metadata", wheel);
            if (strstr(page.data, wheel) == NULL)
                continue;
            assert_true(af_file_is_regular(af_path_join(&arena, project, wheel)));
            assert_true(af_file_is_regular(af_path_join(&arena, project, metadata)));
        }
    }
    af_arena_release(&arena);
}

static void survive(const char *option)
{
    const char *const words[] = {"anyflash", "wheelhouse", folder, option, NULL};
    fail_everywhere(words, false, check_index);
    fail_everywhere(words, true, check_index);
    check_index();
}

static void test_wheelhouse__survives_every_lack_of_memory(void **state)
{
    (void)state;
    write_wheel(versions[0]);
    survive(NULL);
}

/* The second wheel is new, the first one was removed. */
static void test_wheelhouse__over_an_earlier_index(void **state)
{
    struct af_arena arena;
    (void)state;
    af_arena_init(&arena);
    write_wheel(versions[1]);
    unlink(path_of(&arena, "demo-1.0-py3-none-any.whl"));
    survive("--json");
    assert_true(af_file_is_absent(path_of(&arena, "simple/demo/demo-1.0-py3-none-any.whl")));
    assert_true(af_file_is_regular(path_of(&arena, "simple/demo/demo-2.0-py3-none-any.whl")));
    af_arena_release(&arena);
}

static int make_folder(void **state)
{
    (void)state;
    /* Caches are skipped if they lack memory. */
    setenv("ANYFLASH_STATE", "/dev/null/none", 1);
    return !own_folder_make(folder) ? -1 : 0;
}

static int remove_folder(void **state)
{
    static const char *const files[] = {"simple/demo/demo-2.0-py3-none-any.whl",
                                        "simple/demo/demo-2.0-py3-none-any.whl.metadata",
                                        "simple/demo/index.html",
                                        "simple/demo/index.json",
                                        "simple/index.html",
                                        "simple/index.json",
                                        "demo-2.0-py3-none-any.whl",
                                        "demo-2.0-py3-none-any-b.whl"};
    static const char *const folders[] = {"simple/demo", "simple", ""};
    struct af_arena arena;
    int failed = 0;
    (void)state;
    af_arena_init(&arena);
    for (size_t i = 0; i < AF_COUNT(files); i++)
        unlink(path_of(&arena, files[i]));
    for (size_t i = 0; i < AF_COUNT(folders); i++)
        failed |= rmdir(path_of(&arena, folders[i]));
    af_arena_release(&arena);
    return failed;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wheelhouse__survives_every_lack_of_memory),
        cmocka_unit_test(test_wheelhouse__over_an_earlier_index),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
