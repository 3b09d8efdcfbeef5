/*
 * test_binary.c: facts of extensions that the C compiler makes here: which
 * symbols they need, from which library, in which version. Damage of any kind
 * only loses facts.
 */
#include "kit/formats/binary.h"

#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

#include "kit/formats/elf.h"
#include "tests/unit/compile_library.h"
#include "tests/unit/kit/binary_file.h"
#include "tests/unit/own_folder.h"

static struct af_arena arena;
static char folder[OWN_FOLDER_BYTES];
static const char *extension; /* path of the file that most tests read */
static struct af_span extension_bytes;

static const char source[] =
    "extern int wanted(void);\n"
    "extern int maybe(void) __attribute__((weak));\n"
    "extern char data[];\n"
    "extern int versioned(void);\n"
    "extern int only_named(void);\n"
    "static const char text[] = \"__pybind11_internals_v4_gcc_libstdcpp_cxxabi1018__\";\n"
    "static const char message[] = \"module was compiled for Python %s, but\";\n"
    "static const char version[] = \"3.12\";\n"
    "static const char assertion[] = \"x INTERNAL ASSERT FAILED at "
    "\\\"/a/torch/include/torch/\"\n"
    "    \"csrc/api/include/torch/detail/T.h\\\":260, please report a bug to PyTorch. \";\n"
    "static const char other[] = \"at \\\"/a/include/c10/b.h\\\":7, please report a bug to "
    "PyTorch. \";\n"
    "const char *volatile keep[5] = {text, message, version, assertion, other};\n"
    "char *volatile place = data;\n"
    "int PyInit_ext(void) { return wanted() + (maybe ? maybe() : 0) + versioned(); }\n"
    "__asm__(\".globl only_named\");\n";

static const char *path_of(const char *name)
{
    return af_arena_format(&arena, "%s/%s", folder, name);
}

static int make_files(void **state)
{
    (void)state;
    af_arena_init(&arena);
    if (!own_folder_make(folder))
        return 1;
    const char *map = path_of("map");
    const char *library = path_of("libver.so.1");
    FILE *out = fopen(map, "w");
    fputs("VER_1.2 { global: versioned; };\n", out);
    fclose(out);
    const char *const library_words[] = {
        af_arena_format(&arena, "-Wl,--version-script=%s", map), "-Wl,-soname,libver.so.1",
        NULL};
    if (!compile_library(&arena, library, "int versioned(void) { return 1; }\n", library_words))
        return 1;
    extension = path_of("ext.cpython-312-x86_64-linux-gnu.so");
    const char *const words[] = {library, "-Wl,-rpath,$ORIGIN/lib", "-Wl,--enable-new-dtags",
                                 "-Wl,--hash-style=gnu", NULL};
    if (!compile_library(&arena, extension, source, words))
        return 1;
    return af_file_read(&arena, extension, 1u << 20, &extension_bytes, NULL) != ANYFLASH_OK;
}

static int remove_files(void **state)
{
    (void)state;
    const char *const names[] = {"map",
                                 "libver.so.1",
                                 "libver.so.1.c",
                                 "padded.so",
                                 "padded.so.c",
                                 "ext.cpython-312-x86_64-linux-gnu.so",
                                 "ext.cpython-312-x86_64-linux-gnu.so.c"};
    for (size_t i = 0; i < AF_COUNT(names); i++)
        unlink(path_of(names[i]));
    rmdir(folder);
    af_arena_release(&arena);
    return 0;
}

static const struct af_undefined *find(const struct af_binary *binary, const char *name)
{
    for (size_t i = 0; i < binary->undefined_count; i++) {
        if (strcmp(binary->undefined[i].name, name) == 0)
            return &binary->undefined[i];
    }
    return NULL;
}

static void test_binary__lists_what_relocations_want(void **state)
{
    (void)state;
    struct af_binary binary;
    assert_int_equal(read_binary_file(&arena, extension, &binary, NULL), ANYFLASH_OK);
    assert_string_equal(binary.name, "ext.cpython-312-x86_64-linux-gnu.so");
    assert_non_null(find(&binary, "wanted"));
    assert_non_null(find(&binary, "data"));
    assert_false(find(&binary, "wanted")->weak);
    assert_true(find(&binary, "maybe")->weak);
    assert_true(af_binary_wants(&binary, "wanted"));
    assert_null(find(&binary, "PyInit_ext"));
}

static void test_binary__leaves_out_names_without_a_relocation(void **state)
{
    (void)state;
    struct af_binary binary;
    assert_int_equal(read_binary_file(&arena, extension, &binary, NULL), ANYFLASH_OK);
    assert_null(find(&binary, "only_named"));
}

static void test_binary__names_versions_and_their_library(void **state)
{
    (void)state;
    struct af_binary binary;
    assert_int_equal(read_binary_file(&arena, extension, &binary, NULL), ANYFLASH_OK);
    const struct af_undefined *versioned = find(&binary, "versioned");
    assert_non_null(versioned);
    assert_string_equal(versioned->version, "VER_1.2");
    assert_string_equal(versioned->library, "libver.so.1");
    assert_null(find(&binary, "wanted")->version);
    assert_int_equal(binary.version_need_count, 1);
    assert_string_equal(binary.version_needs[0].version, "VER_1.2");
}

static void test_binary__reads_module_texts_and_run_path(void **state)
{
    (void)state;
    struct af_binary binary;
    assert_int_equal(read_binary_file(&arena, extension, &binary, NULL), ANYFLASH_OK);
    assert_string_equal(binary.init_name, "ext");
    assert_int_equal(binary.needed.count, 1);
    assert_string_equal(binary.needed.items[0], "libver.so.1");
    assert_string_equal(binary.runpath, "$ORIGIN/lib");
    assert_null(binary.rpath);
    assert_int_equal(binary.pybind_internals.count, 1);
    assert_string_equal(binary.pybind_internals.items[0],
                        "__pybind11_internals_v4_gcc_libstdcpp_cxxabi1018__");
    assert_string_equal(binary.pybind_python, "3.12");
    assert_int_equal(binary.assertions.count, 1);
    assert_string_equal(binary.assertions.items[0], "torch/detail/T.h:260");
    assert_false(binary.has_gpu_code);
}

/* tools/make_elf_data.sh makes the file. */
static const char arm_extension[] = AF_TEST_DATA "/unit/kit/probe/elf/extension-aarch64.so";

static void test_binary__of_aarch64_needs_what_its_relocations_name(void **state)
{
    static const char *const versioned[] = {"call", "counter", "numbers"};
    struct af_span bytes;
    struct af_binary whole;
    (void)state;
    assert_int_equal(af_file_read(&arena, arm_extension, 1u << 20, &bytes, NULL), ANYFLASH_OK);
    assert_int_equal(af_binary_read(&arena, bytes, arm_extension, &whole, NULL), ANYFLASH_OK);
    assert_string_equal(whole.machine, "aarch64");
    assert_string_equal(whole.init_name, "tiny");
    assert_int_equal(whole.undefined_count, 4);
    for (size_t i = 0; i < AF_COUNT(versioned); i++)
        assert_string_equal(find(&whole, versioned[i])->version, "LIBV_1");
    assert_true(find(&whole, "maybe")->weak);
}

/* Every length, at the end of an allocation, so that sanitizers see reads past it. */
static void test_binary__sanitizers_find_nothing_at_any_truncation(void **state)
{
    (void)state;
    for (size_t len = 0; len < extension_bytes.len; len += len < 2048 ? 1 : 7) {
        struct af_arena work;
        struct af_binary binary;
        char *copy = malloc(len + 1);
        memcpy(copy, extension_bytes.data, len);
        char *exact = realloc(copy, len == 0 ? 1 : len);
        struct af_span span = {exact, len};
        af_arena_init(&work);
        (void)af_binary_read(&work, span, "cut.so", &binary, NULL);
        af_arena_release(&work);
        free(exact);
    }
}

static void test_binary__sanitizers_find_nothing_with_any_changed_byte(void **state)
{
    (void)state;
    char *copy = malloc(extension_bytes.len);
    memcpy(copy, extension_bytes.data, extension_bytes.len);
    for (size_t i = 0; i < extension_bytes.len && i < 8192; i++) {
        struct af_arena work;
        struct af_binary binary;
        struct af_span span = {copy, extension_bytes.len};
        char kept = copy[i];
        copy[i] = (char)(kept ^ 0xff);
        af_arena_init(&work);
        (void)af_binary_read(&work, span, "bad.so", &binary, NULL);
        af_arena_release(&work);
        copy[i] = kept;
    }
    free(copy);
}

static void test_binary__refuses_what_is_no_library(void **state)
{
    (void)state;
    struct af_binary binary;
    struct anyflash_error err = {0};
    struct af_span text = {"<!DOCTYPE html>", 15};
    assert_int_equal(af_binary_read(&arena, text, "x.so", &binary, &err), ANYFLASH_E_DATA);
    assert_non_null(strstr(err.message, "x.so"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_binary__lists_what_relocations_want),
        cmocka_unit_test(test_binary__leaves_out_names_without_a_relocation),
        cmocka_unit_test(test_binary__names_versions_and_their_library),
        cmocka_unit_test(test_binary__reads_module_texts_and_run_path),
        cmocka_unit_test(test_binary__of_aarch64_needs_what_its_relocations_name),
        cmocka_unit_test(test_binary__sanitizers_find_nothing_at_any_truncation),
        cmocka_unit_test(test_binary__sanitizers_find_nothing_with_any_changed_byte),
        cmocka_unit_test(test_binary__refuses_what_is_no_library),
    };
    return cmocka_run_group_tests(tests, make_files, remove_files);
}
