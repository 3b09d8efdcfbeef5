/*
 * test_requirements.c: requirement lines as projects write them, over files in memory;
 * commands as users type them, and what they would install.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kit/base/text.h"
#include "kit/project/requirements.h"

#include <stdio.h>
#include <string.h>

struct memory_file {
    const char *path;
    const char *text;
};

static const struct memory_file *files;
static size_t file_count;
static struct af_arena arena;
static struct af_project project;
static struct anyflash_error error;

static const struct af_marker_environment here = {.python_full_version = "3.11.2",
                                                  .sys_platform = "linux",
                                                  .platform_machine = "x86_64",
                                                  .extra = ""};

static enum anyflash_status read_memory(void *context, struct af_arena *into, const char *path,
                                        struct af_span *text_out, struct anyflash_error *err)
{
    (void)context;
    (void)into;
    for (size_t i = 0; i < file_count; i++) {
        if (strcmp(files[i].path, path) != 0)
            continue;
        *text_out = (struct af_span){files[i].text, strlen(files[i].text)};
        return ANYFLASH_OK;
    }
    return af_fail(err, ANYFLASH_E_NOT_FOUND, "no file '%s'", path);
}

static void start(const struct memory_file *list, size_t count)
{
    files = list;
    file_count = count;
    af_arena_release(&arena);
    af_arena_init(&arena);
    project = (struct af_project){.arena = &arena, .read = read_memory};
}

static enum anyflash_status read_text(const char *text)
{
    static struct memory_file file = {.path = "requirements.txt"};
    file.text = text;
    start(&file, 1);
    return af_project_add_file(&project, "requirements.txt", false, &error);
}

static const struct af_project_requirement *flash(void)
{
    return af_project_next(&project, NULL, "flash-attn", &here);
}

static void test_file__keeps_name_specifier_and_line(void **state)
{
    (void)state;
    assert_int_equal(
        read_text("# ours\r\ntorch==2.8.0 # pinned\r\n\r\nFlash_Attn >=2.7,<3\r\n"), 0);
    assert_string_equal(flash()->specifier, ">=2.7,<3");
    assert_string_equal(flash()->place.file, "requirements.txt");
    assert_int_equal(flash()->place.line, 4);
    assert_null(af_project_pinned_version(&arena, flash()->specifier));
    const struct af_project_requirement *torch =
        af_project_next(&project, NULL, "torch", &here);
    assert_string_equal(af_project_pinned_version(&arena, torch->specifier), "2.8.0");
    assert_string_equal(torch->text, "torch==2.8.0");
}

static void test_file__joins_lines_and_reads_hashes(void **state)
{
    (void)state;
    assert_int_equal(read_text("flash-attn==2.8.3 ; python_version > '3.8' \\\n"
                               "    --hash=sha256:aa \\\n    --hash 'sha256:bb'\nnumpy\n"),
                     0);
    assert_string_equal(flash()->hashes, "sha256:aa sha256:bb");
    assert_string_equal(flash()->marker, "python_version > '3.8'");
    assert_string_equal(flash()->text, "flash-attn==2.8.3 ; python_version > '3.8'");
    assert_int_equal(flash()->place.line, 1);
    assert_int_equal(af_project_next(&project, NULL, "numpy", &here)->place.line, 4);
}

static void test_file__ends_a_joined_line_at_a_comment(void **state)
{
    (void)state;
    assert_int_equal(read_text("flash-attn \\\n# note \\\nnumpy"), 0);
    assert_string_equal(flash()->text, "flash-attn");
    assert_non_null(af_project_next(&project, NULL, "numpy", &here));
}

static void test_next__skips_what_a_marker_excludes(void **state)
{
    (void)state;
    read_text("flash-attn; sys_platform == 'win32'\nflash-attn==2.7.4; sys_platform=='linux'");
    assert_string_equal(flash()->specifier, "==2.7.4");
    assert_null(af_project_next(&project, flash(), "flash-attn", &here));
}

static void test_file__reads_options(void **state)
{
    (void)state;
    assert_int_equal(
        read_text("--extra-index-url=https://a.example/x --pre\n-i https://b.example\n"
                  "-f./wheels\n--no-binary :all:\n--unknown x\n"),
        0);
    static const char *const indexes[] = {"https://a.example/x", "https://b.example",
                                          "./wheels"};
    const struct af_project_option *option = NULL;
    for (size_t i = 0; i < AF_COUNT(indexes); i++) {
        option = af_project_next_option(&project, option, AF_PROJECT_MEANS_INDEX);
        assert_string_equal(option->value, indexes[i]);
    }
    assert_null(af_project_next_option(&project, option, AF_PROJECT_MEANS_INDEX));
    option = af_project_next_option(&project, NULL, AF_PROJECT_MEANS_NO_BINARY);
    assert_string_equal(option->value, ":all:");
    assert_null(project.requirements);
}

static void test_file__follows_nested_files_from_their_folder(void **state)
{
    static const struct memory_file list[] = {
        {"a/requirements.txt", "-r more/gpu.txt\n-c limits.txt\n-r https://x.example/r.txt\n"},
        {"a/more/gpu.txt", "flash-attn\n-c ../limits.txt\n"},
        {"a/limits.txt", "torch<2.9\n"},
        {"a/more/../limits.txt", "torch<2.9\n"},
    };
    (void)state;
    start(list, AF_COUNT(list));
    assert_int_equal(af_project_add_file(&project, "a/requirements.txt", false, &error), 0);
    assert_string_equal(flash()->place.file, "a/more/gpu.txt");
    assert_false(flash()->constraint);
    assert_true(af_project_next(&project, NULL, "torch", &here)->constraint);
    assert_string_equal(af_project_next_option(&project, NULL, AF_PROJECT_MEANS_FILE)->value,
                        "https://x.example/r.txt");
}

static void test_file__refuses_a_circle(void **state)
{
    static const struct memory_file list[] = {{"a.txt", "-r b.txt"}, {"b.txt", "-r a.txt"}};
    (void)state;
    start(list, AF_COUNT(list));
    assert_int_equal(af_project_add_file(&project, "a.txt", false, &error), ANYFLASH_E_DATA);
    assert_string_equal(error.message, "'a.txt' includes itself");
}

static void test_file__reads_a_file_once(void **state)
{
    static const struct memory_file list[] = {
        {"a.txt", "-r b.txt\n-r b.txt\n-r c.txt"}, {"b.txt", "x"}, {"c.txt", "-r b.txt"}};
    (void)state;
    start(list, AF_COUNT(list));
    assert_int_equal(af_project_add_file(&project, "a.txt", false, &error), 0);
    assert_int_equal(project.item_count, 1);
}

static void test_file__bounds_depth(void **state)
{
    static struct memory_file list[20];
    static char texts[20][24];
    static char names[20][16];
    (void)state;
    for (int i = 0; i < 20; i++) {
        snprintf(names[i], sizeof names[i], "%d", i);
        snprintf(texts[i], sizeof texts[i], "-r %d", i + 1);
        list[i] = (struct memory_file){names[i], texts[i]};
    }
    start(list, AF_COUNT(list));
    assert_int_equal(af_project_add_file(&project, "0", false, &error), ANYFLASH_E_LIMIT);
    assert_string_equal(error.message, "'16' is included more than 16 files deep");
}

static void test_file__passes_a_missing_file_on(void **state)
{
    (void)state;
    assert_int_equal(read_text("-r gone.txt"), ANYFLASH_E_NOT_FOUND);
    assert_string_equal(error.message, "no file 'gone.txt'");
}

static void test_file__skips_a_byte_order_mark_and_refuses_utf16(void **state)
{
    (void)state;
    assert_int_equal(read_text("\xef\xbb\xbf"
                               "flash-attn"),
                     0);
    assert_non_null(flash());
    assert_int_equal(read_text("\xff\xfe"
                               "f"),
                     ANYFLASH_E_DATA);
}

static void test_file__keeps_lines_that_it_cannot_read(void **state)
{
    (void)state;
    assert_int_equal(read_text("what is this\nflash-attn ==\n"), 0);
    assert_string_equal(project.requirements->text, "what is this");
    assert_null(project.requirements->name);
    assert_null(project.requirements->path);
}

struct word_row {
    const char *word;
    const char *name;
    const char *extras;
    const char *url;
    const char *path;
};

static void test_word__tells_names_urls_and_paths(void **state)
{
    static const struct word_row rows[] = {
        {"flash-attn[x, y]==2.8.3", "flash-attn", "x, y", NULL, NULL},
        {"flash_attn @ https://x.example/f.whl", "flash-attn", "", "https://x.example/f.whl",
         NULL},
        {"https://x.example/flash_attn-2.8.3%2Bcu12-cp311-cp311-linux_x86_64.whl", "flash-attn",
         "", "https://x.example/flash_attn-2.8.3%2Bcu12-cp311-cp311-linux_x86_64.whl", NULL},
        {"git+https://x.example/f.git@v2#egg=flash_attn", "flash-attn", "",
         "git+https://x.example/f.git@v2#egg=flash_attn", NULL},
        {"./f/flash_attn-2.8.3-cp311-cp311-linux_x86_64.whl", "flash-attn", "", NULL,
         "./f/flash_attn-2.8.3-cp311-cp311-linux_x86_64.whl"},
        {".[flash]", NULL, "flash", NULL, "."},
        {"file:///src/tool ; python_version > '3'", NULL, "", NULL, "/src/tool"},
        {"lib/", NULL, "", NULL, "lib/"},
    };
    (void)state;
    for (size_t i = 0; i < AF_COUNT(rows); i++) {
        start(NULL, 0);
        assert_int_equal(af_project_add_word(&project, rows[i].word, false, &error), 0);
        const struct af_project_requirement *made = project.requirements;
        if (rows[i].name == NULL)
            assert_null(made->name);
        else
            assert_string_equal(made->name, rows[i].name);
        assert_string_equal(made->extras, rows[i].extras);
        assert_true(made->url == rows[i].url || af_equal(made->url, rows[i].url));
        assert_true(made->path == rows[i].path || af_equal(made->path, rows[i].path));
    }
}

static const char toml[] = "[project]\nname = 'Tool'\ndependencies = ['torch==2.8.0']\n"
                           "[project.optional-dependencies]\n"
                           "all = ['tool[Flash_Extra]', 'tool[all]']\n"
                           "flash-extra = ['flash-attn>=2.8']\n"
                           "[dependency-groups]\n"
                           "gpu = ['flash-attn==2.7.4', {include-group = 'dev'}]\ndev = ['x']\n"
                           "loop = [{include-group = 'loop'}]\n";

static void test_folder__reads_dependencies_and_chosen_extras(void **state)
{
    static const struct memory_file list[] = {{"tool/pyproject.toml", toml},
                                              {"r.txt", "-e ./tool[all]\n"},
                                              {"./tool/pyproject.toml", toml}};
    (void)state;
    start(list, AF_COUNT(list));
    assert_int_equal(af_project_add_folder(&project, "tool", "", &error), 0);
    assert_null(flash());
    assert_non_null(af_project_next(&project, NULL, "torch", &here));
    start(list, AF_COUNT(list));
    assert_int_equal(af_project_add_file(&project, "r.txt", false, &error), 0);
    assert_true(project.requirements->editable);
    assert_string_equal(flash()->specifier, ">=2.8");
    assert_string_equal(flash()->place.file, "./tool/pyproject.toml");
}

static void test_folder__may_lack_a_project_file(void **state)
{
    (void)state;
    start(NULL, 0);
    assert_int_equal(af_project_add_folder(&project, "tool", "", &error), 0);
    assert_null(project.requirements);
}

static void test_group__includes_groups(void **state)
{
    static const struct memory_file list[] = {{"pyproject.toml", toml}};
    (void)state;
    start(list, AF_COUNT(list));
    assert_int_equal(af_project_add_group(&project, "pyproject.toml", "gpu", &error), 0);
    assert_string_equal(flash()->specifier, "==2.7.4");
    assert_non_null(af_project_next(&project, NULL, "x", &here));
    assert_int_equal(af_project_add_group(&project, "pyproject.toml", "loop", &error),
                     ANYFLASH_E_LIMIT);
}

#define WORDS_MAX 16

static struct af_project_command command;

#define TOOL                                                                                   \
    "[project]\nname='x'\n[project.optional-dependencies]\ngpu=['flash-attn==2.7.4']\n"        \
    "[dependency-groups]\ndev=['flash-attn==2.6.3']\n"

static void read_command(const char *line)
{
    static const struct memory_file list[] = {{"r.txt", "flash-attn==2.8.3\n"},
                                              {"pyproject.toml", TOOL},
                                              {"./pyproject.toml", TOOL},
                                              {"a/pyproject.toml", TOOL}};
    static const char *words[WORDS_MAX];
    size_t count = 0;
    start(list, AF_COUNT(list));
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

static void test_command__refuses_what_takes_no_wheel(void **state)
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
        "pip install --user flash-attn",
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
        cmocka_unit_test(test_file__keeps_name_specifier_and_line),
        cmocka_unit_test(test_file__joins_lines_and_reads_hashes),
        cmocka_unit_test(test_file__ends_a_joined_line_at_a_comment),
        cmocka_unit_test(test_next__skips_what_a_marker_excludes),
        cmocka_unit_test(test_file__reads_options),
        cmocka_unit_test(test_file__follows_nested_files_from_their_folder),
        cmocka_unit_test(test_file__refuses_a_circle),
        cmocka_unit_test(test_file__reads_a_file_once),
        cmocka_unit_test(test_file__bounds_depth),
        cmocka_unit_test(test_file__passes_a_missing_file_on),
        cmocka_unit_test(test_file__skips_a_byte_order_mark_and_refuses_utf16),
        cmocka_unit_test(test_file__keeps_lines_that_it_cannot_read),
        cmocka_unit_test(test_word__tells_names_urls_and_paths),
        cmocka_unit_test(test_folder__reads_dependencies_and_chosen_extras),
        cmocka_unit_test(test_folder__may_lack_a_project_file),
        cmocka_unit_test(test_group__includes_groups),
        cmocka_unit_test(test_command__finds_what_is_asked_for),
        cmocka_unit_test(test_command__refuses_what_takes_no_wheel),
        cmocka_unit_test(test_command__leaves_other_subcommands_alone),
        cmocka_unit_test(test_command__keeps_the_indexes),
    };
    return cmocka_run_group_tests(tests, NULL, release);
}
