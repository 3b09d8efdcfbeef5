/*
 * test_catalog.c: the embedded catalog against the rows of data/wheels.jsonl,
 * and how a catalog file with bad rows is rejected.
 */
#include "kit/base/json.h"
#include "kit/base/text.h"
#include "kit/catalog/catalog.h"
#include "kit/catalog/catalog_list.h"
#include "kit/catalog/catalog_pack.h"
#include "kit/probe/probe.h"
#include "kit/system/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ROWS 8729
#define DATA_FILE AF_TEST_DATA "/../data/wheels.jsonl"
#define GOOD_ROW_TAIL                                                                          \
    "\"source\":\"a/b\",\"package\":\"flash_attn\",\"version\":\"2.8.3\","                     \
    "\"filename\":\"flash_attn-2.8.3-cp312-cp312-linux_x86_64.whl\",\"python\":\"cp312\","     \
    "\"abi\":\"cp312\",\"platform\":\"linux_x86_64\"}\n"
#define GOOD_ROW "{" GOOD_ROW_TAIL

static int start_json(void **state)
{
    (void)state;
    af_json_start();
    return 0;
}

static void assert_text(const char *text, const json_t *row, const char *key)
{
    const char *wanted = json_string_value(json_object_get(row, key));
    if (wanted == NULL)
        assert_null(text);
    else
        assert_string_equal(text, wanted);
}

static void assert_answer(enum af_answer answer, const json_t *row, const char *key)
{
    const json_t *value = json_object_get(row, key);
    enum af_answer wanted = !json_is_boolean(value) ? AF_UNKNOWN
                            : json_is_true(value)   ? AF_YES
                                                    : AF_NO;
    assert_int_equal(answer, wanted);
}

static void assert_hash(const struct af_catalog_wheel *wheel, const json_t *row)
{
    struct af_arena arena;
    af_arena_init(&arena);
    assert_text(af_catalog_sha256(&arena, wheel), row, "sha256");
    af_arena_release(&arena);
}

static void assert_row(const struct af_catalog_wheel *wheel, const json_t *row)
{
    assert_hash(wheel, row);
    assert_text(wheel->filename, row, "filename");
    assert_text(wheel->url, row, "url");
    assert_text(wheel->source, row, "source");
    assert_text(wheel->release_tag, row, "release_tag");
    assert_text(wheel->package, row, "package");
    assert_text(wheel->version, row, "version");
    assert_text(wheel->local, row, "local");
    assert_text(wheel->python, row, "python");
    assert_text(wheel->abi, row, "abi");
    assert_text(wheel->platform, row, "platform");
    assert_text(wheel->cuda, row, "cuda");
    assert_text(wheel->torch, row, "torch");
    assert_text(wheel->torch_build_cuda, row, "torch_build_cuda");
    assert_text(wheel->cuda_toolkit, row, "cuda_toolkit");
    assert_text(wheel->glibc_min, row, "glibc_min");
    assert_text(wheel->glibc_basis, row, "glibc_basis");
    assert_text(wheel->sm_basis, row, "sm_basis");
    assert_text(wheel->note, row, "note");
    assert_answer(wheel->cxx11abi, row, "cxx11abi");
    assert_answer(wheel->cxx11abi_effective, row, "cxx11abi_effective");
    assert_answer(wheel->metadata_has_local, row, "metadata_has_local");
    assert_int_equal(wheel->official, json_object_get(row, "kind") != NULL);
    assert_int_equal(wheel->valid_name, !json_is_false(json_object_get(row, "valid_name")));
    assert_int_equal(wheel->rocm, json_object_get(row, "gpu") != NULL);
    assert_int_equal(wheel->listed, strcmp(json_string_value(json_object_get(row, "evidence")),
                                           "listed") == 0);
}

static void assert_sm(const struct af_catalog_wheel *wheel, const json_t *row)
{
    const json_t *list = json_object_get(row, "sm");
    struct af_text joined = {0};
    for (size_t i = 0; i < json_array_size(list); i++)
        af_text_format(&joined, "%s%s", i == 0 ? "" : " ",
                       json_string_value(json_array_get(list, i)));
    if (json_array_size(list) == 0)
        assert_null(wheel->sm);
    else
        assert_string_equal(wheel->sm, af_text_get(&joined));
    af_text_release(&joined);
}

static void test_catalog__embedded_equals_the_data_row_by_row(void **state)
{
    struct af_catalog catalog;
    struct af_arena arena;
    struct af_span rest, line;
    size_t at = 0;
    (void)state;
    af_arena_init(&arena);
    assert_int_equal(af_catalog_load_embedded(&catalog, NULL), ANYFLASH_OK);
    assert_int_equal(af_file_read(&arena, DATA_FILE, AF_CATALOG_BYTES_MAX, &rest, NULL),
                     ANYFLASH_OK);
    while (af_text_line(&rest, &line)) {
        json_t *row = json_loadb(line.data, line.len, 0, NULL);
        assert_non_null(row);
        if (json_object_get(row, "catalog_date") != NULL) {
            assert_text(catalog.date, row, "catalog_date");
        } else {
            assert_true(at < catalog.count);
            assert_row(&catalog.wheels[at], row);
            assert_sm(&catalog.wheels[at++], row);
        }
        json_decref(row);
    }
    assert_int_equal(at, ROWS);
    assert_int_equal(catalog.count, ROWS);
    af_arena_release(&arena);
    af_catalog_release(&catalog);
}

static void test_catalog__file_in_its_place_gives_the_same(void **state)
{
    struct af_catalog embedded, file;
    (void)state;
    assert_int_equal(af_catalog_load_embedded(&embedded, NULL), ANYFLASH_OK);
    assert_int_equal(af_probe_catalog(&file, DATA_FILE, NULL), ANYFLASH_OK);
    assert_int_equal(file.count, embedded.count);
    assert_string_equal(file.name, DATA_FILE);
    for (size_t i = 0; i < file.count; i++) {
        const struct af_catalog_wheel *a = &file.wheels[i];
        const struct af_catalog_wheel *b = &embedded.wheels[i];
        assert_string_equal(a->filename, b->filename);
        assert_int_equal(a->version_rank, b->version_rank);
        assert_int_equal(a->torch_minor, b->torch_minor);
        assert_int_equal(a->cuda_minor, b->cuda_minor);
        assert_int_equal(a->python_minor, b->python_minor);
        assert_int_equal(a->glibc_minor, b->glibc_minor);
    }
    af_catalog_release(&file);
    af_catalog_release(&embedded);
}

static void test_catalog__numbers_are_those_of_the_texts(void **state)
{
    struct af_catalog catalog;
    bool seen = false;
    (void)state;
    assert_int_equal(af_catalog_load_embedded(&catalog, NULL), ANYFLASH_OK);
    for (size_t i = 0; i < catalog.count; i++) {
        const struct af_catalog_wheel *wheel = &catalog.wheels[i];
        if (strcmp(wheel->filename, "flash_attn-2.8.3+cu12torch2.8cxx11abiTRUE-cp312-cp312-"
                                    "linux_x86_64.whl") != 0 ||
            !wheel->official)
            continue;
        seen = true;
        assert_int_equal(wheel->torch_major, 2);
        assert_int_equal(wheel->torch_minor, 8);
        assert_int_equal(wheel->torch_patch, -1);
        assert_int_equal(wheel->cuda_major, 12);
        assert_int_equal(wheel->cuda_minor, -1);
        assert_int_equal(wheel->python_minor, 12);
        assert_int_equal(wheel->glibc_minor, 32);
    }
    assert_true(seen);
    af_catalog_release(&catalog);
}

/* Reads rows from memory; the arena is released, so only the answer counts. */
static enum anyflash_status read_rows(const char *rows, struct anyflash_error *err)
{
    struct af_arena arena;
    const struct af_catalog_wheel *wheels;
    const char *date;
    size_t count;
    af_arena_init(&arena);
    enum anyflash_status status = af_catalog_rows_read(
        (struct af_span){rows, strlen(rows)}, "my.jsonl", &arena, &wheels, &count, &date, err);
    af_arena_release(&arena);
    return status;
}

static void assert_refused(const char *rows, const char *message)
{
    struct anyflash_error err = {0};
    assert_int_equal(read_rows(rows, &err), ANYFLASH_E_DATA);
    if (strstr(err.message, message) == NULL)
        fail_msg("'%s' does not say '%s'", err.message, message);
}

/* GOOD_ROW with one more key, which must be new because jansson rejects repeated keys. */
static void assert_key_refused(const char *key_value, const char *field)
{
    char rows[1024];
    snprintf(rows, sizeof rows, "%s{%s,%s", GOOD_ROW, key_value, GOOD_ROW_TAIL);
    assert_refused(rows, "line 2");
    assert_refused(rows, field);
}

static void test_catalog__bad_values_name_line_and_field(void **state)
{
    (void)state;
    assert_key_refused("\"torch\":\"two\"", "field 'torch'");
    assert_key_refused("\"torch\":\"2.8.1.9\"", "field 'torch'");
    assert_key_refused("\"cuda\":\"99999999999\"", "field 'cuda'");
    assert_key_refused("\"cuda\":12", "field 'cuda'");
    assert_key_refused("\"glibc_min\":\"2\"", "field 'glibc_min'");
    assert_key_refused("\"sm\":\"8.0\"", "field 'sm'");
    assert_key_refused("\"sm\":[]", "field 'sm'");
    assert_key_refused("\"sm\":[8.0]", "field 'sm'");
    assert_key_refused("\"cxx11abi\":\"TRUE\"", "field 'cxx11abi'");
    assert_key_refused("\"valid_name\":1", "field 'valid_name'");
    assert_key_refused("\"note\":\"\\u001b[31mred\"", "field 'note'");
    assert_key_refused("\"local\":\"\"", "field 'local'");
    assert_key_refused("\"url\":\"file:///etc/passwd\"", "field 'url'");
    assert_key_refused("\"url\":\"https://a/b;`id`\"", "field 'url'");
}

static void test_catalog__needed_fields_are_named_when_missing(void **state)
{
    (void)state;
    assert_refused("{}\n", "'my.jsonl' line 1, field 'filename': is missing");
    assert_refused("{\"filename\":\"a-1-py3-none-any.whl\"}\n", "field 'source'");
}

static void test_catalog__file_names_that_are_options_or_paths_are_refused(void **state)
{
    static const char *const names[] = {"--index-url=x.whl", "../a.whl", "a b.whl", "a.zip"};
    (void)state;
    for (size_t i = 0; i < AF_COUNT(names); i++) {
        char rows[512];
        snprintf(rows, sizeof rows,
                 "{\"filename\":\"%s\",\"source\":\"a\",\"package\":\"p\",\"version\":\"1\","
                 "\"python\":\"py3\",\"abi\":\"none\",\"platform\":\"any\"}\n",
                 names[i]);
        assert_refused(rows, "field 'filename'");
    }
}

static void test_catalog__lines_that_are_no_rows_name_their_place(void **state)
{
    (void)state;
    assert_refused(GOOD_ROW "{\"source\":\n", "my.jsonl:2");
    assert_refused("[1]\n", "line 1");
    assert_refused("\x7f\x45\x4c\x46\x02", "my.jsonl:1");
}

static void test_catalog__accepts_newer_keys_blank_lines_and_doubled_names(void **state)
{
    struct anyflash_error err = {0};
    (void)state;
    assert_int_equal(read_rows("{\"catalog_date\":\"2027-01-01\"}\n" GOOD_ROW
                               "\n  \r\n" GOOD_ROW
                               "{\"invented_later\":{\"a\":[1]}," GOOD_ROW_TAIL,
                               &err),
                     ANYFLASH_OK);
    assert_int_equal(read_rows("", &err), ANYFLASH_OK);
}

static void test_catalog__long_lines_and_too_many_wheels_are_limits(void **state)
{
    static char line[AF_CATALOG_LINE_BYTES_MAX + 11];
    struct af_arena arena;
    struct af_catalog_list list = {.arena = &arena};
    const struct af_catalog_wheel wheel = {.filename = "flash_attn-1-py3-none-any.whl",
                                           .source = "a",
                                           .package = "flash_attn",
                                           .version = "1",
                                           .python = "py3",
                                           .abi = "none",
                                           .platform = "any"};
    (void)state;
    memset(line, 'x', sizeof line - 1);
    assert_int_equal(read_rows(line, NULL), ANYFLASH_E_LIMIT);
    af_arena_init(&arena);
    for (size_t i = 0; i < AF_CATALOG_ROWS_MAX; i++)
        assert_int_equal(af_catalog_list_add(&list, &wheel, "here", NULL), ANYFLASH_OK);
    assert_int_equal(af_catalog_list_add(&list, &wheel, "here", NULL), ANYFLASH_E_LIMIT);
    af_catalog_list_release(&list);
    af_arena_release(&arena);
}

static void test_catalog__a_missing_file_is_not_found(void **state)
{
    struct af_catalog catalog;
    struct anyflash_error err = {0};
    (void)state;
    assert_int_equal(af_probe_catalog(&catalog, "/nowhere/wheels.jsonl", &err),
                     ANYFLASH_E_NOT_FOUND);
    assert_non_null(strstr(err.message, "/nowhere/wheels.jsonl"));
}

static void test_catalog__packed_bytes_cut_anywhere_are_refused(void **state)
{
    struct af_arena arena;
    struct af_text packed = {0};
    const struct af_catalog_wheel *wheels;
    const char *date;
    size_t count;
    (void)state;
    af_arena_init(&arena);
    assert_int_equal(af_catalog_rows_read((struct af_span){GOOD_ROW, sizeof GOOD_ROW - 1}, "a",
                                          &arena, &wheels, &count, &date, NULL),
                     ANYFLASH_OK);
    assert_int_equal(af_catalog_pack(wheels, count, "2026-01-01", &packed, NULL), ANYFLASH_OK);
    for (size_t len = 0; len < packed.len; len++)
        assert_int_equal(af_catalog_unpack((struct af_span){packed.data, len}, &arena, &wheels,
                                           &count, &date, NULL),
                         ANYFLASH_E_DATA);
    assert_int_equal(af_catalog_unpack((struct af_span){packed.data, packed.len}, &arena,
                                       &wheels, &count, &date, NULL),
                     ANYFLASH_OK);
    assert_int_equal(count, 1);
    assert_string_equal(date, "2026-01-01");
    assert_string_equal(wheels[0].version, "2.8.3");
    af_text_release(&packed);
    af_arena_release(&arena);
}

static void test_catalog__one_without_rows_packs_and_unpacks(void **state)
{
    struct af_arena arena;
    struct af_text packed = {0};
    const struct af_catalog_wheel *wheels;
    const char *date;
    size_t count = 1;
    (void)state;
    af_arena_init(&arena);
    assert_int_equal(af_catalog_pack(NULL, 0, NULL, &packed, NULL), ANYFLASH_OK);
    assert_int_equal(af_catalog_unpack((struct af_span){packed.data, packed.len}, &arena,
                                       &wheels, &count, &date, NULL),
                     ANYFLASH_OK);
    assert_int_equal(count, 0);
    assert_null(date);
    af_text_release(&packed);
    af_arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_catalog__embedded_equals_the_data_row_by_row),
        cmocka_unit_test(test_catalog__file_in_its_place_gives_the_same),
        cmocka_unit_test(test_catalog__numbers_are_those_of_the_texts),
        cmocka_unit_test(test_catalog__bad_values_name_line_and_field),
        cmocka_unit_test(test_catalog__needed_fields_are_named_when_missing),
        cmocka_unit_test(test_catalog__file_names_that_are_options_or_paths_are_refused),
        cmocka_unit_test(test_catalog__lines_that_are_no_rows_name_their_place),
        cmocka_unit_test(test_catalog__accepts_newer_keys_blank_lines_and_doubled_names),
        cmocka_unit_test(test_catalog__long_lines_and_too_many_wheels_are_limits),
        cmocka_unit_test(test_catalog__a_missing_file_is_not_found),
        cmocka_unit_test(test_catalog__packed_bytes_cut_anywhere_are_refused),
        cmocka_unit_test(test_catalog__one_without_rows_packs_and_unpacks),
    };
    return cmocka_run_group_tests(tests, start_json, NULL);
}
