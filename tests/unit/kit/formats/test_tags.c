/*
 * test_tags.c: wheel tags against what the packaging library says of them
 * (tags.txt, written by tools/make_tags_data.py).
 */
#include "kit/base/text.h"
#include "kit/formats/tags.h"
#include "kit/system/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const char *const platforms[] = {"linux_x86_64", "manylinux_2_18_x86_64",
                                        "manylinux_2_17_x86_64", "manylinux2014_x86_64"};

static struct af_interpreter interpreter_of(int minor, const char *flags)
{
    return (struct af_interpreter){.major = 3,
                                   .minor = minor,
                                   .free_threaded = strchr(flags, 't') != NULL,
                                   .debug = strchr(flags, 'd') != NULL,
                                   .platform_tags = platforms,
                                   .platform_count = AF_COUNT(platforms)};
}

/* The row of tags.txt that begins with `name`, without the name. */
static const char *read_row(struct af_arena *arena, const char *name)
{
    struct af_span rest;
    struct af_span line;
    size_t len = strlen(name);
    assert_int_equal(
        af_file_read(arena, AF_TEST_DATA "/unit/kit/formats/tags.txt", 1u << 20, &rest, NULL),
        ANYFLASH_OK);
    while (af_text_line(&rest, &line))
        if (line.len > len && memcmp(line.data, name, len) == 0)
            return af_arena_text_n(arena, line.data + len, line.len - len);
    fail_msg("tags.txt has no row '%s'", name);
    return "";
}

/* Adds the tags of a row, each on a line; `*` stands for each of the platforms. */
static void expand(struct af_text *out, const char *row)
{
    while (*row != '\0') {
        size_t len = strcspn(row, "* ");
        bool each = row[len] == '*';
        for (size_t i = 0; i < (each ? AF_COUNT(platforms) : 1); i++)
            af_text_format(out, "%.*s%s\n", (int)len, row, each ? platforms[i] : "");
        row += len + each;
        row += *row == ' ';
    }
}

static void check_list(int minor, const char *flags)
{
    struct af_arena arena;
    struct af_interpreter interpreter = interpreter_of(minor, flags);
    struct af_text expected = {0};
    struct af_span line;
    const char **tags;
    size_t count;
    af_arena_init(&arena);
    expand(&expected, read_row(&arena, af_arena_format(&arena, "cp3%d%s ", minor, flags)));
    struct af_span rest = {af_text_get(&expected), expected.len};
    assert_int_equal(af_tags_list(&interpreter, &arena, &tags, &count, NULL), ANYFLASH_OK);
    for (size_t i = 0; i < count; i++) {
        assert_true(af_text_line(&rest, &line));
        assert_string_equal(tags[i], af_arena_text_n(&arena, line.data, line.len));
        char *python = af_arena_text(&arena, tags[i]);
        char *abi = strchr(python, '-');
        *abi++ = '\0';
        char *platform = strchr(abi, '-');
        *platform++ = '\0';
        assert_true(af_tags_python_accepted(&interpreter, python, abi));
        assert_true(af_tags_platform_accepted(&interpreter, platform));
    }
    assert_false(af_text_line(&rest, &line));
    af_text_release(&expected);
    af_arena_release(&arena);
}

static void test_tags__order_is_that_of_packaging(void **state)
{
    (void)state;
    for (int minor = 8; minor <= 15; minor++)
        check_list(minor, "");
}

static void test_tags__free_threaded_takes_abi3t_and_never_abi3(void **state)
{
    (void)state;
    for (int minor = 13; minor <= 15; minor++)
        check_list(minor, "t");
    struct af_interpreter interpreter = interpreter_of(13, "t");
    assert_false(af_tags_python_accepted(&interpreter, "cp39", "abi3"));
    assert_false(af_tags_python_accepted(&interpreter, "cp313", "cp313"));
}

static void test_tags__debug_also_takes_normal_modules(void **state)
{
    (void)state;
    check_list(12, "d");
    check_list(13, "td");
}

static void test_tags__one_accepted_tag_of_a_compressed_set_is_enough(void **state)
{
    (void)state;
    struct af_interpreter interpreter = interpreter_of(12, "");
    assert_true(af_tags_python_accepted(&interpreter, "cp311.cp312", "cp311.cp312"));
    assert_false(af_tags_python_accepted(&interpreter, "cp310.cp311", "cp310.cp311"));
    assert_true(af_tags_python_accepted(&interpreter, "py2.py3", "none"));
    assert_true(af_tags_platform_accepted(&interpreter, "win_amd64.manylinux_2_17_x86_64"));
    assert_false(af_tags_platform_accepted(&interpreter, "win_amd64.manylinux_2_28_x86_64"));
}

static void test_tags__case_does_not_matter(void **state)
{
    (void)state;
    struct af_interpreter interpreter = interpreter_of(12, "");
    assert_true(af_tags_python_accepted(&interpreter, "CP312", "CP312"));
    assert_true(af_tags_platform_accepted(&interpreter, "Linux_X86_64"));
}

static void test_tags__says_which_field_is_wrong(void **state)
{
    (void)state;
    struct af_interpreter interpreter = interpreter_of(12, "");
    assert_true(af_tags_python_accepted(&interpreter, "cp39", "abi3"));
    assert_false(af_tags_python_accepted(&interpreter, "cp313", "abi3"));
    assert_false(af_tags_python_accepted(&interpreter, "cp312", "cp312t"));
    assert_true(af_tags_platform_accepted(&interpreter, "linux_x86_64"));
    assert_true(af_tags_platform_accepted(&interpreter, "any"));
    assert_false(af_tags_platform_accepted(&interpreter, "manylinux_2_28_x86_64"));
    assert_false(af_tags_platform_accepted(&interpreter, "win_amd64"));
}

static void test_tags__old_cpython_has_the_m_flag(void **state)
{
    (void)state;
    struct af_interpreter interpreter = interpreter_of(7, "");
    assert_true(af_tags_python_accepted(&interpreter, "cp37", "cp37m"));
    assert_false(af_tags_python_accepted(&interpreter, "cp37", "cp37"));
}

static void test_tags__rubbish_is_no_tag(void **state)
{
    (void)state;
    struct af_interpreter interpreter = interpreter_of(12, "");
    const char *const rubbish[] = {"",     ".",      "cp",         "cp3",
                                   "cp3x", "cp3012", "py99999999", "cp312 "};
    for (size_t i = 0; i < AF_COUNT(rubbish); i++)
        assert_false(af_tags_python_accepted(&interpreter, rubbish[i], "cp312"));
    interpreter.minor = 1000000;
    assert_false(af_tags_python_accepted(&interpreter, "py3", "none"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tags__order_is_that_of_packaging),
        cmocka_unit_test(test_tags__free_threaded_takes_abi3t_and_never_abi3),
        cmocka_unit_test(test_tags__debug_also_takes_normal_modules),
        cmocka_unit_test(test_tags__one_accepted_tag_of_a_compressed_set_is_enough),
        cmocka_unit_test(test_tags__case_does_not_matter),
        cmocka_unit_test(test_tags__says_which_field_is_wrong),
        cmocka_unit_test(test_tags__old_cpython_has_the_m_flag),
        cmocka_unit_test(test_tags__rubbish_is_no_tag),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
