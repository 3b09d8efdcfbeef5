/*
 * test_install_command.c: commands as users type them, and what they would install.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kit/project/requirements.h"

#include "kit/base/text.h"

#include <string.h>

#define WORDS_MAX 16

static struct af_arena arena;
static struct af_project project;
static struct af_project_command command;

static enum anyflash_status read_files(void *context, struct af_arena *into, const char *path,
                                       struct af_span *text_out, struct anyflash_error *err)
{
    static const char lines[] = "flash-attn==2.8.3\n";
    static const char toml[] = "[project]\nname='x'\n[project.optional-dependencies]\n"
                               "gpu=['flash-attn==2.7.4']\n[dependency-groups]\n"
                               "dev=['flash-attn==2.6.3']\n";
    (void)context;
    (void)into;
    const char *text = strstr(path, "pyproject.toml") != NULL ? toml
                       : strcmp(path, "r.txt") == 0           ? lines
                                                              : NULL;
    if (text == NULL)
        return af_fail(err, ANYFLASH_E_NOT_FOUND, "no file '%s'", path);
    *text_out = (struct af_span){text, strlen(text)};
    return ANYFLASH_OK;
}

static void read_command(const char *line)
{
    static const char *words[WORDS_MAX];
    size_t count = 0;
    af_arena_release(&arena);
    af_arena_init(&arena);
    project = (struct af_project){.arena = &arena, .read = read_files};
    while (*line != '\0' && count < WORDS_MAX) {
        size_t len = strcspn(line, " ");
        words[count++] = af_arena_text_n(&arena, line, len);
        line += len + (line[len] == ' ');
    }
    struct anyflash_error err;
    if (af_project_command_read(&project, words, count, &command, &err) != ANYFLASH_OK)
        fail_msg("%s", err.message);
}

struct row {
    const char *line;
    const char *version; /* of flash-attn; NULL: not asked for */
    const char *python;
    size_t prefix_count;
    bool uv;
};

static void test_command__finds_what_is_asked_for(void **state)
{
    static const struct row rows[] = {
        {"pip install -r r.txt", "==2.8.3", NULL, 0, false},
        {"pip3.11 install -rr.txt -U", "==2.8.3", NULL, 0, false},
        {"/v/bin/python3 -I -m pip install --requirement=r.txt", "==2.8.3", "/v/bin/python3", 0,
         false},
        {"pip --python /v install flash-attn==2.5", "==2.5", "/v", 0, false},
        {"uv --offline pip install -p /v -r r.txt", "==2.8.3", "/v", 0, true},
        {"uv --directory x pip sync r.txt", "==2.8.3", NULL, 0, true},
        {"uv pip install -r pyproject.toml --extra gpu", "==2.7.4", NULL, 0, true},
        {"uv pip install --group dev", "==2.6.3", NULL, 0, true},
        {"pip install --group a/pyproject.toml:dev", "==2.6.3", NULL, 0, false},
        {"pip install -e .[gpu]", "==2.7.4", NULL, 0, false},
        {"conda run -n x pip install -r r.txt", "==2.8.3", NULL, 4, false},
        {"poetry run python -m pip install -r r.txt", "==2.8.3", "python", 2, false},
        {"pip install --log flash-attn numpy", NULL, NULL, 0, false},
        {"pip install -- flash-attn==1.0", "==1.0", NULL, 0, false},
    };
    static const struct af_marker_environment here = {.extra = ""};
    (void)state;
    for (size_t i = 0; i < AF_COUNT(rows); i++) {
        read_command(rows[i].line);
        const struct af_project_requirement *flash =
            af_project_next(&project, NULL, "flash-attn", &here);
        if (command.refusal != NULL || !command.installs)
            fail_msg("'%s' is refused", rows[i].line);
        if ((flash == NULL) != (rows[i].version == NULL) ||
            (flash != NULL && strcmp(flash->specifier, rows[i].version) != 0))
            fail_msg("'%s' asks for %s", rows[i].line, flash == NULL ? "nothing" : flash->text);
        assert_true(af_equal(command.python, rows[i].python) ||
                    command.python == rows[i].python);
        assert_int_equal(command.prefix_count, rows[i].prefix_count);
        assert_int_equal(command.uv, rows[i].uv);
    }
}

static void test_command__refuses_what_variables_cannot_prepare(void **state)
{
    static const char *const lines[] = {
        "uv sync",
        "uv add flash-attn",
        "poetry install",
        "pdm install",
        "conda install flash-attn",
        "conda env create -f x.yml",
        "make install",
        "python setup.py install",
        "pip install -t x flash-attn",
        "pip install --isolated flash-attn",
        "pip install -r -",
    };
    (void)state;
    for (size_t i = 0; i < AF_COUNT(lines); i++) {
        read_command(lines[i]);
        if (command.refusal == NULL || command.hint == NULL)
            fail_msg("'%s' is not refused", lines[i]);
    }
    read_command("pdm install");
    assert_string_equal(command.refusal,
                        "`pdm install` takes no wheel from outside its own files");
}

static void test_command__leaves_other_subcommands_alone(void **state)
{
    static const char *const lines[] = {"pip list", "pip", "uv pip compile r.in",
                                        "uv tool list"};
    (void)state;
    for (size_t i = 0; i < AF_COUNT(lines); i++) {
        read_command(lines[i]);
        assert_null(command.refusal);
        assert_false(command.installs);
    }
}

static void test_command__keeps_the_indexes(void **state)
{
    (void)state;
    read_command("pip install -i https://x.example/whl/cu128 torch");
    assert_string_equal(af_project_next_option(&project, NULL, AF_PROJECT_MEANS_INDEX)->value,
                        "https://x.example/whl/cu128");
}

static int release(void **state)
{
    (void)state;
    af_arena_release(&arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_command__finds_what_is_asked_for),
        cmocka_unit_test(test_command__refuses_what_variables_cannot_prepare),
        cmocka_unit_test(test_command__leaves_other_subcommands_alone),
        cmocka_unit_test(test_command__keeps_the_indexes),
    };
    return cmocka_run_group_tests(tests, NULL, release);
}
