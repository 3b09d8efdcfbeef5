/*
 * test_elf.c: ELF facts of two tiny files (seeds of fuzz_elf) and of
 * this program itself. Damage of any kind only loses facts.
 */
#include "kit/base/text.h"
#include "kit/formats/elf.h"
#include "kit/system/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TINY AF_TEST_SEEDS "/fuzz_elf/libtiny.so"
#define TINY_PROGRAM AF_TEST_SEEDS "/fuzz_elf/tinyexe"

static struct af_arena arena;

/* Maps a file and opens it; the mapping stays until the program ends. */
static struct af_span map(const char *path)
{
    struct af_mapping mapping;
    assert_int_equal(af_file_map(path, &mapping, NULL), ANYFLASH_OK);
    return (struct af_span){(const char *)mapping.data, mapping.len};
}

static void test_elf__reads_names_needs_and_runpath(void **state)
{
    (void)state;
    struct af_dynamic tiny;
    assert_int_equal(af_dynamic_read(&arena, map(TINY), TINY, &tiny, NULL), ANYFLASH_OK);
    assert_true(tiny.elf.is_64);
    assert_true(tiny.elf.is_little_endian);
    assert_string_equal(af_elf_machine_name(&tiny.elf), "x86_64");
    assert_string_equal(tiny.soname, "libtiny.so.1");
    assert_int_equal(tiny.needed_count, 1);
    assert_string_equal(tiny.needed[0], "libc.so.6");
    assert_string_equal(tiny.runpath, "$ORIGIN/../nvidia/lib");
    assert_null(tiny.rpath);
    assert_null(af_elf_interpreter(&tiny.elf));
}

static void test_elf__reads_the_interpreter_of_a_program(void **state)
{
    (void)state;
    struct af_elf elf;
    assert_int_equal(af_elf_open(map(TINY_PROGRAM), TINY_PROGRAM, &elf, NULL), ANYFLASH_OK);
    assert_string_equal(af_elf_interpreter(&elf), "/lib64/ld-linux-x86-64.so.2");
}

static void test_elf__tells_defined_from_needed_symbols(void **state)
{
    (void)state;
    struct af_dynamic tiny;
    struct af_symbol symbol;
    assert_int_equal(af_dynamic_read(&arena, map(TINY), TINY, &tiny, NULL), ANYFLASH_OK);
    assert_true(af_dynamic_find(&tiny, "tiny_new", NULL, &symbol));
    assert_false(af_dynamic_find(&tiny, "puts", NULL, &symbol));
    assert_true(af_dynamic_find(&tiny, "tiny_weak", NULL, &symbol));
    assert_false(af_dynamic_find(&tiny, "absent", NULL, &symbol));
}

static void test_elf__highest_version_compares_as_numbers(void **state)
{
    (void)state;
    struct af_dynamic tiny;
    assert_int_equal(af_dynamic_read(&arena, map(TINY), TINY, &tiny, NULL), ANYFLASH_OK);
    assert_string_equal(af_dynamic_version_max(&tiny, "TINY_", true), "1.10");
    assert_string_equal(af_dynamic_version_max(&tiny, "GLIBC_", false), "2.2.5");
    assert_null(af_dynamic_version_max(&tiny, "GLIBC_", true));
    assert_null(af_dynamic_version_max(&tiny, "GLIBCXX_", false));
}

static void test_elf__gives_the_bytes_of_a_section(void **state)
{
    (void)state;
    struct af_elf elf;
    struct af_span bytes;
    assert_int_equal(af_elf_open(map(TINY), TINY, &elf, NULL), ANYFLASH_OK);
    assert_true(af_elf_section_bytes(&elf, ".rodata", &bytes));
    assert_int_equal(bytes.len, 12);
    assert_string_equal(bytes.data, "sm_80 sm_90");
    assert_false(af_elf_section_bytes(&elf, ".nv_fatbin", &bytes));
    assert_false(af_elf_section_bytes(&elf, ".bss", &bytes));
}

static void test_elf__gives_the_bytes_of_a_symbol(void **state)
{
    (void)state;
    struct af_dynamic tiny;
    struct af_span bytes;
    assert_int_equal(af_dynamic_read(&arena, map(TINY), TINY, &tiny, NULL), ANYFLASH_OK);
    assert_true(af_dynamic_data(&tiny, "tiny_new", 4, &bytes));
    assert_true(bytes.len >= 4);
    assert_false(af_dynamic_data(&tiny, "tiny_new", 1u << 20, &bytes));
    assert_false(af_dynamic_data(&tiny, "puts", 1, &bytes));
}

/* A header of each class and byte order, with one segment and section 0. */
static void test_elf__reads_both_classes_and_byte_orders(void **state)
{
    (void)state;
    for (int order = 1; order <= 2; order++) {
        char file[52 + 32 + 6] = {0x7f, 'E', 'L', 'F', 1, (char)order};
        struct af_elf elf;
        const unsigned char numbers[][2] = {{16, 3}, {18, 40}, {28, 52}, {42, 32},
                                            {44, 1}, {52, 3},  {56, 84}, {68, 6}};
        for (size_t i = 0; i < AF_COUNT(numbers); i++) {
            bool is_word = numbers[i][0] == 28 || numbers[i][0] >= 52;
            size_t last = order == 1 ? 0 : is_word ? 3 : 1;
            file[numbers[i][0] + last] = (char)numbers[i][1];
        }
        memcpy(file + 84, "/ld.so", 6);
        assert_int_equal(af_elf_open((struct af_span){file, sizeof file}, "made", &elf, NULL),
                         ANYFLASH_OK);
        assert_false(elf.is_64);
        assert_true(elf.is_shared);
        assert_int_equal(elf.machine, AF_ELF_ARM);
        assert_int_equal(elf.is_little_endian, order == 1);
        assert_null(af_elf_interpreter(&elf)); /* its NUL is missing */
        file[89] = '\0';
        assert_string_equal(af_elf_interpreter(&elf), "/ld.s");
    }
}

static void test_elf__refuses_what_is_not_elf_and_names_it(void **state)
{
    (void)state;
    struct af_dynamic dynamic;
    struct anyflash_error err = {0};
    struct af_span text = map(AF_TEST_DATA "/CMakeLists.txt");
    assert_int_equal(af_dynamic_read(&arena, text, "CMakeLists.txt", &dynamic, &err),
                     ANYFLASH_E_DATA);
    assert_non_null(strstr(err.message, "CMakeLists.txt"));
}

/* Calls every function; it only must not crash. */
static void ask_everything(const char *data, size_t len)
{
    struct af_elf elf;
    struct af_dynamic dynamic;
    struct af_symbol symbol;
    struct af_span bytes = {data, len};
    struct af_arena own;
    size_t total = 0;
    if (af_elf_open(bytes, "damaged", &elf, NULL) != ANYFLASH_OK)
        return;
    const char *interpreter = af_elf_interpreter(&elf);
    total += interpreter == NULL ? 0 : strlen(interpreter);
    af_elf_section_bytes(&elf, ".rodata", &bytes);
    af_arena_init(&own);
    if (af_dynamic_read(&own, (struct af_span){data, len}, "damaged", &dynamic, NULL) ==
        ANYFLASH_OK) {
        for (size_t i = 0; i < dynamic.needed_count; i++)
            total += strlen(dynamic.needed[i]);
        total += dynamic.soname == NULL ? 0 : strlen(dynamic.soname);
        total += dynamic.runpath == NULL ? 0 : strlen(dynamic.runpath);
        af_dynamic_find(&dynamic, "tiny_new", NULL, &symbol);
        af_dynamic_version_max(&dynamic, "TINY_", true);
        af_dynamic_version_max(&dynamic, "GLIBC_", false);
        af_dynamic_data(&dynamic, "tiny_new", 4, &bytes);
        af_dynamic_relocated(&dynamic, &own);
    }
    af_arena_release(&own);
    (void)total;
}

static void test_elf__survives_truncation_at_every_length(void **state)
{
    (void)state;
    struct af_span content = map(TINY);
    for (size_t len = 0; len < content.len; len += len < 128 ? 1 : 13) {
        char *exact = malloc(len + 1);
        assert_non_null(exact);
        memcpy(exact, content.data, len);
        ask_everything(exact, len);
        free(exact);
    }
}

static void test_elf__survives_every_byte_being_wrong(void **state)
{
    (void)state;
    struct af_span content = map(TINY);
    char *copy = malloc(content.len);
    assert_non_null(copy);
    memcpy(copy, content.data, content.len);
    for (size_t i = 0; i < content.len; i++) {
        const unsigned char wrong[] = {0xff, 0x01, 0x80};
        for (size_t w = 0; w < sizeof wrong; w++) {
            copy[i] = (char)((unsigned char)copy[i] ^ wrong[w]);
            ask_everything(copy, content.len);
            copy[i] = content.data[i];
        }
    }
    free(copy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elf__reads_names_needs_and_runpath),
        cmocka_unit_test(test_elf__reads_the_interpreter_of_a_program),
        cmocka_unit_test(test_elf__tells_defined_from_needed_symbols),
        cmocka_unit_test(test_elf__highest_version_compares_as_numbers),
        cmocka_unit_test(test_elf__gives_the_bytes_of_a_section),
        cmocka_unit_test(test_elf__gives_the_bytes_of_a_symbol),
        cmocka_unit_test(test_elf__reads_both_classes_and_byte_orders),
        cmocka_unit_test(test_elf__refuses_what_is_not_elf_and_names_it),
        cmocka_unit_test(test_elf__survives_truncation_at_every_length),
        cmocka_unit_test(test_elf__survives_every_byte_being_wrong),
    };
    af_arena_init(&arena);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    af_arena_release(&arena);
    return failed;
}
