/*
 * test_project_asks.c: what manifests state, cut off anywhere and without memory. Which tables
 * count is tested with whole projects in tests/check/.
 */
#include "kit/base/text.h"
#include "kit/project/project_asks.h"
#include "tests/unit/every_allocation.h"

#include <string.h>

static const struct {
    const char *path;
    const char *text;
    const char *expected; /* specifier of torch, Python, flash-attn's line */
} rows[] = {
    {"pyproject.toml",
     "[tool.poetry.dependencies]\npython = \"^3.9\"\ntorch = \"~2.1.2\"\n"
     "flash-attn = [{ version = \"^2.0.1\", markers = \"sys_platform == 'linux'\" }]\n"
     "[tool.uv]\nenvironments = [\"sys_platform == 'linux'\"]\n",
     ">=2.1.2,<2.2|>=3.9,<4|4"},
    {"pixi.toml",
     "[workspace]\nplatforms = [\"linux-64\", \"osx-64\"]\n[dependencies]\npython = "
     "\"3.10.*\"\n"
     "pytorch = \"2.4.1.*\"\n[target.linux-64.pypi-dependencies]\nflash-attn = \"*\"\n",
     "==2.4.1|==3.10.*|7"},
    {"environment.yml",
     "name: a\ndependencies:\n- python=3.9\n- pytorch::pytorch=2.1.2=py3.9_cuda12.1\n- pip:\n"
     "  - \"flash-attn==2.3.4\"  # fast\n",
     "==2.1.2|==3.9.*|6"},
    {"setup.cfg",
     "[options]\npython_requires = >=3.8\ninstall_requires =\n    torch>=2\n    flash-attn\n",
     ">=2|>=3.8|5"},
};

static enum anyflash_status read(struct af_arena *arena, size_t row, size_t len,
                                 struct af_project_source *source, struct af_project_asks *asks,
                                 struct anyflash_error *err)
{
    *source = (struct af_project_source){
        rows[row].path, {rows[row].text, len}, af_project_kind_of(rows[row].path)};
    return af_project_asks_read(arena, source, 1, asks, err);
}

static void test_read__takes_specifiers_and_places_of_each_format(void **state)
{
    (void)state;
    for (size_t row = 0; row < AF_COUNT(rows); row++) {
        struct af_arena arena;
        struct af_project_source source;
        struct af_project_asks asks;
        const struct af_project_ask *torch = NULL, *flash = NULL;
        struct af_text found = {0};
        af_arena_init(&arena);
        assert_int_equal(read(&arena, row, strlen(rows[row].text), &source, &asks, NULL),
                         ANYFLASH_OK);
        for (const struct af_project_ask *ask = asks.first; ask != NULL; ask = ask->next)
            *(ask->is_torch ? &torch : &flash) = ask;
        assert_true(torch != NULL && flash != NULL);
        af_text_format(&found, "%s|%s|%zu", torch->specifier,
                       af_project_stated_for(&asks, flash).python_range, flash->line);
        assert_string_equal(af_text_get(&found), rows[row].expected);
        af_text_release(&found);
        af_arena_release(&arena);
    }
}

static void test_specifier__has_those_of_pep_440(void **state)
{
    static const struct {
        const char *written;
        bool is_conda;
        const char *expected;
    } forms[] = {
        {"^0.2.3", false, ">=0.2.3,<0.3"},
        {"^2", false, ">=2,<3"},
        {"~2", false, ">=2,<3"},
        {"~=2.1", false, "~=2.1"},
        {"*", false, ""},
        {"2.1.*", false, "==2.1.*"},
        {"2.1.2", false, "==2.1.2"},
        {">=2, !=2.3", false, ">=2,!=2.3"},
        {"^2.0 || ^3", false, ""},
        {"2.1", true, "==2.1.*"},
        {"=2.1.2", true, "==2.1.2"},
        {"2.1.2.*", true, "==2.1.2"},
        {"2.1|2.2", true, ""},
        {">=2.1,<3", true, ">=2.1,<3"},
        {"^", false, ""},
        {"9", true, "==9.*"},
        {"2x", true, ""},
        {"", true, ""},
    };
    struct af_arena arena;
    (void)state;
    af_arena_init(&arena);
    for (size_t i = 0; i < AF_COUNT(forms); i++)
        assert_string_equal(
            af_project_asks_specifier(&arena, forms[i].written, forms[i].is_conda),
            forms[i].expected);
    af_arena_release(&arena);
}

static void test_read__accepts_files_that_are_cut_off(void **state)
{
    (void)state;
    for (size_t row = 0; row < AF_COUNT(rows); row++)
        for (size_t len = 0; len < strlen(rows[row].text); len++) {
            struct af_arena arena;
            struct af_project_source source;
            struct af_project_asks asks;
            af_arena_init(&arena);
            assert_int_equal(read(&arena, row, len, &source, &asks, NULL), ANYFLASH_OK);
            for (const struct af_project_ask *ask = asks.first; ask != NULL; ask = ask->next)
                assert_true(ask->start <= ask->end && ask->end <= len);
            af_arena_release(&arena);
        }
}

static void test_read__fails_without_memory(void **state)
{
    (void)state;
    for (size_t row = 0; row < AF_COUNT(rows); row++) {
        struct every_allocation each = {.all_after = false};
        while (every_allocation_next(&each)) {
            struct af_arena arena;
            struct af_project_source source;
            struct af_project_asks asks;
            struct anyflash_error err = {0};
            af_arena_init(&arena);
            every_allocation_begin(&each);
            enum anyflash_status status =
                read(&arena, row, strlen(rows[row].text), &source, &asks, &err);
            every_allocation_end(&each);
            every_allocation_check(&each, status, &err);
            af_arena_release(&arena);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read__takes_specifiers_and_places_of_each_format),
        cmocka_unit_test(test_specifier__has_those_of_pep_440),
        cmocka_unit_test(test_read__accepts_files_that_are_cut_off),
        cmocka_unit_test(test_read__fails_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
