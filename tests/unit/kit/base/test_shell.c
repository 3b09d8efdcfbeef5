/*
 * test_shell.c: commands quoted for POSIX shells, PowerShell and cmd.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kit/base/shell.h"

#include <stdlib.h>
#include <string.h>

static const char *const plain[] = {"uv", "pip", "install", "torch==2.9.1+cu128",
                                    "https://x.test/a%2Bb-c.whl"};

static char *command(enum af_shell shell, const char *const *words, size_t count)
{
    struct af_arena arena;
    af_arena_init(&arena);
    const char *text = af_shell_command(shell, NULL, 0, words, count, &arena);
    assert_non_null(text);
    char *copy = strdup(text);
    af_arena_release(&arena);
    return copy;
}

static void assert_command(enum af_shell shell, const char *const *words, size_t count,
                           const char *expected)
{
    char *text = command(shell, words, count);
    assert_string_equal(text, expected);
    free(text);
}

static void test_shell__plain_words_are_not_quoted(void **state)
{
    (void)state;
    for (int shell = AF_SHELL_POSIX; shell <= AF_SHELL_CMD; shell++)
        assert_command((enum af_shell)shell, plain, 5,
                       "uv pip install torch==2.9.1+cu128 https://x.test/a%2Bb-c.whl");
}

static void test_shell__python_code_keeps_its_blanks_and_parentheses(void **state)
{
    (void)state;
    static const char *const words[] = {"python", "-c", "import torch; print(torch.x)"};
    assert_command(AF_SHELL_POSIX, words, 3, "python -c 'import torch; print(torch.x)'");
    assert_command(AF_SHELL_POWERSHELL, words, 3, "python -c \"import torch; print(torch.x)\"");
    assert_command(AF_SHELL_CMD, words, 3, "python -c \"import torch; print(torch.x)\"");
}

static void test_shell__the_portable_python_needs_no_quotes_on_windows(void **state)
{
    (void)state;
    static const char *const words[] = {".\\python_embeded\\python.exe", "-m", "pip"};
    assert_command(AF_SHELL_POWERSHELL, words, 3, ".\\python_embeded\\python.exe -m pip");
    assert_command(AF_SHELL_CMD, words, 3, ".\\python_embeded\\python.exe -m pip");
    assert_command(AF_SHELL_POSIX, words, 3, "'.\\python_embeded\\python.exe' -m pip");
}

static void test_shell__powershell_runs_a_quoted_program_with_an_ampersand(void **state)
{
    (void)state;
    static const char *const words[] = {"C:\\My Apps\\python.exe", "it's", "a,b", "@x", "$y"};
    assert_command(AF_SHELL_POWERSHELL, words, 5,
                   "& \"C:\\My Apps\\python.exe\" \"it's\" \"a,b\" \"@x\" '$y'");
}

static void test_shell__cmd_doubles_backslashes_before_a_quote_only(void **state)
{
    (void)state;
    static const char *const words[] = {"x", "a\\b c", "end \\", "q \\\" r", "a&b"};
    assert_command(AF_SHELL_CMD, words, 5,
                   "x \"a\\b c\" \"end \\\\\" \"q \\\\\\\" r\" \"a&b\"");
}

static void test_shell__variables_are_set_as_each_shell_does(void **state)
{
    (void)state;
    static const char *const variables[] = {"MAX_JOBS=2", "FLAGS=a b"};
    static const char *const words[] = {"build"};
    static const char *const expected[] = {"MAX_JOBS=2 FLAGS='a b' build",
                                           "$env:MAX_JOBS='2'; $env:FLAGS='a b'; build",
                                           "set \"MAX_JOBS=2\" && set \"FLAGS=a b\" && build"};
    for (int shell = AF_SHELL_POSIX; shell <= AF_SHELL_CMD; shell++) {
        struct af_arena arena;
        af_arena_init(&arena);
        assert_string_equal(
            af_shell_command((enum af_shell)shell, variables, 2, words, 1, &arena),
            expected[shell]);
        af_arena_release(&arena);
    }
}

static void test_shell__a_posix_shell_expands_nothing(void **state)
{
    (void)state;
    static const char *const words[] = {"x", "$HOME", "`id`", "it's", "*?[a]", "-x;y#z", ""};
    assert_command(AF_SHELL_POSIX, words, 7, "x '$HOME' '`id`' 'it'\\''s' '*?[a]' '-x;y#z' ''");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shell__plain_words_are_not_quoted),
        cmocka_unit_test(test_shell__python_code_keeps_its_blanks_and_parentheses),
        cmocka_unit_test(test_shell__the_portable_python_needs_no_quotes_on_windows),
        cmocka_unit_test(test_shell__powershell_runs_a_quoted_program_with_an_ampersand),
        cmocka_unit_test(test_shell__cmd_doubles_backslashes_before_a_quote_only),
        cmocka_unit_test(test_shell__variables_are_set_as_each_shell_does),
        cmocka_unit_test(test_shell__a_posix_shell_expands_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
