/*
 * test_torch_symbols.c: the shipped table against readelf's output for the
 * wheels, and which build is used for a torch that a user names.
 */
#include "kit/base/json.h"
#include "kit/base/text.h"
#include "kit/catalog/torch_symbols.h"
#include "kit/proof/recorded_libraries.h"
#include "kit/proof/symbol_scope.h"
#include "kit/system/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define RELEASES_MAX 32

static struct af_catalog_torch_symbols symbols;

static int load(void **state)
{
    (void)state;
    af_json_start();
    return af_catalog_torch_symbols_load(&symbols, NULL) == ANYFLASH_OK ? 0 : -1;
}

static int unload(void **state)
{
    (void)state;
    af_catalog_torch_symbols_release(&symbols);
    return 0;
}

static struct af_catalog_torch_choice choose_for(struct af_arena *arena, const char *platform,
                                                 const char *version)
{
    struct af_catalog_torch_choice choice;
    assert_int_equal(
        af_catalog_torch_symbols_choose(&symbols, version, platform, arena, &choice, NULL),
        ANYFLASH_OK);
    return choice;
}

static struct af_catalog_torch_choice choose(struct af_arena *arena, const char *version)
{
    return choose_for(arena, "linux_x86_64", version);
}

static uint64_t library_bit(const struct af_catalog_symbol_build *build, const char *name)
{
    for (size_t i = 0; i < build->libraries_count; i++) {
        if (af_equal(build->libraries[i].name, name))
            return UINT64_C(1) << i;
    }
    return 0;
}

/* The libraries in readelf's output. */
static uint64_t read_libraries(const struct af_catalog_symbol_build *build)
{
    static const char *const names[] = {"libc10.so",
                                        "libc10_cuda.so",
                                        "libtorch.so",
                                        "libtorch_cpu.so",
                                        "libtorch_cuda.so",
                                        "libtorch_python.so",
                                        "libtorch_cuda_linalg.so"};
    uint64_t mask = 0;
    for (size_t i = 0; i < AF_COUNT(names); i++)
        mask |= library_bit(build, names[i]);
    return mask;
}

/* One line: name and, per library, the releases that define it there. */
static size_t check_line(char *line, const struct af_catalog_symbol_build *const *builds,
                         size_t count)
{
    uint64_t expected[RELEASES_MAX] = {0};
    const char *name = strsep(&line, " ");
    for (char *word; (word = strsep(&line, " ")) != NULL;) {
        char *mask = strchr(word, '=');
        assert_non_null(mask);
        *mask++ = '\0';
        for (size_t i = 0; i < count; i++) {
            if ((strtoul(mask, NULL, 16) >> i & 1) != 0)
                expected[i] |= library_bit(builds[i], word);
        }
    }
    for (size_t i = 0; i < count; i++) {
        uint64_t found = af_catalog_torch_symbols_in(&symbols, builds[i], name);
        if ((found & read_libraries(builds[i])) != expected[i])
            fail_msg("%s in torch %s: %llx, not %llx", name, builds[i]->version,
                     (unsigned long long)found, (unsigned long long)expected[i]);
    }
    return count;
}

/* Compares the table with a file of readelf's output; the number of names times releases. */
static size_t check_file(const char *file, const char *platform)
{
    struct af_arena arena;
    struct af_span bytes;
    const struct af_catalog_symbol_build *builds[RELEASES_MAX] = {NULL};
    size_t release_count = 0, pairs = 0;
    af_arena_init(&arena);
    assert_int_equal(af_file_read(&arena, file, 1 << 20, &bytes, NULL), ANYFLASH_OK);
    char *rest = af_arena_text_n(&arena, bytes.data, bytes.len);
    for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
        if (*line == '#' || *line == '\0')
            continue;
        if (release_count > 0) {
            pairs += check_line(line, builds, release_count);
            continue;
        }
        for (char *version; (version = strsep(&line, " ")) != NULL; release_count++) {
            assert_true(release_count < RELEASES_MAX);
            builds[release_count] = choose_for(&arena, platform, version).build;
            assert_string_equal(builds[release_count]->version, version);
            assert_string_equal(builds[release_count]->platform, platform);
        }
    }
    af_arena_release(&arena);
    return pairs;
}

static void test_torch_symbols__agree_with_readelf_on_all_that_flash_attn_needs(void **state)
{
    (void)state;
    assert_true(check_file(AF_TEST_DATA "/data/torch/flash_symbols.txt", "linux_x86_64") >
                1600);
    assert_true(check_file(AF_TEST_DATA "/data/torch/flash_symbols_aarch64.txt",
                           "linux_aarch64") > 500);
}

static void test_torch_symbols__lack_what_nobody_defines(void **state)
{
    char name[32];
    (void)state;
    for (int i = 0; i < 20000; i++) {
        snprintf(name, sizeof name, "_ZN3c104nameE%d", i);
        for (size_t k = 0; k < symbols.build_count; k++)
            assert_true(af_catalog_torch_symbols_in(&symbols, &symbols.builds[k], name) == 0);
    }
}

static void test_torch_symbols__are_found_within_a_microsecond(void **state)
{
    static const char name[] = "_ZN2at4_ops10empty_like4callERKNS_6TensorESt8optionalIN3c1010"
                               "ScalarTypeEES5_INS6_6LayoutEES5_INS6_6DeviceEES5_IbES5_INS6_"
                               "12MemoryFormatEE";
    const int lookups = 100000;
    uint64_t found = 0;
    (void)state;
    clock_t start = clock();
    for (int i = 0; i < lookups; i++)
        found += af_catalog_torch_symbols_in(
            &symbols, &symbols.builds[(size_t)i % symbols.build_count], name);
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    assert_true(found > 0);
    /* Ten times that, for sanitizers and busy machines. */
    assert_true(seconds * 1e6 / lookups < 10);
}

static void test_torch_symbols__know_each_build_by_its_bytes(void **state)
{
    (void)state;
    for (size_t i = 0; i < symbols.build_count; i++) {
        const struct af_catalog_symbol_build *build = &symbols.builds[i];
        bool is_cpu = strcmp(build->variant, "cpu") == 0;
        assert_in_range(build->libraries_count, 1, AF_CATALOG_TORCH_LIBRARIES_MAX);
        assert_true((build->cudart == NULL) == is_cpu);
        assert_true(build->cxx11abi != AF_UNKNOWN);
        assert_true(af_starts_with(build->pybind_internals, "__pybind11_internals_v"));
        assert_true(library_bit(build, "libc10.so") != 0);
        assert_true((library_bit(build, "libtorch_cuda.so") == 0) == is_cpu);
    }
}

static void test_torch_choice__takes_the_build_that_is_named(void **state)
{
    struct af_arena arena;
    (void)state;
    af_arena_init(&arena);
    struct af_catalog_torch_choice choice = choose(&arena, "2.9.1+cu128");
    assert_null(choice.note);
    assert_string_equal(choice.build->version, "2.9.1");
    assert_ptr_equal(choice.cuda, choice.build);
    assert_int_equal(choice.cuda_major, 12);
    choice = choose(&arena, "2.9");
    assert_null(choice.note);
    assert_string_equal(choice.version, "2.9.1+cu128");
    choice = choose(&arena, "2.15.0");
    assert_null(choice.note);
    assert_int_equal(choice.cuda_major, 13);
    af_arena_release(&arena);
}

static void test_torch_choice__takes_the_build_on_pypi_for_aarch64(void **state)
{
    struct af_arena arena;
    (void)state;
    af_arena_init(&arena);
    struct af_catalog_torch_choice choice = choose_for(&arena, "linux_aarch64", "2.9.1");
    assert_null(choice.note);
    assert_string_equal(choice.version, "2.9.1+cpu");
    assert_string_equal(choice.build->platform, "linux_aarch64");
    assert_null(choice.cuda);
    choice = choose_for(&arena, "linux_aarch64", "2.11.0");
    assert_null(choice.note);
    assert_string_equal(choice.version, "2.11.0+cu130");
    assert_string_equal(choice.build->platform, "linux_aarch64");
    assert_string_equal(choice.cuda->version, "2.11.0");
    af_arena_release(&arena);
}

/* Not on PyPI; aarch64's CPU build of the release lacks CUDA's names. */
static void test_torch_choice__lets_x86_64_stand_for_cuda_on_aarch64(void **state)
{
    struct af_arena arena;
    (void)state;
    af_arena_init(&arena);
    struct af_catalog_torch_choice choice = choose_for(&arena, "linux_aarch64", "2.9.1+cu128");
    assert_string_equal(choice.build->platform, "linux_x86_64");
    assert_non_null(strstr(choice.note, "linux_x86_64"));
    choice = choose_for(&arena, "linux_riscv64", "2.9.1");
    assert_string_equal(choice.build->platform, "linux_x86_64");
    assert_non_null(strstr(choice.note, "linux_x86_64"));
    af_arena_release(&arena);
}

static void test_torch_choice__knows_that_aarch64_changed_its_abi_earlier(void **state)
{
    static const char name[] = "_ZN3c106detail14torchCheckFailEPKcS2_jRKNSt7__cxx1112basic_"
                               "stringIcSt11char_traitsIcESaIcEEE";
    const char *oldest;
    const char *newest;
    struct af_arena arena;
    (void)state;
    af_arena_init(&arena);
    assert_int_equal(choose(&arena, "2.6.0").build->cxx11abi, AF_NO);
    assert_int_equal(choose_for(&arena, "linux_aarch64", "2.6.0").build->cxx11abi, AF_YES);
    assert_true(
        af_catalog_torch_symbols_span(&symbols, "linux_x86_64", name, &oldest, &newest));
    assert_string_equal(oldest, "2.7.1");
    assert_true(
        af_catalog_torch_symbols_span(&symbols, "linux_aarch64", name, &oldest, &newest));
    assert_string_equal(oldest, "2.6.0");
    assert_true(
        af_catalog_torch_symbols_span(&symbols, "linux_riscv64", name, &oldest, &newest));
    assert_string_equal(oldest, "2.6.0");
    af_arena_release(&arena);
}

static void test_torch_choice__lets_a_patch_release_stand_for_another(void **state)
{
    struct af_arena arena;
    (void)state;
    af_arena_init(&arena);
    struct af_catalog_torch_choice choice = choose(&arena, "2.13.1+cu130");
    assert_string_equal(choice.build->version, "2.13.0");
    assert_string_equal(choice.version, "2.13.1+cu130");
    assert_non_null(choice.note);
    af_arena_release(&arena);
}

static void test_torch_choice__takes_another_variant_with_the_cuda_that_is_asked_for(
    void **state)
{
    struct af_arena arena;
    (void)state;
    af_arena_init(&arena);
    struct af_catalog_torch_choice choice = choose(&arena, "2.9.1+cu130");
    assert_string_equal(choice.build->variant, "cu128");
    assert_string_equal(choice.cuda->variant, "cu130");
    assert_int_equal(choice.cuda_major, 13);
    assert_non_null(choice.note);
    choice = choose(&arena, "2.9.1+cpu");
    assert_non_null(choice.build);
    assert_null(choice.cuda);
    assert_int_equal(choice.cuda_major, -1);
    af_arena_release(&arena);
}

static void test_torch_choice__has_no_build_for_what_it_does_not_know(void **state)
{
    static const char *const versions[] = {"2.99.0",
                                           "2.10.0+rocm6.4",
                                           "2.16.0.dev20261101",
                                           "nightly",
                                           "2",
                                           "",
                                           "1.13.1",
                                           "2.9.0rc1",
                                           "2.9.1+cu",
                                           "2.9.1+cu99",
                                           "99999999999999999999.1"};
    struct af_arena arena;
    (void)state;
    af_arena_init(&arena);
    for (size_t i = 0; i < AF_COUNT(versions); i++) {
        struct af_catalog_torch_choice choice = choose(&arena, versions[i]);
        if (choice.build != NULL && choice.cuda != NULL)
            fail_msg("'%s' got torch %s", versions[i], choice.build->version);
        assert_non_null(choice.note);
    }
    af_arena_release(&arena);
}

/* The scope of that torch on a machine where nothing else is known. */
static void open_scope(struct af_arena *arena, const char *version, struct af_scope *scope)
{
    static const struct af_machine machine;
    struct af_catalog_torch_choice choice = choose(arena, version);
    af_scope_of_torch(&symbols, &choice, &machine, false, scope);
    assert_int_equal(scope->missing_count, 0);
    assert_null(scope->problem);
}

static void test_torch_stock__asks_for_the_cuda_of_the_variant(void **state)
{
    struct af_arena arena;
    struct af_scope scope;
    (void)state;
    af_arena_init(&arena);
    open_scope(&arena, "2.9.1+cu128", &scope);
    assert_string_equal(scope.torch.cudart, "libcudart.so.12");
    assert_int_equal(scope.torch.cxx11abi, AF_YES);
    af_scope_release(&scope);
    open_scope(&arena, "2.9.1+cu130", &scope);
    assert_string_equal(scope.torch.cudart, "libcudart.so.13");
    assert_null(af_scope_library(&scope, "libcudart.so.12"));
    af_scope_release(&scope);
    af_arena_release(&arena);
}

static void test_torch_stock__leaves_cuda_out_of_a_cpu_build(void **state)
{
    struct af_arena arena;
    struct af_scope scope;
    (void)state;
    af_arena_init(&arena);
    open_scope(&arena, "2.6.0+cpu", &scope);
    assert_false(scope.torch.has_cuda);
    assert_null(af_scope_library(&scope, "libtorch_cuda.so"));
    const struct af_library *python = af_scope_library(&scope, "libtorch_python.so");
    assert_non_null(python);
    assert_int_equal(python->kind->defines(python, "THPGeneratorClass", NULL), AF_YES);
    assert_int_equal(scope.torch.cxx11abi, AF_NO);
    af_scope_release(&scope);
    af_arena_release(&arena);
}

/* fbgemm-gpu-cpu 1.1.0 for aarch64 needs shm_open without the version that glibc gives it. */
static void test_system_library__may_define_c_names_without_a_version(void **state)
{
    static const struct {
        const char *library;
        const char *name;
        enum af_answer answer;
    } rows[] = {
        {"libc.so.6", "shm_open", AF_UNKNOWN},
        {"libstdc++.so.6", "_ZNSt15__exception_ptr13exception_ptr9_M_addrefEv", AF_UNKNOWN},
        {"libc.so.6", "_ZN3c105ErrorD1Ev", AF_NO},
        {"libc.so.6", "_ZN2my4nameEv", AF_NO},
        {"libc.so.6", "cudaFree", AF_NO},
        {"libc.so.6", "aoti_torch_get_dim", AF_NO},
        {"libgomp.so.1", "_ZN3c105ErrorD1Ev", AF_NO},
        {"libgomp.so.1", "GOMP_parallel", AF_UNKNOWN},
        {"libcuda.so.1", "_ZN3c105ErrorD1Ev", AF_NO},
        {"libother.so", "_ZN3c105ErrorD1Ev", AF_UNKNOWN},
    };
    static const struct af_machine machine;
    struct af_arena arena;
    (void)state;
    af_arena_init(&arena);
    for (size_t i = 0; i < AF_COUNT(rows); i++) {
        struct af_module *module = af_system_library(&arena, &machine, rows[i].library);
        assert_non_null(module);
        const struct af_library *library = &module->library;
        if (library->kind->defines(library, rows[i].name, NULL) != rows[i].answer)
            fail_msg("%s in %s", rows[i].name, rows[i].library);
    }
    af_arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_torch_symbols__agree_with_readelf_on_all_that_flash_attn_needs),
        cmocka_unit_test(test_torch_symbols__lack_what_nobody_defines),
        cmocka_unit_test(test_torch_symbols__are_found_within_a_microsecond),
        cmocka_unit_test(test_torch_symbols__know_each_build_by_its_bytes),
        cmocka_unit_test(test_torch_choice__takes_the_build_that_is_named),
        cmocka_unit_test(test_torch_choice__takes_the_build_on_pypi_for_aarch64),
        cmocka_unit_test(test_torch_choice__lets_x86_64_stand_for_cuda_on_aarch64),
        cmocka_unit_test(test_torch_choice__knows_that_aarch64_changed_its_abi_earlier),
        cmocka_unit_test(test_torch_choice__lets_a_patch_release_stand_for_another),
        cmocka_unit_test(
            test_torch_choice__takes_another_variant_with_the_cuda_that_is_asked_for),
        cmocka_unit_test(test_torch_choice__has_no_build_for_what_it_does_not_know),
        cmocka_unit_test(test_torch_stock__asks_for_the_cuda_of_the_variant),
        cmocka_unit_test(test_torch_stock__leaves_cuda_out_of_a_cpu_build),
        cmocka_unit_test(test_system_library__may_define_c_names_without_a_version),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
