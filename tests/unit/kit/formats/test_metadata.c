/*
 * test_metadata.c: METADATA, RECORD, direct_url.json and similar files.
 */
#include "kit/base/json.h"
#include "kit/base/text.h"
#include "kit/formats/metadata.h"
#include "kit/formats/wheel_name.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static struct af_span span_of(const char *text)
{
    return (struct af_span){text, strlen(text)};
}

static void test_metadata__folders_state_name_and_version(void **state)
{
    (void)state;
    static const struct {
        const char *folder, *name, *version;
        bool egg;
    } rows[] = {
        {"flash_attn-2.8.3+cu12.dist-info", "flash_attn", "2.8.3+cu12", false},
        {"a-1-2.dist-info", "a", "1-2", false},
        {"a.dist-info", "a", "", false},
        {"Flash.Attn-2.8.3-py3.12.egg-info", "Flash.Attn", "2.8.3", true},
        {"a-1.egg", "a", "1", true},
    };
    struct af_info_folder parts;
    for (size_t i = 0; i < AF_COUNT(rows); i++) {
        assert_true(af_info_folder_parse(span_of(rows[i].folder), &parts));
        assert_true(af_text_span_equal(parts.name, rows[i].name));
        assert_true(af_text_span_equal(parts.version, rows[i].version));
        assert_int_equal(parts.egg, rows[i].egg);
    }
    assert_false(af_info_folder_parse(span_of("flash_attn-2.8.3"), &parts));
    assert_false(af_info_folder_parse(span_of("dist-info"), &parts));
    assert_false(af_info_folder_parse((struct af_span){NULL, 0}, &parts));
}

static void test_metadata__headers_end_at_the_empty_line(void **state)
{
    (void)state;
    struct af_span rest =
        span_of("Name: a\r\nSummary: b\r\n  more: not a header\r\nVersion:1\r\n"
                "\r\nName: body\r\n");
    struct af_header header;
    assert_true(af_header_next(&rest, &header));
    assert_true(af_header_is(&header, "NAME"));
    assert_true(af_text_span_equal(header.value, "a"));
    assert_true(af_header_next(&rest, &header));
    assert_true(af_header_next(&rest, &header));
    assert_true(af_header_is(&header, "version"));
    assert_true(af_text_span_equal(header.value, "1"));
    assert_false(af_header_next(&rest, &header));
    assert_false(af_header_next(&rest, &header));
}

static void test_metadata__first_header_of_a_name_is_found(void **state)
{
    (void)state;
    const struct af_span text =
        span_of("Name: a\nVERSION: 1\nVersion: 2\nEmpty:\n\nSummary: body\n");
    struct af_span value = {"before", 6};
    assert_false(af_header_find(text, "Summary", &value));
    assert_true(af_text_span_equal(value, "before"));
    assert_true(af_header_find(text, "Version", &value));
    assert_true(af_text_span_equal(value, "1"));
    assert_true(af_header_find(text, "empty", &value));
    assert_int_equal(value.len, 0);
}

static void test_metadata__requirements_are_read_in_turn(void **state)
{
    (void)state;
    struct af_span rest = span_of("Requires-Dist: torch >=2.4 ; extra == 'x'\n"
                                  "Requires-Dist: -r x.txt\nRequires-Python: >=3.9\n"
                                  "requires-dist: einops\n\nRequires-Dist: body\n");
    struct af_requirement found;
    assert_true(af_requirement_next(&rest, &found));
    assert_true(af_text_span_equal(found.text, "torch >=2.4 ; extra == 'x'"));
    assert_true(af_text_span_equal(found.specifier, ">=2.4"));
    assert_true(af_requirement_next(&rest, &found));
    assert_true(af_text_span_equal(found.text, "einops"));
    assert_false(af_requirement_next(&rest, &found));
}

struct requirement_case {
    const char *text;
    const char *name;
    const char *specifier;
    bool has_marker;
    bool only_for_extra;
};

static void test_metadata__requirement_in_every_shape(void **state)
{
    (void)state;
    static const struct requirement_case cases[] = {
        {"torch", "torch", "", false, false},
        {"torch (>=1.7.0)", "torch", ">=1.7.0", false, false},
        {"torch==2.8.*", "torch", "==2.8.*", false, false},
        {"torch[opt]  >=2.4, <3 ; python_version > \"3.8\"", "torch", ">=2.4, <3", true, false},
        {"flash-attn<=2.8.3,>=2.7.1; extra == 'flash'", "flash-attn", "<=2.8.3,>=2.7.1", true,
         true},
        {"a; platform_system == 'extra'", "a", "", true, false},
        {"thing @ https://example.org/x.whl ; os_name == 'nt'", "thing", "", true, false},
    };
    for (size_t i = 0; i < AF_COUNT(cases); i++) {
        struct af_requirement found;
        assert_true(af_requirement_parse(span_of(cases[i].text), &found));
        assert_true(af_text_span_equal(found.name, cases[i].name));
        assert_true(af_text_span_equal(found.specifier, cases[i].specifier));
        assert_int_equal(found.has_marker, cases[i].has_marker);
        assert_int_equal(found.only_for_extra, cases[i].only_for_extra);
    }
}

/* pip would fetch or build some of these. */
static void test_metadata__addresses_and_files_are_no_requirements(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",           "(>=1)",   "a[b", "file:///tmp/x", "git+https://h/r",
        "http://h/x", "x/",      "x/y", "x.whl",         "x.tar.gz",
        "x.ZIP",      "x (2.0)", "x>=", "x>=1/../y",     "x>=1 -r y",
        "x==1,y",     "x ./y",   "x:y", "x[a]/y",        "x.tar.bz2>=1",
    };
    struct af_requirement found;
    for (size_t i = 0; i < AF_COUNT(texts); i++)
        if (af_requirement_parse(span_of(texts[i]), &found))
            fail_msg("'%s' is a requirement", texts[i]);
}

static void test_metadata__record_path_may_be_quoted(void **state)
{
    (void)state;
    struct af_span rest =
        span_of("a/b.so,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,42\n"
                "\"x,\"\"y\"\".py\",sha256=bad,\n\n,,\nz/RECORD,,\n");
    struct af_formats_record_line line;
    assert_true(af_formats_record_next(&rest, &line));
    assert_string_equal(line.path, "a/b.so");
    assert_string_equal(line.sha256,
                        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_int_equal(line.size_bytes, 42);
    assert_true(af_formats_record_next(&rest, &line));
    assert_string_equal(line.path, "x,\"y\".py");
    assert_string_equal(line.sha256, "");
    assert_int_equal(line.size_bytes, -1);
    assert_true(af_formats_record_next(&rest, &line));
    assert_string_equal(line.path, "z/RECORD");
    assert_false(af_formats_record_next(&rest, &line));
}

static void test_metadata__key_value_takes_the_first(void **state)
{
    (void)state;
    struct af_span value;
    struct af_span text = span_of("# home\nHome = /a b \nhome=/c\nempty =\n");
    assert_true(af_formats_key_value(text, "home", &value));
    assert_true(af_text_span_equal(value, "/a b"));
    assert_true(af_formats_key_value(text, "empty", &value));
    assert_int_equal(value.len, 0);
    assert_false(af_formats_key_value(text, "absent", &value));
}

static void check_url(const char *document, const char *expected)
{
    struct af_arena arena;
    const char *url = "untouched";
    af_arena_init(&arena);
    assert_int_equal(af_direct_url_parse(&arena, span_of(document), "t", &url, NULL),
                     ANYFLASH_OK);
    if (expected == NULL)
        assert_null(url);
    else
        assert_string_equal(url, expected);
    af_arena_release(&arena);
}

static void test_metadata__direct_url_loses_credentials(void **state)
{
    (void)state;
    check_url("{\"url\":\"https://me:pw@h.org/a.whl?token=1#sha256=0\",\"archive_info\":{}}",
              "https://h.org/a.whl#sha256=0");
    check_url("{\"url\":\"https://a@b@h.org/x@1\"}", "https://h.org/x@1");
    check_url("{\"url\":\"file:///a/b.whl\"}", "file:///a/b.whl");
    check_url("{\"url\":\"https://t@h.org/r.git\",\"vcs_info\":{\"vcs\":\"git\","
              "\"commit_id\":\"abc\"}}",
              "git+https://h.org/r.git@abc");
    check_url("{\"url\":3}", NULL);
    check_url("[]", NULL);
}

static void test_metadata__direct_url_that_is_not_json_is_an_error(void **state)
{
    (void)state;
    struct af_arena arena;
    struct anyflash_error err = {0};
    const char *url;
    af_arena_init(&arena);
    assert_int_equal(af_direct_url_parse(&arena, span_of("{"), "d.json", &url, &err),
                     ANYFLASH_E_DATA);
    assert_non_null(strstr(err.message, "d.json"));
    af_arena_release(&arena);
}

static void test_metadata__uv_build_names_the_torch_of_the_build(void **state)
{
    (void)state;
    struct af_arena arena;
    const char *found = "untouched";
    af_arena_init(&arena);
    const char *text = "{\"extra_build_requires\":[{\"requirement\":{\"name\":\"ninja\"}},"
                       "{\"requirement\":{\"name\":\"Torch\",\"specifier\":\"==2.8.0\"}}]}";
    assert_int_equal(af_uv_build_torch(&arena, span_of(text), "t", &found, NULL), ANYFLASH_OK);
    assert_string_equal(found, "==2.8.0");
    assert_int_equal(af_uv_build_torch(&arena, span_of("{}"), "t", &found, NULL), ANYFLASH_OK);
    assert_null(found);
    af_arena_release(&arena);
}

static void test_names__normalised_as_pep_503(void **state)
{
    (void)state;
    char buffer[32];
    assert_true(af_name_normalise(span_of("Flash__Attn.-3"), buffer, sizeof buffer));
    assert_string_equal(buffer, "flash-attn-3");
    assert_true(af_name_is(span_of("FLASH_attn"), "flash-attn"));
    assert_false(af_name_is(span_of("flashattn"), "flash-attn"));
    assert_false(af_name_normalise(span_of("abcdef"), buffer, 4));
    assert_string_equal(buffer, "");
}

static int start(void **state)
{
    (void)state;
    af_json_start();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_metadata__folders_state_name_and_version),
        cmocka_unit_test(test_metadata__headers_end_at_the_empty_line),
        cmocka_unit_test(test_metadata__first_header_of_a_name_is_found),
        cmocka_unit_test(test_metadata__requirements_are_read_in_turn),
        cmocka_unit_test(test_metadata__requirement_in_every_shape),
        cmocka_unit_test(test_metadata__addresses_and_files_are_no_requirements),
        cmocka_unit_test(test_metadata__record_path_may_be_quoted),
        cmocka_unit_test(test_metadata__key_value_takes_the_first),
        cmocka_unit_test(test_metadata__direct_url_loses_credentials),
        cmocka_unit_test(test_metadata__direct_url_that_is_not_json_is_an_error),
        cmocka_unit_test(test_metadata__uv_build_names_the_torch_of_the_build),
        cmocka_unit_test(test_names__normalised_as_pep_503),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
