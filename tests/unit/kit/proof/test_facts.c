/*
 * test_facts.c: facts of real files are the same after being stored; damaged
 * facts are skipped; the facts of a file that has changed are not used; a failed
 * allocation at worst loses facts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "kit/proof/wheel_facts.h"
#include "kit/system/database.h"
#include "kit/system/file.h"
#include "kit/system/state_facts.h"
#include "tests/unit/every_allocation.h"
#include "tests/unit/kit/binary_file.h"

#define SHA "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define LIBRARY AF_TEST_SEEDS "/fuzz_binary/small.so"
#define GPU_CODE AF_TEST_DATA "/data/gpu/"
#define FLASH AF_TEST_SEEDS "/fuzz_facts/flash.json"

static char in_memory[] = "/dev/shm/anyflash-facts-XXXXXX";
static const char *folder;
static struct af_arena arena;

static int make_folder(void **state)
{
    (void)state;
    af_json_start();
    af_database_start();
    folder = mkdtemp(in_memory);
    return folder == NULL || setenv("ANYFLASH_STATE", folder, 1) != 0;
}

static int remove_folder(void **state)
{
    char path[80];
    (void)state;
    snprintf(path, sizeof path, "%s/state.db", folder);
    unlink(path);
    return rmdir(folder);
}

static int begin(void **state)
{
    (void)state;
    af_arena_init(&arena);
    return 0;
}

static int end(void **state)
{
    (void)state;
    af_arena_release(&arena);
    return 0;
}

static struct af_facts read_facts(const char *gpu_file)
{
    struct af_facts facts = {.gpu_code = NULL};
    struct af_gpu_code *code = af_arena_alloc(&arena, sizeof *code);
    struct af_flash_kernels *kernels = af_arena_alloc(&arena, sizeof *kernels);
    struct af_source source;
    struct af_span bytes;
    assert_int_equal(read_binary_file(&arena, LIBRARY, &facts.binary, NULL), ANYFLASH_OK);
    if (gpu_file == NULL)
        return facts;
    const char *path = af_path_join(&arena, GPU_CODE, gpu_file);
    bool is_section = strstr(gpu_file, ".fatbin") != NULL;
    assert_int_equal(af_file_read(&arena, path, 1u << 20, &bytes, NULL), ANYFLASH_OK);
    assert_int_equal(af_gpu_code_read_bytes(&arena, bytes, gpu_file, is_section, code, NULL),
                     ANYFLASH_OK);
    af_source_of_bytes(bytes, gpu_file, &source);
    assert_int_equal(af_flash_kernels_read(&arena, &source, code, kernels, NULL), ANYFLASH_OK);
    af_source_close(&source);
    facts.gpu_code = code;
    facts.kernels = kernels;
    return facts;
}

static struct af_state *open_state(enum af_state_use use)
{
    struct af_state *state;
    const char *remark;
    assert_int_equal(af_state_open(use, &arena, &state, &remark, NULL), ANYFLASH_OK);
    return state;
}

static void keep(struct af_state *state, const struct af_facts *facts)
{
    assert_true(af_state_facts_begin(state));
    af_facts_put(state, SHA, facts);
    af_state_facts_commit(state);
}

static void assert_same_texts(const char *a, const char *b)
{
    assert_int_equal(a == NULL, b == NULL);
    if (a != NULL)
        assert_string_equal(a, b);
}

/* Stored numbers are compared as JSON, what is derived from them here. */
static void assert_same(const struct af_facts *a, const struct af_facts *b)
{
    json_t *x = af_facts_to_json(a);
    json_t *y = af_facts_to_json(b);
    assert_true(json_equal(x, y));
    json_decref(x);
    json_decref(y);
    assert_int_equal(a->gpu_code == NULL, b->gpu_code == NULL);
    assert_int_equal(a->kernels == NULL, b->kernels == NULL);
    if (a->gpu_code == NULL)
        return;
    assert_int_equal(a->gpu_code->target_count, b->gpu_code->target_count);
    assert_int_equal(a->gpu_code->empty_count, b->gpu_code->empty_count);
    assert_int_equal(a->gpu_code->relocatable_image_count,
                     b->gpu_code->relocatable_image_count);
    assert_same_texts(a->gpu_code->problem, b->gpu_code->problem);
    for (size_t i = 0; i < a->gpu_code->target_count; i++) {
        char one[AF_GPU_TARGET_TEXT];
        char other[AF_GPU_TARGET_TEXT];
        assert_string_equal(af_gpu_target_text(&a->gpu_code->targets[i], one),
                            af_gpu_target_text(&b->gpu_code->targets[i], other));
        assert_int_equal(a->gpu_code->targets[i].stored_bytes,
                         b->gpu_code->targets[i].stored_bytes);
        assert_int_equal(a->gpu_code->targets[i].container_count,
                         b->gpu_code->targets[i].container_count);
    }
}

static void test_facts__are_the_same_after_they_were_kept(void **unused)
{
    static const char *const files[] = {
        NULL,         "targets.fatbin", "lz4.fatbin", "zstd.fatbin", "data_only.fatbin",
        "lto.fatbin", "linked.so",      "rdc.o"};
    (void)unused;
    struct af_state *state = open_state(AF_STATE_FACTS);
    for (size_t i = 0; i < AF_COUNT(files); i++) {
        struct af_facts again;
        struct af_facts facts = read_facts(files[i]);
        keep(state, &facts);
        assert_true(af_facts_get(state, SHA, facts.binary.name, &arena, &again));
        assert_same(&facts, &again);
        assert_false(af_facts_get(state, SHA, "other.so", &arena, &again));
    }
    af_state_close(state);
}

/* GPU code of a real flash-attn, in the form that is written today, whatever its schema. */
static json_t *flash_json(void)
{
    json_t *json;
    struct af_facts facts = read_facts(NULL);
    assert_int_equal(af_file_read_json(FLASH, 1u << 20, &json, NULL), ANYFLASH_OK);
    json_object_set_new(json, "binary", af_binary_to_json(&facts.binary));
    return json;
}

static void test_facts__of_flash_attention_kernels_come_back(void **unused)
{
    struct af_facts facts;
    struct af_facts again;
    (void)unused;
    json_t *json = flash_json();
    assert_int_equal(af_facts_from_json(&arena, json, &facts), ANYFLASH_OK);
    json_decref(json);
    assert_true(facts.kernels->family_count > 10);
    assert_ptr_equal(facts.kernels->families[0].kernel.dtype, af_flash_dtype_find("bf16"));
    struct af_state *state = open_state(AF_STATE_FACTS);
    keep(state, &facts);
    assert_true(af_facts_get(state, SHA, facts.binary.name, &arena, &again));
    assert_same(&facts, &again);
    af_state_close(state);
}

/* One change to the JSON of a real library. */
struct damage {
    const char *name;
    void (*make)(json_t *json);
};

static json_t *row(json_t *json, const char *part, const char *list, size_t at)
{
    return json_array_get(json_object_get(json_object_get(json, part), list), at);
}

static void put_first_image(json_t *json)
{
    json_array_set_new(row(json, "gpu_code", "containers", 0), 1, json_integer(1));
}

static void put_more_images(json_t *json)
{
    json_array_set_new(row(json, "gpu_code", "containers", 0), 2, json_integer(499999));
}

static void put_container_of_image(json_t *json)
{
    json_array_set_new(row(json, "gpu_code", "images", 0), 3, json_integer(1));
}

static void put_kind(json_t *json)
{
    json_array_set_new(row(json, "gpu_code", "images", 0), 9, json_integer(4));
}

static void put_suffix(json_t *json)
{
    json_array_set_new(row(json, "gpu_code", "images", 0), 5, json_integer(10));
}

static void put_offset(json_t *json)
{
    json_array_set_new(row(json, "gpu_code", "images", 0), 0, json_integer(-1));
}

static void put_operation(json_t *json)
{
    json_object_set_new(row(json, "kernels", "families", 0), "operation", json_integer(5));
}

static void put_dtype(json_t *json)
{
    json_object_set_new(row(json, "kernels", "families", 0), "dtype", json_string("fp4"));
}

static void put_family_container(json_t *json)
{
    json_array_append_new(json_object_get(row(json, "kernels", "families", 0), "containers"),
                          json_integer(1000000));
}

static void put_family_order(json_t *json)
{
    json_t *list = json_object_get(row(json, "kernels", "families", 0), "containers");
    json_array_append_new(list, json_integer(0));
    json_array_append_new(list, json_integer(0));
}

static void drop_gpu_code(json_t *json)
{
    json_object_set_new(json, "gpu_code", json_null());
}

static void drop_kernels(json_t *json)
{
    json_object_del(json, "kernels");
}

static void put_needed(json_t *json)
{
    json_array_append_new(json_object_get(json_object_get(json, "binary"), "needed"),
                          json_null());
}

static void test_facts__that_are_damaged_are_passed_over(void **unused)
{
    static const struct damage all[] = {
        {"first image", put_first_image},
        {"more images", put_more_images},
        {"container of an image", put_container_of_image},
        {"kind", put_kind},
        {"suffix", put_suffix},
        {"offset", put_offset},
        {"operation", put_operation},
        {"dtype", put_dtype},
        {"container of a family", put_family_container},
        {"order of containers", put_family_order},
        {"no GPU code", drop_gpu_code},
        {"no kernels", drop_kernels},
        {"needed", put_needed},
    };
    (void)unused;
    for (size_t i = 0; i < AF_COUNT(all); i++) {
        struct af_facts facts;
        json_t *json = flash_json();
        all[i].make(json);
        if (af_facts_from_json(&arena, json, &facts) != ANYFLASH_E_DATA)
            fail_msg("accepted: %s", all[i].name);
        json_decref(json);
    }
}

static void test_facts__escapes_do_not_reach_the_terminal(void **unused)
{
    struct af_facts facts;
    (void)unused;
    json_t *json = flash_json();
    json_object_set_new(json_object_get(json, "binary"), "soname", json_string("\x1b[2Jevil"));
    assert_int_equal(af_facts_from_json(&arena, json, &facts), ANYFLASH_OK);
    assert_null(strchr(facts.binary.soname, '\x1b'));
    json_decref(json);
}

static void test_facts__that_are_no_json_are_passed_over(void **unused)
{
    static const char *const texts[] = {"", "{", "[]", "{}", "null", "\xff\xfe", "{\"a\":1}x"};
    struct af_facts facts;
    (void)unused;
    struct af_state *state = open_state(AF_STATE_FACTS);
    for (size_t i = 0; i < AF_COUNT(texts); i++) {
        assert_true(af_state_facts_begin(state));
        af_state_facts_put(state, SHA, "small.so", AF_FACTS_SCHEMA,
                           (struct af_span){texts[i], strlen(texts[i])});
        af_state_facts_commit(state);
        assert_false(af_facts_get(state, SHA, "small.so", &arena, &facts));
    }
    af_state_close(state);
}

static const char *write_file(const char *name, const char *content)
{
    const char *path = af_path_join(&arena, folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(content, file);
    fclose(file);
    return path;
}

/* Longer than the clock of the file system may take to advance. */
static void wait_for_the_clock(void)
{
    const struct timespec time = {0, 150000000};
    nanosleep(&time, NULL);
}

static void test_place__a_file_of_the_same_size_and_time_is_another(void **unused)
{
    struct stat status;
    (void)unused;
    const char *path = write_file("a.so", "one");
    wait_for_the_clock();
    struct af_place place = af_place_of_file(&arena, path);
    assert_true(af_place_holds(&arena, &place));
    assert_int_equal(stat(path, &status), 0);
    write_file("a.so", "two");
    const struct timespec times[2] = {status.st_atim, status.st_mtim};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    assert_false(af_place_holds(&arena, &place));
    unlink(path);
}

static void test_place__a_file_that_took_its_name_is_another(void **unused)
{
    (void)unused;
    const char *path = write_file("a.so", "one");
    const char *other = write_file("b.so", "two");
    wait_for_the_clock();
    struct af_place place = af_place_of_file(&arena, path);
    assert_int_equal(rename(other, path), 0);
    assert_false(af_place_holds(&arena, &place));
    unlink(path);
    assert_false(af_place_holds(&arena, &place));
}

static void test_place__what_was_just_written_is_not_kept(void **unused)
{
    (void)unused;
    const char *path = write_file("a.so", "one");
    struct af_place place = af_place_of_file(&arena, path);
    assert_non_null(place.identity);
    assert_false(af_place_holds(&arena, &place));
    unlink(path);
}

static void test_place__only_regular_files_have_one(void **unused)
{
    (void)unused;
    struct af_place of_folder = af_place_of_file(&arena, folder);
    struct af_place of_device = af_place_of_file(&arena, "/dev/null");
    struct af_place of_nothing = af_place_of_file(&arena, "/nowhere/at/all");
    assert_null(of_folder.identity);
    assert_null(of_device.identity);
    assert_null(of_nothing.identity);
}

#define URL "https://user:secret@host/a%2Bb.whl?token=secret#sha256=1"

static void test_place__an_address_is_known_by_its_validators(void **unused)
{
    (void)unused;
    struct af_place a = af_place_of_address(&arena, URL, "\"1\"", "", 7);
    struct af_place same = af_place_of_address(&arena, URL, "\"1\"", "", 7);
    struct af_place etag = af_place_of_address(&arena, URL, "\"2\"", "", 7);
    struct af_place size = af_place_of_address(&arena, URL, "\"1\"", "", 8);
    struct af_place dated = af_place_of_address(&arena, URL, "W/\"1\"", "today", 7);
    struct af_place weak = af_place_of_address(&arena, URL, "W/\"1\"", "", 7);
    assert_string_equal(a.identity, same.identity);
    assert_string_not_equal(a.identity, etag.identity);
    assert_string_not_equal(a.identity, size.identity);
    assert_non_null(dated.identity);
    assert_null(weak.identity);
}

static void test_place__keeps_no_secret_of_an_address(void **unused)
{
    (void)unused;
    struct af_place place = af_place_of_address(&arena, URL, "\"1\"", "", 7);
    struct af_place plus = af_place_of_address(&arena, "https://host/a+b.whl", "\"1\"", "", 7);
    assert_string_equal(place.name, "https://host/a%2Bb.whl");
    assert_string_equal(plus.name, place.name);
    assert_null(strstr(place.identity, "secret"));
}

/* A wheel at a URL, with one library that is known and one that is not. */
static void test_facts_find__tells_what_is_known_without_reading(void **unused)
{
    struct af_proof_known known;
    (void)unused;
    struct af_state *state = open_state(AF_STATE_FACTS);
    struct af_facts facts = read_facts("linked.so");
    struct af_place place = af_place_of_address(&arena, URL, "\"1\"", "", 7);
    struct af_state_seen seen = {"pkg/small.so", SHA};
    assert_false(af_facts_find(state, "https://host/a+b.whl", &arena, &known));
    keep(state, &facts);
    assert_true(af_state_facts_begin(state));
    af_state_place_put(state, place.name, place.identity, &seen, 2);
    af_state_facts_commit(state);
    assert_true(af_facts_find(state, "https://host/a+b.whl", &arena, &known));
    assert_int_equal(known.count, 1);
    assert_false(known.is_whole);
    assert_string_equal(known.libraries[0].path, "pkg/small.so");
    assert_same(&known.libraries[0].facts, &facts);
    assert_false(af_facts_find(NULL, URL, &arena, &known));
    af_state_close(state);
}

static void test_facts__survive_every_lack_of_memory(void **unused)
{
    struct af_proof_known known;
    (void)unused;
    struct af_facts facts = read_facts("linked.so");
    const char *path = write_file("a.so", "one");
    struct every_allocation each = {.nth = 0};
    while (every_allocation_next(&each)) {
        each.all_after = each.nth % 2 == 0;
        struct af_arena own;
        struct af_state *state = open_state(AF_STATE_FACTS);
        af_arena_init(&own);
        every_allocation_begin(&each);
        struct af_place place = af_place_of_file(&own, path);
        const char *hash =
            place.identity == NULL ? NULL : af_place_hash(&own, &place, "small.so");
        if (hash != NULL && af_state_facts_begin(state)) {
            struct af_state_seen seen = {"small.so", hash};
            af_facts_put(state, hash, &facts);
            af_state_place_put(state, place.name, place.identity, &seen, 1);
            af_state_facts_commit(state);
        }
        bool found = af_facts_find(state, path, &own, &known);
        every_allocation_end(&each);
        if (found && known.is_whole)
            assert_same(&known.libraries[0].facts, &facts);
        assert_true(found || each.failed);
        af_state_close(state);
        af_arena_release(&own);
    }
    unlink(path);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(test_facts__are_the_same_after_they_were_kept),
        TEST(test_facts__of_flash_attention_kernels_come_back),
        TEST(test_facts__that_are_damaged_are_passed_over),
        TEST(test_facts__escapes_do_not_reach_the_terminal),
        TEST(test_facts__that_are_no_json_are_passed_over),
        TEST(test_place__a_file_of_the_same_size_and_time_is_another),
        TEST(test_place__a_file_that_took_its_name_is_another),
        TEST(test_place__what_was_just_written_is_not_kept),
        TEST(test_place__only_regular_files_have_one),
        TEST(test_place__an_address_is_known_by_its_validators),
        TEST(test_place__keeps_no_secret_of_an_address),
        TEST(test_facts_find__tells_what_is_known_without_reading),
        TEST(test_facts__survive_every_lack_of_memory),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
