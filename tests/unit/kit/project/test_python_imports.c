/*
 * test_python_imports.c: which imports of flash-attn a module cannot do without.
 */
#include "kit/base/text.h"
#include "kit/project/python_imports.h"
#include "tests/unit/every_allocation.h"

#include <string.h>

/* "3 fatal, 5 guarded": the line and the guard of each import. */
static void check(const char *source, const char *expected)
{
    static const char *const names[] = {"fatal", "lazy", "guarded"};
    struct af_arena arena;
    struct af_import_facts facts;
    struct af_text found = {0};
    af_arena_init(&arena);
    struct af_span text = {source, strlen(source)};
    assert_int_equal(af_imports_of_python(&arena, text, &facts, NULL), ANYFLASH_OK);
    for (const struct af_import_statement *at = facts.imports; at != NULL; at = at->next)
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
    assert_int_equal(af_imports_of_python(&arena, text, &facts, NULL), ANYFLASH_OK);
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
        assert_int_equal(af_imports_of_python(&arena, text, &facts, NULL), ANYFLASH_OK);
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
    assert_int_equal(af_imports_of_python(&arena, text, &facts, NULL), ANYFLASH_OK);
    assert_true(af_text_span_equal(facts.install_requires->text, "torch==2.3.0"));
    assert_true(af_text_span_equal(facts.install_requires->next->text, "flash_attn"));
    assert_null(facts.install_requires->next->next);
    assert_true(af_text_span_equal(facts.python_requires, ">=3.9"));
    af_arena_release(&arena);
}

static void test_read__fails_without_memory(void **state)
{
    static const char source[] = "import flash_attn\nsetup(install_requires=['x'])\n";
    struct every_allocation each = {.all_after = false};
    (void)state;
    while (every_allocation_next(&each)) {
        struct af_arena arena;
        struct af_import_facts facts;
        struct anyflash_error err = {0};
        struct af_span text = {source, sizeof source - 1};
        af_arena_init(&arena);
        every_allocation_begin(&each);
        enum anyflash_status status = af_imports_of_python(&arena, text, &facts, &err);
        every_allocation_end(&each);
        every_allocation_check(&each, status, &err);
        af_arena_release(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_imports__at_the_top_are_fatal),
        cmocka_unit_test(test_imports__of_other_modules_do_not_count),
        cmocka_unit_test(test_imports__a_handler_guards_them),
        cmocka_unit_test(test_imports__a_handler_that_gives_up_does_not),
        cmocka_unit_test(test_imports__conditions_guard_and_functions_delay),
        cmocka_unit_test(test_imports__has_the_names_and_the_place),
        cmocka_unit_test(test_mentions__counts_names_and_strings_but_no_comments),
        cmocka_unit_test(test_requires__are_the_strings_of_install_requires),
        cmocka_unit_test(test_read__fails_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
