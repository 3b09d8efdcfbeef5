/*
 * test_project_asks.c: what manifests state, cut off anywhere, and which
 * imports of flash-attn a module cannot do without. Which tables count is tested with whole
 * projects in tests/check/.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kit/base/text.h"
#include "kit/project/project_asks.h"

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

static void read(struct af_arena *arena, size_t row, size_t len,
                 struct af_project_source *source, struct af_project_asks *asks)
{
    *source = (struct af_project_source){
        rows[row].path, {rows[row].text, len}, af_project_kind_of(rows[row].path)};
    af_project_asks_read(arena, source, 1, asks);
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
        read(&arena, row, strlen(rows[row].text), &source, &asks);
        for (const struct af_project_ask *ask = asks.first; ask != NULL; ask = ask->next)
            *(ask->is_torch ? &torch : &flash) = ask;
        assert_true(torch != NULL && flash != NULL);
        af_text_format(&found, "%s|%s|%zu", torch->specifier,
                       af_project_stated_for(&asks, flash).python_range,
                       1 + af_project_lines_between(source.text, 0, flash->at));
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
            read(&arena, row, len, &source, &asks);
            for (const struct af_project_ask *ask = asks.first; ask != NULL; ask = ask->next)
                assert_true(ask->start <= ask->end && ask->end <= len);
            af_arena_release(&arena);
        }
}

/* "3 fatal, 5 guarded": the line and the guard of each import. */
static void check(const char *source, const char *expected)
{
    static const char *const names[] = {"fatal", "lazy", "guarded"};
    struct af_arena arena;
    struct af_import_facts facts;
    struct af_text found = {0};
    af_arena_init(&arena);
    struct af_span text = {source, strlen(source)};
    af_imports_of_python(&arena, text, &facts);
    for (const struct af_import_statement *at = facts.imports; at != NULL; at = at->next)
        if (at->is_flash_attn)
            af_text_format(&found, "%s%zu %s", found.len == 0 ? "" : ", ", at->line,
                           names[at->guard]);
    assert_string_equal(af_text_get(&found), expected);
    af_text_release(&found);
    af_arena_release(&arena);
}

static void test_imports__at_the_top_are_fatal(void **state)
{
    (void)state;
    check("import flash_attn", "1 fatal");
    check("import os, flash_attn.bert_padding as b\n", "1 fatal");
    check("from flash_attn import (  # why\n    a,\n    b)\n", "1 fatal");
    check("x = 1; from flash_attn.ops import y\n", "1 fatal");
    check("from \\\n flash_attn import y\n", "1 fatal");
    check("class A:\n    import flash_attn\n", "2 fatal");
}

static void test_imports__of_other_modules_do_not_count(void **state)
{
    (void)state;
    check("import flash_attn_interface\nfrom flash_attn_3 import x\n", "");
    check("from .flash_attn import x\nfrom a.flash_attn import x\n", "");
    check("s = 'import flash_attn'\n'''\nimport flash_attn\n'''\n# import flash_attn\n", "");
    check("x = f(\nimport_flash_attn)\n", "");
}

static void test_imports__a_handler_guards_them(void **state)
{
    (void)state;
    check("try:\n  import flash_attn\nexcept ImportError:\n  pass\n", "2 guarded");
    check("try:\n  import flash_attn\nexcept (OSError, ModuleNotFoundError) as e:\n  x = 1\n",
          "2 guarded");
    check("try:\n  import flash_attn\nexcept:\n  pass", "2 guarded");
    check("try: import flash_attn\nexcept Exception: flash_attn = None\n", "1 guarded");
    check("try:\n  import flash_attn\nexcept KeyError:\n  a\nexcept ImportError:\n  b\n",
          "2 guarded");
    check("try:\n  pass\nexcept ImportError:\n  pass\nelse:\n  import flash_attn\n",
          "6 guarded");
    check("with contextlib.suppress(ImportError):\n  import flash_attn\n", "2 guarded");
}

static void test_imports__a_handler_that_gives_up_does_not(void **state)
{
    (void)state;
    check("try:\n  import flash_attn\nexcept ImportError:\n  raise RuntimeError('x')\n",
          "2 fatal");
    check("try:\n  import flash_attn\nexcept ImportError:\n  print(1)\n  sys.exit(1)\n",
          "2 fatal");
    check("try:\n  import flash_attn\nexcept ValueError:\n  pass\n", "2 fatal");
    check("try:\n  import flash_attn\nfinally:\n  pass\n", "2 fatal");
    check("try:\n  from flash_attn import a\nexcept ImportError:\n  from flash_attn import b\n",
          "2 guarded, 4 fatal");
    check("try:\n  pass\nexcept ImportError:\n  pass\nimport flash_attn\n", "5 fatal");
}

static void test_imports__conditions_guard_and_functions_delay(void **state)
{
    (void)state;
    check("if find_spec('flash_attn'):\n\timport flash_attn\n", "2 guarded");
    check("if a:\n  pass\nelif b:\n  import flash_attn\nelse:\n  import flash_attn\n",
          "4 guarded, 6 guarded");
    check("if a: import flash_attn\nimport flash_attn\n", "1 guarded, 2 fatal");
    check("async def f():\n\n  # x\n  import flash_attn\nimport flash_attn\n",
          "4 lazy, 5 fatal");
    check("class A:\n  def f(self, x={}):\n    import flash_attn\n", "3 lazy");
}

static void test_imports__has_the_names_and_the_place(void **state)
{
    static const char source[] =
        "a\nfrom flash_attn.x import (b as c,\n d)\nimport flash_attn\n";
    struct af_arena arena;
    struct af_import_facts facts;
    (void)state;
    af_arena_init(&arena);
    struct af_span text = {source, sizeof source - 1};
    af_imports_of_python(&arena, text, &facts);
    assert_true(af_text_span_equal(facts.imports->module, "flash_attn.x"));
    assert_true(af_text_span_equal(facts.imports->names, "b as c,\n d"));
    assert_int_equal(facts.imports->start, 2);
    assert_int_equal(facts.imports->end, (size_t)(strchr(source, ')') - source) + 1);
    assert_true(facts.imports->is_alone);
    assert_int_equal(facts.imports->next->module.len, 0);
    af_arena_release(&arena);
}

static void test_mentions__counts_names_and_strings_but_no_comments(void **state)
{
    static const struct {
        const char *source;
        bool mentions;
    } cases[] = {{"x = 'flash_attention_2'", true},
                 {"if is_flash_attn_2_available(): pass", true},
                 {"# flash_attn", false},
                 {"import os", false}};
    (void)state;
    for (size_t i = 0; i < AF_COUNT(cases); i++) {
        struct af_arena arena;
        struct af_import_facts facts;
        struct af_span text = {cases[i].source, strlen(cases[i].source)};
        af_arena_init(&arena);
        af_imports_of_python(&arena, text, &facts);
        assert_int_equal(facts.mentions, cases[i].mentions);
        af_arena_release(&arena);
    }
}

static void test_requires__are_the_strings_of_install_requires(void **state)
{
    static const char source[] =
        "setup(install_requires=['torch==2.3.0', \"flash_attn\"],\n"
        "extras_require={'a': ['flash-attn']}, python_requires='>=3.9')";
    struct af_arena arena;
    struct af_import_facts facts;
    (void)state;
    af_arena_init(&arena);
    struct af_span text = {source, sizeof source - 1};
    af_imports_of_python(&arena, text, &facts);
    assert_true(af_text_span_equal(facts.install_requires->text, "torch==2.3.0"));
    assert_true(af_text_span_equal(facts.install_requires->next->text, "flash_attn"));
    assert_null(facts.install_requires->next->next);
    assert_true(af_text_span_equal(facts.python_requires, ">=3.9"));
    af_arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read__takes_specifiers_and_places_of_each_format),
        cmocka_unit_test(test_specifier__has_those_of_pep_440),
        cmocka_unit_test(test_read__accepts_files_that_are_cut_off),
        cmocka_unit_test(test_imports__at_the_top_are_fatal),
        cmocka_unit_test(test_imports__of_other_modules_do_not_count),
        cmocka_unit_test(test_imports__a_handler_guards_them),
        cmocka_unit_test(test_imports__a_handler_that_gives_up_does_not),
        cmocka_unit_test(test_imports__conditions_guard_and_functions_delay),
        cmocka_unit_test(test_imports__has_the_names_and_the_place),
        cmocka_unit_test(test_mentions__counts_names_and_strings_but_no_comments),
        cmocka_unit_test(test_requires__are_the_strings_of_install_requires),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
