/*
 * test_fatbin.c: GPU code of files that nvcc made (tests/data/gpu, by
 * tools/make_gpu_data.sh) and of containers made here byte by byte. Damage of
 * any kind only loses facts.
 */
#include "kit/base/text.h"
#include "kit/formats/fatbin.h"
#include "kit/system/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define DATA AF_TEST_DATA "/data/gpu/"
#define FILE_BYTES_MAX 100000u

static const char *const all_files[] = {
    "targets.fatbin", "lz4.fatbin", "zstd.fatbin", "data_only.fatbin",
    "lto.fatbin",     "linked.so",  "rdc.o"};

/* A file of tests/data/gpu in writable memory. */
static struct af_span load(struct af_arena *arena, const char *name)
{
    struct af_span bytes;
    char path[400];
    snprintf(path, sizeof path, "%s%s", DATA, name);
    assert_int_equal(af_file_read(arena, path, FILE_BYTES_MAX, &bytes, NULL), ANYFLASH_OK);
    return bytes;
}

static bool is_section(const char *name)
{
    return af_ends_with(name, ".fatbin");
}

static struct af_gpu_code read_named(struct af_arena *arena, const char *name)
{
    struct af_gpu_code code;
    assert_int_equal(
        af_gpu_code_read(arena, load(arena, name), name, is_section(name), &code, NULL),
        ANYFLASH_OK);
    return code;
}

/* Targets as "sm_80 sm_90a compute_90". */
static const char *targets(struct af_arena *arena, const struct af_gpu_code *code)
{
    const char *text = "";
    for (size_t i = 0; i < code->target_count; i++) {
        char one[AF_GPU_TARGET_TEXT];
        text = af_arena_format(arena, "%s%s%s", text, i == 0 ? "" : " ",
                               af_gpu_target_text(&code->targets[i], one));
    }
    return text;
}

static int begin(void **state)
{
    struct af_arena *arena = malloc(sizeof *arena);
    assert_non_null(arena);
    af_arena_init(arena);
    *state = arena;
    return 0;
}

static int end(void **state)
{
    af_arena_release(*state);
    free(*state);
    return 0;
}

static void test_fatbin__tells_suffixes_kinds_and_the_ptx_version(void **state)
{
    struct af_gpu_code code = read_named(*state, "targets.fatbin");
    assert_string_equal(targets(*state, &code), "sm_80 sm_90a sm_100f compute_90");
    assert_int_equal(code.targets[3].version_major, 9);
    assert_int_equal(code.targets[3].version_minor, 0);
    assert_int_equal(code.container_count, 1);
    assert_int_equal(code.wrapper_count, -1);
    assert_null(code.problem);
}

static void test_fatbin__tells_how_images_are_packed(void **state)
{
    struct af_gpu_code lz4 = read_named(*state, "lz4.fatbin");
    struct af_gpu_code zstd = read_named(*state, "zstd.fatbin");
    assert_string_equal(targets(*state, &lz4), "sm_80 compute_80");
    assert_int_equal(lz4.targets[0].lz4_count, 0);
    assert_int_equal(lz4.targets[1].lz4_count, 1);
    assert_string_equal(targets(*state, &zstd), "sm_86 compute_86");
    assert_int_equal(zstd.targets[0].zstd_count, 1);
    assert_int_equal(zstd.targets[1].zstd_count, 1);
}

static void test_fatbin__cubins_without_kernels_are_no_target(void **state)
{
    struct af_gpu_code data = read_named(*state, "data_only.fatbin");
    struct af_gpu_code linked = read_named(*state, "linked.so");
    assert_int_equal(data.target_count, 0);
    assert_int_equal(data.empty_count, 1);
    assert_string_equal(targets(*state, &linked), "sm_80");
    assert_int_equal(linked.empty_count, 1);
    assert_int_equal(linked.container_count, 3);
    assert_int_equal(linked.targets[0].container_count, 2);
}

static void test_fatbin__registered_containers_are_all_found(void **state)
{
    struct af_gpu_code code = read_named(*state, "linked.so");
    assert_int_equal(code.wrapper_count, (int64_t)code.container_count);
}

static void test_fatbin__relocatable_code_is_no_target(void **state)
{
    struct af_gpu_code code = read_named(*state, "rdc.o");
    assert_int_equal(code.target_count, 0);
    assert_int_equal(code.relocatable_container_count, 1);
    assert_int_equal(code.relocatable_image_count, 1);
}

static void test_fatbin__lists_ir_for_link_time_optimisation(void **state)
{
    struct af_gpu_code code = read_named(*state, "lto.fatbin");
    assert_string_equal(targets(*state, &code), "lto_80");
}

static void test_fatbin__searches_segments_of_a_stripped_library(void **state)
{
    struct af_span bytes = load(*state, "linked.so");
    unsigned char *stripped = (unsigned char *)(uintptr_t)bytes.data;
    struct af_gpu_code code;
    memset(stripped + 40, 0, 8); /* e_shoff */
    memset(stripped + 60, 0, 4); /* e_shnum, e_shstrndx */
    assert_int_equal(af_gpu_code_read(*state, bytes, "stripped", false, &code, NULL),
                     ANYFLASH_OK);
    assert_string_equal(targets(*state, &code), "sm_80");
    assert_int_equal(code.container_count, 3);
    assert_null(code.problem);
}

static void test_fatbin__a_library_without_gpu_code_has_none(void **state)
{
    struct af_gpu_code code;
    struct af_mapping mapping = {0};
    assert_int_equal(af_file_map(AF_TEST_SEEDS "/fuzz_elf/libtiny.so", &mapping, NULL),
                     ANYFLASH_OK);
    assert_int_equal(
        af_gpu_code_read(*state, af_mapping_bytes(&mapping), "file", false, &code, NULL),
        ANYFLASH_OK);
    af_file_unmap(&mapping);
    assert_int_equal(code.container_count, 0);
    assert_null(code.problem);
}

static void test_fatbin__what_is_no_elf_file_fails(void **state)
{
    struct anyflash_error err;
    struct af_gpu_code code;
    struct af_span text = {
        "#!/bin/sh\n: this is a script of more than a header's length ......", 66};
    assert_int_equal(af_gpu_code_read(*state, text, "script", false, &code, &err),
                     ANYFLASH_E_DATA);
    assert_non_null(strstr(err.message, "script"));
}

/* Little-endian bytes. */
static void put(unsigned char *at, uint64_t value, size_t len)
{
    for (size_t i = 0; i < len; i++)
        at[i] = (unsigned char)(value >> (8 * i));
}

#define MADE_HEADER_BYTES 96u
#define MADE_BYTES (16u + MADE_HEADER_BYTES + 24u)

/* A container with one image of `kind`, whose header is longer than any known one. */
static void make_container(unsigned char made[MADE_BYTES], unsigned kind, unsigned sm,
                           uint64_t flags)
{
    memset(made, 0, MADE_BYTES);
    put(made, 0xBA55ED50u, 4);
    put(made + 4, 1, 2);
    put(made + 6, 16, 2);
    put(made + 8, MADE_BYTES - 16, 8);
    unsigned char *image = made + 16;
    put(image, kind, 2);
    put(image + 2, 0x101, 2);
    put(image + 4, MADE_HEADER_BYTES, 4);
    put(image + 8, 24, 8);
    put(image + 28, sm, 4);
    put(image + 40, flags, 8);
}

static struct af_gpu_code read_made(struct af_arena *arena, const unsigned char *made,
                                    size_t len)
{
    struct af_gpu_code code;
    struct af_span bytes = {(const char *)made, len};
    assert_int_equal(af_gpu_code_read(arena, bytes, "made", true, &code, NULL), ANYFLASH_OK);
    return code;
}

static void test_fatbin__a_kind_that_is_not_known_is_listed(void **state)
{
    unsigned char made[MADE_BYTES];
    make_container(made, 64, 100, 0x11);
    struct af_gpu_code code = read_made(*state, made, sizeof made);
    assert_string_equal(targets(*state, &code), "kind 64 of 100");
    assert_null(code.problem);
}

static void test_fatbin__containers_may_be_apart_by_zeros(void **state)
{
    unsigned char made[2 * MADE_BYTES + 40] = {0};
    make_container(made, 1, 80, 0x11);
    make_container(made + MADE_BYTES + 40, 1, 90, 0x100011);
    struct af_gpu_code code = read_made(*state, made, sizeof made);
    assert_string_equal(targets(*state, &code), "compute_80 compute_90a");
    assert_null(code.problem);
}

static void test_fatbin__other_bytes_between_containers_are_a_problem(void **state)
{
    unsigned char made[2 * MADE_BYTES + 8] = {0};
    make_container(made, 1, 80, 0x11);
    put(made + MADE_BYTES, 0x1EE55A01u, 4); /* containers of CUDA 4 */
    make_container(made + MADE_BYTES + 8, 1, 90, 0x11);
    struct af_gpu_code code = read_made(*state, made, sizeof made);
    assert_string_equal(targets(*state, &code), "compute_80 compute_90");
    assert_non_null(code.problem);
}

static void test_fatbin__a_chain_that_does_not_end_exactly_is_a_problem(void **state)
{
    unsigned char made[MADE_BYTES];
    make_container(made, 1, 80, 0x11);
    put(made + 16 + 8, 16, 8); /* payload ends before the container */
    struct af_gpu_code code = read_made(*state, made, sizeof made);
    assert_int_equal(code.image_count, 0);
    assert_non_null(code.problem);
}

static void test_fatbin__every_truncation_of_a_section_loses_facts_only(void **state)
{
    for (size_t f = 0; f < AF_COUNT(all_files); f++) {
        struct af_span whole = load(*state, all_files[f]);
        if (!is_section(all_files[f]))
            continue;
        for (size_t len = 0; len < whole.len; len++) {
            struct af_gpu_code code = {0};
            struct af_arena arena;
            char *cut = malloc(len + 1); /* so that sanitizers see reads past the end */
            assert_non_null(cut);
            memcpy(cut, whole.data, len);
            af_arena_init(&arena);
            assert_int_equal(
                af_gpu_code_read(&arena, (struct af_span){cut, len}, "cut", true, &code, NULL),
                ANYFLASH_OK);
            assert_int_equal(code.image_count, 0);
            assert_true(code.problem != NULL || len < 16);
            af_arena_release(&arena);
            free(cut);
        }
    }
}

static void test_fatbin__every_truncation_of_a_library_loses_facts_only(void **state)
{
    struct af_gpu_code full = read_named(*state, "linked.so");
    struct af_span whole = load(*state, "linked.so");
    for (size_t len = 0; len < whole.len; len++) {
        struct af_gpu_code code = {0};
        struct af_arena arena;
        char *cut = malloc(len + 1);
        assert_non_null(cut);
        memcpy(cut, whole.data, len);
        af_arena_init(&arena);
        enum anyflash_status status =
            af_gpu_code_read(&arena, (struct af_span){cut, len}, "cut", false, &code, NULL);
        assert_true(status == ANYFLASH_OK || (status == ANYFLASH_E_DATA && len < 64));
        assert_true(code.image_count <= full.image_count);
        af_arena_release(&arena);
        free(cut);
    }
}

static void test_fatbin__unpacks_both_compressions(void **state)
{
    static const struct {
        const char *file;
        const char *target; /* of the PTX */
    } cases[] = {{"lz4.fatbin", ".target sm_80"}, {"zstd.fatbin", ".target sm_86"}};
    for (size_t i = 0; i < AF_COUNT(cases); i++) {
        struct af_gpu_code code = read_named(*state, cases[i].file);
        unsigned char *bytes = NULL;
        size_t len = 0;
        const struct af_gpu_image *ptx = &code.images[1];
        assert_int_equal(ptx->kind, AF_GPU_PTX);
        assert_int_equal(af_gpu_image_unpack(load(*state, cases[i].file), "packed", ptx,
                                             FILE_BYTES_MAX, &bytes, &len, NULL),
                         ANYFLASH_OK);
        assert_int_equal(len, ptx->raw_bytes);
        assert_non_null(memmem(bytes, len, cases[i].target, strlen(cases[i].target)));
        af_memory_free(bytes);
    }
}

static void test_fatbin__unpacks_no_more_than_it_is_told(void **state)
{
    struct af_gpu_code code = read_named(*state, "zstd.fatbin");
    struct af_gpu_image image = code.images[0];
    unsigned char *bytes = NULL;
    size_t len = 0;
    assert_int_equal(af_gpu_image_unpack(load(*state, "zstd.fatbin"), "packed", &image, 100,
                                         &bytes, &len, NULL),
                     ANYFLASH_E_LIMIT);
    image.raw_bytes += 8; /* the header is wrong */
    assert_int_equal(af_gpu_image_unpack(load(*state, "zstd.fatbin"), "packed", &image,
                                         FILE_BYTES_MAX, &bytes, &len, NULL),
                     ANYFLASH_E_DATA);
    image.raw_bytes = 0;
    assert_int_equal(af_gpu_image_unpack(load(*state, "zstd.fatbin"), "packed", &image,
                                         FILE_BYTES_MAX, &bytes, &len, NULL),
                     ANYFLASH_E_DATA);
    assert_null(bytes);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(test_fatbin__##name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(tells_suffixes_kinds_and_the_ptx_version),
        TEST(tells_how_images_are_packed),
        TEST(cubins_without_kernels_are_no_target),
        TEST(registered_containers_are_all_found),
        TEST(relocatable_code_is_no_target),
        TEST(lists_ir_for_link_time_optimisation),
        TEST(searches_segments_of_a_stripped_library),
        TEST(a_library_without_gpu_code_has_none),
        TEST(what_is_no_elf_file_fails),
        TEST(a_kind_that_is_not_known_is_listed),
        TEST(containers_may_be_apart_by_zeros),
        TEST(other_bytes_between_containers_are_a_problem),
        TEST(a_chain_that_does_not_end_exactly_is_a_problem),
        TEST(every_truncation_of_a_section_loses_facts_only),
        TEST(every_truncation_of_a_library_loses_facts_only),
        TEST(unpacks_both_compressions),
        TEST(unpacks_no_more_than_it_is_told),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
