/*
 * test_wheel_content.c: what is named in wheels of FlashAttention and of other packages, what
 * is refused, and what allows it. Also makes each allocation fail in turn.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "kit/base/text.h"
#include "kit/proof/wheel_content.h"
#include "kit/system/file.h"
#include "tests/unit/kit/formats/zip_build.h"

#define FLASH "flash_attn-2.8.3+cu12torch2.8cxx11abiTRUE-cp312-cp312-linux_x86_64.whl"
#define EXTENSION "flash_attn_2_cuda.cpython-312-x86_64-linux-gnu.so"
#define FLASH_3 "flash_attn_3-3.0.0-cp39-abi3-linux_x86_64.whl"
#define FLASH_4 "flash_attn_4-4.0.0b36-py3-none-any.whl"
#define OTHER "demo-1.0-py3-none-any.whl"

static char in_memory[] = "/dev/shm/anyflash-content-XXXXXX";
static struct af_arena arena;
static struct build build;

static int make_folder(void **state)
{
    (void)state;
    af_json_start();
    af_arena_init(&arena);
    return mkdtemp(in_memory) == NULL || setenv("TMPDIR", in_memory, 1) != 0;
}

static int remove_folder(void **state)
{
    (void)state;
    af_arena_release(&arena);
    return rmdir(in_memory);
}

struct wheel {
    struct af_inspect_target target;
    struct af_content content;
};

/* "demo-1.0" of "demo-1.0+cu12-py3-none-any.whl" */
static size_t info_len(const char *filename)
{
    size_t name_len = strcspn(filename, "-") + 1;
    return name_len + strcspn(filename + name_len, "-+");
}

static const char *metadata = "Name: x\n";

static const char *write_wheel(const char *filename, const struct member_given *members,
                               size_t count)
{
    char info[200];
    const char *path = af_path_join(&arena, in_memory, filename);
    snprintf(info, sizeof info, "%.*s.dist-info/METADATA", (int)info_len(filename), filename);
    memset(&build, 0, sizeof build);
    for (size_t i = 0; i < count; i++)
        build_member(&build, members[i]);
    build_member(&build, (struct member_given){.name = info, .content = metadata});
    build_finish(&build);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(build.bytes, 1, build.len, file), build.len);
    fclose(file);
    return path;
}

/* The findings of a wheel with these members; `run_path` is that of its first library. */
static struct wheel find(const char *filename, const struct member_given *members, size_t count,
                         const char *run_path)
{
    struct wheel wheel;
    struct anyflash_error err;
    const char *path = write_wheel(filename, members, count);
    if (af_inspect_target_open(path, &arena, &wheel.target, &err) != ANYFLASH_OK)
        fail_msg("%s", err.message);
    if (run_path != NULL) {
        struct af_inspect_extension *one = &wheel.target.extensions[0];
        one->has_facts = true;
        one->facts.binary.runpath = run_path;
    }
    af_content_find(&wheel.target, &arena, &wheel.content);
    af_inspect_target_close(&wheel.target);
    unlink(path);
    return wheel;
}

/* The members of a wheel, as two arguments. */
#define MEMBERS(array) array, AF_COUNT(array)

/* One line for each finding: "refused pth-file x.pth". */
static const char *lines_of(const struct af_content *content)
{
    const char *lines = "";
    for (size_t i = 0; i < content->count; i++) {
        const struct af_content_finding *one = &content->findings[i];
        lines = af_arena_format(&arena, "%s%s %s %s\n", lines,
                                one->is_forbidden ? "forbidden"
                                : one->is_refused ? "refused"
                                                  : "named",
                                af_content_kind_name(one->kind), one->name);
    }
    return lines;
}

static void test_content__what_the_authors_ship_is_ordinary(void **unused)
{
    (void)unused;
    static const struct member_given flash_2[] = {
        {.name = "flash_attn/__init__.py", .content = "a"},
        {.name = "flash_attn/ops/triton/layer_norm.py", .content = "#!/usr/bin/env python"},
        {.name = "hopper/__init__.py", .content = ""},
        {.name = EXTENSION, .content = "\177ELF"},
        {.name = "flash_attn-2.8.3.dist-info/top_level.txt", .content = "flash_attn"},
    };
    static const struct member_given flash_3[] = {
        {.name = "flash_attn_3/_C.abi3.so", .content = "\177ELF"},
        {.name = "flash_attn_interface.py", .content = ""},
        {.name = "flash_attn_config.py", .content = ""},
    };
    static const struct member_given flash_4[] = {
        {.name = "flash_attn/cute/__init__.py", .content = ""}};
    struct wheel wheel = find(FLASH, MEMBERS(flash_2), NULL);
    assert_string_equal(wheel.content.package, "flash-attn");
    assert_int_equal(wheel.content.count, 0);
    wheel = find(FLASH_3, MEMBERS(flash_3), NULL);
    assert_string_equal(wheel.content.package, "flash-attn-3");
    assert_int_equal(wheel.content.count, 0);
    wheel = find(FLASH_4, MEMBERS(flash_4), NULL);
    assert_string_equal(wheel.content.package, "flash-attn-4");
    assert_int_equal(wheel.content.count, 0);
}

static void test_content__names_each_kind(void **unused)
{
    (void)unused;
    static const struct member_given members[] = {
        {.name = "flash_attn/model.pth", .content = "weights"},
        {.name = "x.pth", .content = "import os"},
        {.name = "sitecustomize.py", .content = ""},
        {.name = "usercustomize/__init__.py", .content = ""},
        {.name = "torch/nn/extra.py", .content = ""},
        {.name = "helpers/a.py", .content = ""},
        {.name = "helpers/b.py", .content = ""},
        {.name = "flash_attn/more.so", .content = ""},
        {.name = "flash_attn/data.bin", .content = "\177ELF program"},
        {.name = "flash_attn-2.8.3.data/scripts/run", .content = ""},
        {.name = "flash_attn-2.8.3.data/data/lib/python3.12/site-packages/y.pth",
         .content = ""},
        {.name = "torch-2.8.0.dist-info/METADATA", .content = ""},
        {.name = "flash_attn.libs/libgomp-1.so.1", .content = ""},
        {.name = "numpy.libs/libopenblas.so", .content = ""},
    };
    struct wheel wheel = find(FLASH, MEMBERS(members), NULL);
    assert_string_equal(
        lines_of(&wheel.content),
        "refused pth-file x.pth\n"
        "refused startup-hook sitecustomize.py\n"
        "refused startup-hook usercustomize/\n"
        "refused taken-name torch/\n"
        "refused module helpers/\n"
        "refused library flash_attn/more.so\n"
        "refused program flash_attn/data.bin\n"
        "refused command flash_attn-2.8.3.data/scripts/run\n"
        "refused outside flash_attn-2.8.3.data/data/lib/python3.12/site-packages/y.pth\n"
        "refused pth-file flash_attn-2.8.3.data/data/lib/python3.12/site-packages/y.pth\n"
        "refused other-metadata torch-2.8.0.dist-info/\n"
        "named bundled-library flash_attn.libs/libgomp-1.so.1\n"
        "refused library numpy.libs/libopenblas.so\n");
}

static void test_content__flash_attn_4_owns_only_its_own_folder(void **unused)
{
    (void)unused;
    static const struct member_given members[] = {
        {.name = "flash_attn/cute/a.py", .content = ""},
        {.name = "flash_attn/__init__.py", .content = ""}};
    struct wheel wheel = find(FLASH_4, MEMBERS(members), NULL);
    assert_string_equal(lines_of(&wheel.content), "refused module flash_attn/__init__.py\n");
}

static void test_content__reads_entry_points(void **unused)
{
    (void)unused;
    static const struct member_given members[] = {
        {.name = "flash_attn-2.8.3.dist-info/entry_points.txt",
         .content = "[console_scripts]\nflash-serve = flash_attn:main\n; a remark\n\n"
                    "[torch.backends]\r\nquick = flash_attn:hook\r\n"}};
    struct wheel wheel = find(FLASH, MEMBERS(members), NULL);
    assert_string_equal(lines_of(&wheel.content), "refused command flash-serve\n"
                                                  "refused entry-point quick\n");
    assert_string_equal(wheel.content.findings[1].detail, "group torch.backends");
}

/* importlib.metadata reads ';' as part of a name, and metadata in folders of any case. */
static void test_content__finds_metadata_and_entry_points_where_python_does(void **unused)
{
    (void)unused;
    static const struct member_given members[] = {
        {.name = "torch-99.0.DIST-INFO/METADATA", .content = ""},
        {.name = "jax-1.egg-info", .content = ""},
        {.name = "demo-1.0.data/purelib/numpy-9.dist-info/METADATA", .content = ""},
        {.name = "demo-1.0.data/purelib/demo-1.0.dist-info/entry_points.txt", .content = ""},
        {.name = "demo-2.0.dist-info/METADATA", .content = ""},
        {.name = "demo-1.0.dist-info/entry_points.txt",
         .content = "[torch.backends]\n;evil = m:f\n[x = m:f\n; a remark\n# y = m:f\n"},
    };
    struct wheel wheel = find(OTHER, MEMBERS(members), NULL);
    assert_string_equal(lines_of(&wheel.content),
                        "refused other-metadata torch-99.0.DIST-INFO/\n"
                        "refused other-metadata jax-1.egg-info\n"
                        "refused other-metadata demo-1.0.data/purelib/numpy-9.dist-info/\n"
                        "refused other-metadata demo-1.0.data/purelib/demo-1.0.dist-info/\n"
                        "refused other-metadata demo-2.0.dist-info/\n"
                        "named entry-point ;evil\n"
                        "named entry-point [x\n");
}

/* pip joins such names to the folder of the commands. */
static void test_content__command_names_that_leave_their_folder_are_forbidden(void **unused)
{
    (void)unused;
    static const struct member_given members[] = {
        {.name = "demo-1.0.dist-info/entry_points.txt",
         .content = "[console_scripts]\n/etc/profile = a:b\n../../x = a:b\n.profile = a:b\n"
                    "a\\b = a:b\nc\rd = a:b\npython3 = a:b\nrun = a:b\n"
                    "[[gui_scripts]]\nx/y = a:b\n"}};
    static const char *const all[] = {"/etc/profile"};
    struct wheel wheel = find(OTHER, MEMBERS(members), NULL);
    assert_string_equal(lines_of(&wheel.content), "forbidden command-name /etc/profile\n"
                                                  "forbidden command-name ../../x\n"
                                                  "forbidden command-name .profile\n"
                                                  "forbidden command-name a\\b\n"
                                                  "forbidden command-name c\\x0dd = a:b\n"
                                                  "refused environment-file python3\n"
                                                  "named command run\n"
                                                  "forbidden command-name x/y\n");
    const struct af_texts names = {all, 1};
    struct af_content_refusal refusal;
    af_content_refuse(&wheel.content, "x.whl", &names, &arena, &refusal);
    assert_non_null(strstr(refusal.reason, "/etc/profile"));
    assert_non_null(strstr(refusal.hint, "no option allows this"));
}

static void test_content__files_of_the_environment_are_refused(void **unused)
{
    (void)unused;
    static const struct member_given members[] = {
        {.name = "demo-1.0.data/data/pyvenv.cfg", .content = ""},
        {.name = "demo-1.0.data/data/bin/activate.fish", .content = ""},
        {.name = "demo-1.0.data/data/bin/python-tool", .content = ""},
        {.name = "demo-1.0.data/scripts/python3.12", .content = ""},
    };
    struct wheel wheel = find(OTHER, MEMBERS(members), NULL);
    assert_string_equal(lines_of(&wheel.content),
                        "refused environment-file demo-1.0.data/data/pyvenv.cfg\n"
                        "refused environment-file demo-1.0.data/data/bin/activate.fish\n"
                        "named outside demo-1.0.data/data/bin/python-tool\n"
                        "refused environment-file demo-1.0.data/scripts/python3.12\n");
}

/* The findings of a wheel that contains only METADATA with these lines. */
static const char *of_metadata(const char *filename, const char *text)
{
    metadata = text;
    struct wheel wheel = find(filename, NULL, 0, NULL);
    metadata = "Name: x\n";
    return lines_of(&wheel.content);
}

static void test_content__requirements_are_those_of_the_authors(void **unused)
{
    (void)unused;
    static const char all[] = "Name: x\nRequires-Dist: torch\nrequires-dist: Einops>=0.6\n"
                              "Requires-Dist: pytest; extra == 'dev'\n"
                              "Requires-Dist: helper>1\n\nRequires-Dist: text\n";
    assert_string_equal(of_metadata(FLASH, all), "refused requirement helper\n");
    assert_string_equal(of_metadata(OTHER, all), "");
    assert_string_equal(of_metadata(FLASH_4, "Requires-Dist: quack_kernels\n"), "");
}

static void test_content__requirements_have_no_place(void **unused)
{
    (void)unused;
    static const char *const values[] = {"torch @ file:///x", "torch@https://a.b/torch.whl",
                                         "./torch", "git+https://a.b/c"};
    for (size_t n = 0; n < AF_COUNT(values); n++) {
        const char *line = af_arena_format(&arena, "Requires-Dist: %s\r\n", values[n]);
        assert_string_equal(
            of_metadata(FLASH, line),
            af_arena_format(&arena, "forbidden requirement-place %s\n", values[n]));
        assert_string_equal(of_metadata(OTHER, line),
                            af_arena_format(&arena, "named requirement-place %s\n", values[n]));
    }
}

static void test_content__no_line_of_metadata_is_hidden(void **unused)
{
    (void)unused;
    static const char *const texts[] = {
        "Summary: x\rRequires-Dist: evil\nName: x\n", "Requires-Dist: torch\n @ file:///x\n",
        "Requires-Dist: torch\x0bRequires-Dist: evil\n", "Name: x\n\rRequires-Dist: evil\n"};
    for (size_t n = 0; n < AF_COUNT(texts); n++) {
        assert_non_null(strstr(of_metadata(FLASH, texts[n]), "forbidden hidden-line"));
        assert_non_null(strstr(of_metadata(OTHER, texts[n]), "forbidden hidden-line"));
    }
    assert_string_equal(of_metadata(OTHER, "Name: x\r\nLicense: a\r\n  b\r\n\r\nx\ry"), "");
}

static void test_content__compiled_modules_have_their_source(void **unused)
{
    (void)unused;
    static const struct member_given members[] = {
        {.name = "demo/a.py", .content = ""},
        {.name = "demo/__pycache__/a.cpython-312.pyc", .content = ""},
        {.name = "einops/__pycache__/__init__.cpython-312.pyc", .content = ""},
        {.name = "demo-1.0.data/purelib/b/__pycache__/c.pyc", .content = ""},
    };
    struct wheel wheel = find(OTHER, MEMBERS(members), NULL);
    assert_string_equal(lines_of(&wheel.content),
                        "refused compiled-alone einops/__pycache__/__init__.cpython-312.pyc\n"
                        "refused compiled-alone demo-1.0.data/purelib/b/__pycache__/c.pyc\n");
}

static void test_content__a_record_of_other_files_is_forbidden(void **unused)
{
    (void)unused;
    static const struct member_given members[] = {
        {.name = "demo/__init__.py", .content = ""},
        {.name = "demo-1.0.dist-info/RECORD",
         .content = "demo/__init__.py,,0\nevil.pth,,3\ndemo/__init__.py,,7\n"}};
    struct wheel wheel = find(OTHER, MEMBERS(members), NULL);
    assert_string_equal(lines_of(&wheel.content), "forbidden record RECORD\n");
    assert_string_equal(wheel.content.findings[0].detail,
                        "2 files do not match it, for example evil.pth");
}

static void test_content__in_other_wheels_only_hooks_and_taken_names_are_refused(void **unused)
{
    (void)unused;
    static const struct member_given members[] = {
        {.name = "anything/__init__.py", .content = ""},
        {.name = "anything/one.so", .content = ""},
        {.name = "demo-1.0.dist-info/entry_points.txt",
         .content = "[console_scripts]\nx=a:b\n"},
        {.name = "demo.pth", .content = ""},
        {.name = "json.py", .content = ""},
        {.name = "torch/x.py", .content = ""},
    };
    struct wheel wheel = find(OTHER, MEMBERS(members), NULL);
    assert_null(wheel.content.package);
    assert_string_equal(lines_of(&wheel.content), "refused pth-file demo.pth\n"
                                                  "refused taken-name json.py\n"
                                                  "refused taken-name torch/\n"
                                                  "named command x\n");
    static const struct member_given torch[] = {
        {.name = "torch/x.py", .content = ""},
        {.name = "functorch/__init__.py", .content = ""},
    };
    wheel = find("torch-2.9.0-py3-none-any.whl", MEMBERS(torch), NULL);
    assert_int_equal(wheel.content.count, 0);
}

static void test_content__run_paths(void **unused)
{
    (void)unused;
    static const struct member_given member = {.name = EXTENSION, .content = ""};
    static const struct {
        const char *run_path;
        const char *line; /* empty: it stays below the folder of the packages */
    } cases[] = {
        {"$ORIGIN:$ORIGIN/torch/lib:${ORIGIN}/flash_attn.libs", ""},
        {"$ORIGIN/../../..", "named build-path " EXTENSION "\n"},
        {"/opt/hostedtoolcache/Python/3.11.9/x64/lib", "named build-path " EXTENSION "\n"},
        {"$ORIGIN/../../../../tmp", "refused run-path " EXTENSION "\n"},
        {"/tmp/lib", "refused run-path " EXTENSION "\n"},
        {"/usr/../tmp", "refused run-path " EXTENSION "\n"},
        {"lib", "refused run-path " EXTENSION "\n"},
        {"$ORIGIN::$ORIGIN", "refused run-path " EXTENSION "\n"},
        {"//tmp/x", "refused run-path " EXTENSION "\n"},
        {"/./tmp", "refused run-path " EXTENSION "\n"},
        {"/usr//./tmp", "refused run-path " EXTENSION "\n"},
        {"/run/lock/x", "refused run-path " EXTENSION "\n"},
        {"/proc/self/cwd/lib", "refused run-path " EXTENSION "\n"},
        {"$ORIGINx/lib", "refused run-path " EXTENSION "\n"},
        {"${ORIGIN}x/lib", "refused run-path " EXTENSION "\n"},
        {"/opt/$ORIGIN", "refused run-path " EXTENSION "\n"},
        {"$ORIGIN/a/../../../../../tmp", "refused run-path " EXTENSION "\n"},
        {"$ORIGIN//./torch/lib", ""},
        {"/tmpfolder/lib", "named build-path " EXTENSION "\n"},
    };
    for (size_t i = 0; i < AF_COUNT(cases); i++) {
        struct wheel wheel = find(FLASH, &member, 1, cases[i].run_path);
        assert_string_equal(lines_of(&wheel.content), cases[i].line);
    }
}

static void test_content__a_library_needed_by_its_path_is_refused(void **unused)
{
    (void)unused;
    static const char *const needed[] = {"libc.so.6", "./x.so"};
    static const struct member_given member = {.name = EXTENSION, .content = ""};
    struct wheel wheel;
    const char *path = write_wheel(FLASH, &member, 1);
    assert_int_equal(af_inspect_target_open(path, &arena, &wheel.target, NULL), ANYFLASH_OK);
    struct af_inspect_extension *one = &wheel.target.extensions[0];
    one->has_facts = true;
    one->facts.binary.needed = (struct af_texts){needed, AF_COUNT(needed)};
    af_content_find(&wheel.target, &arena, &wheel.content);
    af_inspect_target_close(&wheel.target);
    unlink(path);
    assert_string_equal(lines_of(&wheel.content), "refused run-path " EXTENSION "\n");
    assert_string_equal(wheel.content.findings[0].detail, "./x.so");
}

static struct af_content_refusal refuse(const struct af_content *content,
                                        const char *const *allowed, size_t count)
{
    const struct af_texts names = {allowed, count};
    struct af_content_refusal refusal;
    af_content_refuse(content, "x.whl", &names, &arena, &refusal);
    return refusal;
}

static void test_content__a_refusal_names_file_reason_and_option(void **unused)
{
    (void)unused;
    static const struct member_given members[] = {
        {.name = "a b.pth", .content = ""},
        {.name = "helpers/a.py", .content = ""},
        {.name = "LICENSE", .content = ""},
    };
    static const char *const all[] = {"helpers/", "a b.pth"};
    struct wheel wheel = find(FLASH, MEMBERS(members), NULL);
    struct af_content_refusal refusal = refuse(&wheel.content, NULL, 0);
    assert_string_equal(refusal.reason,
                        "'x.whl' contains more than flash-attn: a b.pth (Python runs its lines "
                        "whenever it starts), helpers/ (a module of another name, which any "
                        "program can import)");
    assert_string_equal(refusal.hint, "read these files first; to install them too, add "
                                      "--allow-content 'a b.pth' --allow-content helpers/");
    assert_non_null(refuse(&wheel.content, all, 1).reason);
    assert_null(refuse(&wheel.content, all, 2).reason);
}

static void test_content__too_many_to_list_are_refused_whatever_is_allowed(void **unused)
{
    (void)unused;
    const struct af_content content = {
        .package = "flash-attn", .unlisted_count = 5, .unlisted_refused_count = 3};
    struct af_content_refusal refusal = refuse(&content, NULL, 0);
    assert_non_null(strstr(refusal.reason, "3 more"));
    assert_non_null(strstr(refusal.hint, "`anyflash inspect`"));
}

/* The table of docs/reference/trust.md has each row of content_kinds.inc. */
static void test_content__the_reference_has_every_kind(void **unused)
{
    (void)unused;
    enum { FORBIDDEN, REFUSED, NAMED, ORDINARY };
    static const char *const effects[] = {"forbidden", "refused", "named", "ordinary"};
#define AF_CONTENT_KIND(id, text, why, flash, other) {text, why, flash, other},
    static const struct {
        const char *kind;
        const char *why;
        int flash;
        int other;
    } rows[] = {
#include "kit/proof/content_kinds.inc"
    };
#undef AF_CONTENT_KIND
    struct af_span page;
    assert_int_equal(
        af_file_read(&arena, AF_TEST_DATA "/../docs/reference/trust.md", 1u << 20, &page, NULL),
        ANYFLASH_OK);
    for (size_t i = 0; i < AF_COUNT(rows); i++) {
        const char *row =
            af_arena_format(&arena, "| `%s` | %s | %s | %s |\n", rows[i].kind, rows[i].why,
                            effects[rows[i].flash], effects[rows[i].other]);
        if (strstr(page.data, row) == NULL)
            fail_msg("docs/reference/trust.md lacks: %s", row);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_content__what_the_authors_ship_is_ordinary),
        cmocka_unit_test(test_content__names_each_kind),
        cmocka_unit_test(test_content__flash_attn_4_owns_only_its_own_folder),
        cmocka_unit_test(test_content__reads_entry_points),
        cmocka_unit_test(test_content__finds_metadata_and_entry_points_where_python_does),
        cmocka_unit_test(test_content__command_names_that_leave_their_folder_are_forbidden),
        cmocka_unit_test(test_content__files_of_the_environment_are_refused),
        cmocka_unit_test(test_content__requirements_are_those_of_the_authors),
        cmocka_unit_test(test_content__requirements_have_no_place),
        cmocka_unit_test(test_content__no_line_of_metadata_is_hidden),
        cmocka_unit_test(test_content__compiled_modules_have_their_source),
        cmocka_unit_test(test_content__a_record_of_other_files_is_forbidden),
        cmocka_unit_test(test_content__in_other_wheels_only_hooks_and_taken_names_are_refused),
        cmocka_unit_test(test_content__run_paths),
        cmocka_unit_test(test_content__a_library_needed_by_its_path_is_refused),
        cmocka_unit_test(test_content__a_refusal_names_file_reason_and_option),
        cmocka_unit_test(test_content__too_many_to_list_are_refused_whatever_is_allowed),
        cmocka_unit_test(test_content__the_reference_has_every_kind),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
