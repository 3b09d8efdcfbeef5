/*
 * test_elf.c: ELF facts of two tiny files (tests/fuzz/corpus/fuzz_elf) and of
 * this very program; damage of every kind must only lose facts.
 */
#include "kit/base/text.h"
#include "kit/formats/elf.h"
#include "kit/system/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TINY AF_TEST_DATA "/fuzz/corpus/fuzz_elf/libtiny.so"
#define TINY_PROGRAM AF_TEST_DATA "/fuzz/corpus/fuzz_elf/tinyexe"

static void test_elf__reads_names_needs_and_runpath(void **state)
{
    (void)state;
    struct af_elf elf;
    assert_int_equal(af_elf_open(TINY, &elf, NULL), ANYFLASH_OK);
    assert_true(elf.is_64);
    assert_string_equal(af_elf_machine_name(&elf), "x86_64");
    assert_string_equal(elf.soname, "libtiny.so.1");
    assert_int_equal(elf.needed_count, 1);
    assert_string_equal(elf.needed[0], "libc.so.6");
    assert_string_equal(elf.runpath, "$ORIGIN/../nvidia/lib");
    assert_null(elf.rpath);
    assert_null(elf.interpreter);
    af_elf_close(&elf);
}

static void test_elf__reads_the_interpreter_of_a_program(void **state)
{
    (void)state;
    struct af_elf elf;
    assert_int_equal(af_elf_open(TINY_PROGRAM, &elf, NULL), ANYFLASH_OK);
    assert_string_equal(elf.interpreter, "/lib64/ld-linux-x86-64.so.2");
    af_elf_close(&elf);
}

static void test_elf__tells_defined_from_needed_symbols(void **state)
{
    (void)state;
    struct af_elf elf;
    const char *const names[] = {"tiny_new", "puts", "tiny_weak", "absent"};
    bool found[4];
    assert_int_equal(af_elf_open(TINY, &elf, NULL), ANYFLASH_OK);
    assert_true(af_elf_defines(&elf, names, 4, found));
    assert_true(found[0]);
    assert_false(found[1]);
    assert_true(found[2]);
    assert_false(found[3]);
    af_elf_close(&elf);
}

static void test_elf__highest_version_compares_as_numbers(void **state)
{
    (void)state;
    struct af_elf elf;
    const char *text;
    assert_int_equal(af_elf_open(TINY, &elf, NULL), ANYFLASH_OK);
    assert_true(af_elf_version_max(&elf, "TINY_", true, &text));
    assert_string_equal(text, "1.10");
    assert_true(af_elf_version_max(&elf, "GLIBC_", false, &text));
    assert_string_equal(text, "2.2.5");
    assert_false(af_elf_version_max(&elf, "GLIBCXX_", false, &text));
    af_elf_close(&elf);
}

static void test_elf__gives_the_bytes_of_a_section(void **state)
{
    (void)state;
    struct af_elf elf;
    struct af_span bytes;
    assert_int_equal(af_elf_open(TINY, &elf, NULL), ANYFLASH_OK);
    assert_true(af_elf_section(&elf, ".rodata", &bytes));
    assert_int_equal(bytes.len, 12);
    assert_string_equal(bytes.data, "sm_80 sm_90");
    assert_false(af_elf_section(&elf, ".nv_fatbin", &bytes));
    af_elf_close(&elf);
}

static void test_elf__gives_the_bytes_of_a_symbol(void **state)
{
    (void)state;
    struct af_elf elf;
    struct af_span bytes;
    assert_int_equal(af_elf_open(TINY, &elf, NULL), ANYFLASH_OK);
    assert_true(af_elf_symbol_data(&elf, "tiny_new", 4, &bytes));
    assert_true(bytes.len >= 4);
    assert_false(af_elf_symbol_data(&elf, "tiny_new", 1u << 20, &bytes));
    assert_false(af_elf_symbol_data(&elf, "puts", 1, &bytes));
    af_elf_close(&elf);
}

static void test_elf__refuses_what_is_not_elf_and_names_it(void **state)
{
    (void)state;
    struct af_elf elf;
    struct anyflash_error err = {0};
    assert_int_equal(af_elf_open(AF_TEST_DATA "/CMakeLists.txt", &elf, &err), ANYFLASH_E_DATA);
    assert_non_null(strstr(err.message, "CMakeLists.txt"));
    assert_int_equal(af_elf_open("/nonexistent", &elf, NULL), ANYFLASH_E_NOT_FOUND);
    assert_int_equal(af_elf_open("/dev/null", &elf, NULL), ANYFLASH_E_IO);
}

static bool count_version(void *context, const char *library, const char *version)
{
    size_t *bytes = context;
    *bytes += strlen(version) + (library == NULL ? 0 : strlen(library));
    return true;
}

/* Asks everything; only survival counts. */
static void ask_everything(const char *data, size_t len)
{
    struct af_elf elf;
    struct af_span bytes = {data, len};
    const char *const names[] = {"tiny_new"};
    bool found[1];
    size_t total = 0;
    if (af_elf_open_bytes(bytes, "damaged", &elf, NULL) != ANYFLASH_OK)
        return;
    for (size_t i = 0; i < elf.needed_count; i++)
        total += strlen(elf.needed[i]);
    total += elf.soname == NULL ? 0 : strlen(elf.soname);
    total += elf.runpath == NULL ? 0 : strlen(elf.runpath);
    total += elf.interpreter == NULL ? 0 : strlen(elf.interpreter);
    af_elf_defines(&elf, names, 1, found);
    af_elf_version_needs(&elf, count_version, &total);
    af_elf_version_defs(&elf, count_version, &total);
    af_elf_section(&elf, ".rodata", &bytes);
    af_elf_symbol_data(&elf, "tiny_new", 4, &bytes);
    af_elf_close(&elf);
}

static void test_elf__survives_truncation_at_every_length(void **state)
{
    (void)state;
    struct af_arena arena;
    struct af_span content;
    af_arena_init(&arena);
    assert_int_equal(af_file_read(&arena, TINY, 1u << 20, &content, NULL), ANYFLASH_OK);
    for (size_t len = 0; len < content.len; len += len < 128 ? 1 : 13) {
        char *exact = malloc(len + 1);
        assert_non_null(exact);
        memcpy(exact, content.data, len);
        ask_everything(exact, len);
        free(exact);
    }
    af_arena_release(&arena);
}

static void test_elf__survives_every_byte_being_wrong(void **state)
{
    (void)state;
    struct af_arena arena;
    struct af_span content;
    af_arena_init(&arena);
    assert_int_equal(af_file_read(&arena, TINY, 1u << 20, &content, NULL), ANYFLASH_OK);
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
    af_arena_release(&arena);
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
        cmocka_unit_test(test_elf__refuses_what_is_not_elf_and_names_it),
        cmocka_unit_test(test_elf__survives_truncation_at_every_length),
        cmocka_unit_test(test_elf__survives_every_byte_being_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
