/*
 * test_faults_find.c: makes allocations of `anyflash find --html`, `--svg` and
 * `--matrix` fail in turn: an earlier file must stay as it was, and no file may
 * keep a temporary name. There are thousands, mostly one decision for each cell:
 * after the first ones only some are tried.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "whole_command.h"

#include "kit/cli/grid_view.h"
#include "kit/system/file.h"
#include "kit/system/output.h"
#include "tests/unit/own_folder.h"

#define FEW_WHEELS AF_TEST_DATA "/faults/few_wheels.jsonl"
#define RTX4090 AF_TEST_DATA "/cases/machines/rtx4090-torch2.8.json"
#define EARLIER AF_CLI_GRID_HTML_START "from an earlier run"

static char folder[OWN_FOLDER_BYTES];

static void fail_often(bool all_after, const char *form, const char *output,
                       void (*after)(void))
{
    const char *const words[] = {"anyflash",  "find",  form,   "--catalog", FEW_WHEELS,
                                 "--machine", RTX4090, output, NULL};
    const struct every_allocation each = {
        .all_after = all_after, .at_least = 40, .skip_part = 12};
    fail_each(each, words, after);
}

/* After a failed run. */
static void check_earlier_file(void)
{
    struct af_arena arena;
    struct af_span content;
    const char **names;
    size_t count = 0;
    af_arena_init(&arena);
    assert_int_equal(af_folder_list(&arena, folder, 100, &names, &count, NULL, NULL),
                     ANYFLASH_OK);
    assert_int_equal(count, 1);
    assert_string_equal(names[0], "table.html");
    assert_int_equal(
        af_file_read(&arena, af_path_join(&arena, folder, names[0]), 1 << 20, &content, NULL),
        ANYFLASH_OK);
    assert_string_equal(content.data, EARLIER);
    af_arena_release(&arena);
}

static void test_a_page_in_a_file__is_the_earlier_one_after_lack_of_memory(void **state)
{
    struct af_arena arena;
    (void)state;
    af_arena_init(&arena);
    const char *path = af_path_join(&arena, folder, "table.html");
    const char *output = af_arena_format(&arena, "--output=%s", path);
    for (int all_after = 0; all_after <= 1; all_after++) {
        assert_int_equal(af_file_write_text(&arena, path, EARLIER, NULL), ANYFLASH_OK);
        fail_often(all_after == 1, "--html", output, check_earlier_file);
    }
    af_arena_release(&arena);
}

static void test_a_picture__survives_lack_of_memory(void **state)
{
    (void)state;
    fail_often(false, "--svg", NULL, NULL);
    fail_often(true, "--svg", NULL, NULL);
}

static void test_json__survives_lack_of_memory(void **state)
{
    (void)state;
    fail_often(false, "--matrix", NULL, NULL);
    fail_often(true, "--matrix", NULL, NULL);
}

static int make_folder(void **state)
{
    (void)state;
    /* Caches are skipped if they lack memory. */
    setenv("ANYFLASH_STATE", "/dev/null/none", 1);
    return own_folder_make(folder) ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_page_in_a_file__is_the_earlier_one_after_lack_of_memory),
        cmocka_unit_test(test_a_picture__survives_lack_of_memory),
        cmocka_unit_test(test_json__survives_lack_of_memory),
    };
    return cmocka_run_group_tests(tests, make_folder, NULL);
}
