/*
 * test_proof.c: proofs against a Python environment that the C compiler makes
 * here: a program, libraries with the names of torch's, extensions with chosen
 * requirements. The versions of torch are those of the shipped tables.
 */
#include "kit/proof/proof.h"

#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/compile_library.h"
#include "tests/unit/kit/binary_file.h"
#include "tests/unit/own_folder.h"

#define CHECK_FAIL_NEW                                                                         \
    "_ZN3c106detail14torchCheckFailEPKcS2_jRKNSt7__cxx1112basic_stringIcSt11char_traitsIcE"    \
    "SaIcEEE"
#define CHECK_FAIL_OLD "_ZN3c106detail14torchCheckFailEPKcS2_jRKSs"
#define INCREF "_ZNK3c1010TensorImpl15incref_pyobjectEv"
#define DECREF "_ZNK3c1010TensorImpl15decref_pyobjectEv"
#define OTHER "_ZN2at6Tensor5otherEv"
#define REGISTER "_ZN5torch7LibraryC1Ev"

static struct af_arena arena;
static struct af_machine machine;
static struct af_scope scope;
static char folder[OWN_FOLDER_BYTES];

static const char *path_of(const char *name)
{
    return af_arena_format(&arena, "%s/%s", folder, name);
}

/* "int f0(void) __asm__("NAME"); int f0(void) { return 1; }" for each name. */
static const char *defining(const char *const *names)
{
    const char *text = "";
    for (size_t i = 0; names[i] != NULL; i++)
        text = af_arena_format(&arena,
                               "%sint f%zu(void) __asm__(\"%s\");\n"
                               "int f%zu(void) { return 1; }\n",
                               text, i, names[i], i);
    return text;
}

/* A module `ext` that calls each name. */
static const char *wanting(const char *const *names)
{
    const char *text = "";
    const char *body = "0";
    for (size_t i = 0; names[i] != NULL; i++) {
        text =
            af_arena_format(&arena, "%sint g%zu(void) __asm__(\"%s\");\n", text, i, names[i]);
        body = af_arena_format(&arena, "%s + g%zu()", body, i);
    }
    return af_arena_format(&arena, "%sint PyInit_ext(void) { return %s; }\n", text, body);
}

static bool make_library(const char *name, const char *const *defines, const char *needs)
{
    const char *path = path_of(af_arena_format(&arena, "torch/lib/%s", name));
    const char *const words[] = {"-Wl,--no-as-needed",
                                 af_arena_format(&arena, "-Wl,-soname,%s", name),
                                 "-Wl,-rpath,$ORIGIN", needs, NULL};
    return compile_library(&arena, path, defining(defines), words);
}

/* A torch 2.9.1 whose libc10 has the new ABI and no counting of its own. */
static int make_place(void **state)
{
    static const char *const c10[] = {CHECK_FAIL_NEW, NULL};
    static const char *const cpu[] = {"_ZN2at6Tensor3cpuEv", REGISTER, NULL};
    static const char *const none[] = {NULL};
    static const char *const hidden[] = {"hidden_from_all", NULL};
    (void)state;
    af_arena_init(&arena);
    if (!own_folder_make(folder) || mkdir(path_of("torch"), 0700) != 0 ||
        mkdir(path_of("torch/lib"), 0700) != 0 || mkdir(path_of("pkg"), 0700) != 0 ||
        mkdir(path_of("pkg.libs"), 0700) != 0)
        return 1;
    bool made =
        make_library("libc10.so", c10, NULL) &&
        make_library("libtorch_cpu.so", cpu, path_of("torch/lib/libc10.so")) &&
        make_library("libtorch_python.so", none, path_of("torch/lib/libtorch_cpu.so")) &&
        make_library("libtorch_global_deps.so", none, NULL) &&
        make_library("libaside.so", hidden, NULL);
    static const char *const python[] = {"PyLong_FromLong", NULL};
    static const char *const own[] = {"bundled_function", NULL};
    made = made && compile_library(&arena, path_of("python"), defining(python), NULL) &&
           compile_library(&arena, path_of("pkg.libs/libown.so"), defining(own), NULL);
    if (!made)
        return 1;
    af_machine_init(&machine, "test", "not set");
    af_fact_text(&machine.arena, &machine.platform.os, "linux", "test");
    af_fact_text(&machine.arena, &machine.platform.arch, "x86_64", "test");
    af_fact_text(&machine.arena, &machine.python.base_executable, path_of("python"), "test");
    af_fact_text(&machine.arena, &machine.python.version, "3.12.1", "test");
    af_fact_text(&machine.arena, &machine.python.ext_suffix, ".cpython-312-x86_64-linux-gnu.so",
                 "test");
    af_fact_text(&machine.arena, &machine.torch.path, path_of("torch"), "test");
    af_fact_text(&machine.arena, &machine.torch.version, "2.9.1+cpu", "test");
    af_scope_installed(&machine, &scope);
    return 0;
}

static int remove_place(void **state)
{
    const char *const argv[] = {"rm", "-r", folder, NULL};
    struct af_child child;
    struct af_span output;
    int code;
    (void)state;
    af_scope_release(&scope);
    af_machine_release(&machine);
    if (af_child_start_program(argv, NULL, &child, NULL) == ANYFLASH_OK)
        (void)af_child_collect(&child, 10000, &arena, &output, &code, NULL);
    af_arena_release(&arena);
    return 0;
}

/* Compiles pkg/`name` with these needs and proves it. `stated`: torch in its metadata. */
static void prove_as(const char *name, const char *const *wants, const char *const *words,
                     const char *stated, struct af_proof *proof)
{
    struct af_binary binary;
    struct af_load load;
    const char *path = path_of(af_arena_format(&arena, "pkg/%s", name));
    assert_true(compile_library(&arena, path, wanting(wants), words));
    assert_int_equal(read_binary_file(&arena, path, &binary, NULL), ANYFLASH_OK);
    af_scope_load(&scope, &binary, path_of("pkg"), &arena, &load);
    struct af_proof_question question = {
        .binary = &binary,
        .scope = &scope,
        .load = &load,
        .machine = &machine,
        .stated_torch = stated,
        .fitting_torch = ~(uint64_t)0,
    };
    af_proof_make(&question, &arena, proof);
}

static void prove(const char *const *wants, const char *const *words, const char *stated,
                  struct af_proof *proof)
{
    prove_as("ext.cpython-312-x86_64-linux-gnu.so", wants, words, stated, proof);
}

/* Arguments that link against torch's libraries. */
static const char *const *with_torch(void)
{
    const char **words = af_arena_array(&arena, 6, sizeof *words);
    words[0] = "-Wl,--no-as-needed";
    words[1] = path_of("torch/lib/libtorch_cpu.so");
    words[2] = path_of("torch/lib/libc10.so");
    return words;
}

static enum af_answer answer_of(const struct af_proof *proof, enum af_proof_check_id id)
{
    return proof->checks[id].answer;
}

static void test_proof__loads_what_is_whole(void **state)
{
    static const char *const wants[] = {CHECK_FAIL_NEW, "PyLong_FromLong", NULL};
    struct af_proof proof;
    (void)state;
    prove(wants, with_torch(), NULL, &proof);
    for (size_t i = 0; i < proof.check_count; i++)
        assert_int_equal(proof.checks[i].answer, AF_YES);
    assert_int_equal(proof.answer, AF_YES);
    assert_int_equal(proof.missing.count, 0);
}

static void test_proof__names_the_missing_symbols(void **state)
{
    static const char *const wants[] = {OTHER, "PyLong_FromLong", NULL};
    struct af_proof proof;
    (void)state;
    prove(wants, with_torch(), NULL, &proof);
    assert_int_equal(proof.imports, AF_NO);
    assert_int_equal(proof.missing.count, 1);
    assert_string_equal(proof.missing.items[0], OTHER);
    assert_non_null(strstr(proof.checks[AF_CHECK_SYMBOLS].evidence, "at::Tensor::other"));
}

static void test_proof__a_library_outside_the_closure_does_not_count(void **state)
{
    static const char *const wants[] = {"_ZN2at6Tensor3cpuEv", "hidden_from_all", NULL};
    static const char *const alone[] = {NULL};
    struct af_proof proof;
    (void)state;
    prove(wants, with_torch(), NULL, &proof);
    assert_int_equal(proof.missing.count, 1);
    assert_string_equal(proof.missing.items[0], "hidden_from_all");
    /* libtorch_cpu is in the process, but this extension does not name it. */
    prove(wants, alone, NULL, &proof);
    assert_int_equal(proof.missing.count, 2);
}

static void test_proof__names_the_missing_library(void **state)
{
    static const char *const wants[] = {"gone_function", NULL};
    static const char *const gone[] = {"gone_function", NULL};
    struct af_proof proof;
    (void)state;
    const char *library = path_of("libgone.so.7");
    const char *const soname[] = {"-Wl,-soname,libgone.so.7", NULL};
    assert_true(compile_library(&arena, library, defining(gone), soname));
    const char *const words[] = {library, NULL};
    prove(wants, words, NULL, &proof);
    assert_int_equal(answer_of(&proof, AF_CHECK_LIBRARIES), AF_NO);
    assert_string_equal(proof.missing_libraries.items[0], "libgone.so.7");
}

static void test_proof__finds_libraries_of_its_own_wheel(void **state)
{
    static const char *const wants[] = {"bundled_function", NULL};
    struct af_proof proof;
    (void)state;
    const char *const words[] = {af_arena_format(&arena, "-L%s", path_of("pkg.libs")), "-lown",
                                 "-Wl,-rpath,$ORIGIN/../pkg.libs", NULL};
    prove(wants, words, NULL, &proof);
    assert_int_equal(proof.answer, AF_YES);
}

static void test_proof__a_library_that_it_brings_must_be_whole(void **state)
{
    static const char *const wants[] = {"half_function", NULL};
    struct af_proof proof;
    (void)state;
    assert_true(compile_library(&arena, path_of("pkg.libs/libhalf.so"),
                                "int gone_name(void);\n"
                                "int half_function(void) { return gone_name(); }\n",
                                NULL));
    const char *const words[] = {af_arena_format(&arena, "-L%s", path_of("pkg.libs")), "-lhalf",
                                 "-Wl,-rpath,$ORIGIN/../pkg.libs", NULL};
    prove(wants, words, NULL, &proof);
    assert_int_equal(answer_of(&proof, AF_CHECK_LIBRARIES), AF_YES);
    assert_int_equal(answer_of(&proof, AF_CHECK_SYMBOLS), AF_NO);
    assert_int_equal(proof.missing.count, 1);
    assert_string_equal(proof.missing.items[0], "gone_name");
    assert_non_null(strstr(proof.checks[AF_CHECK_SYMBOLS].evidence, "libhalf.so"));
}

static void test_proof__rejects_the_other_string_abi(void **state)
{
    static const char *const wants[] = {CHECK_FAIL_OLD, NULL};
    struct af_proof proof;
    (void)state;
    prove(wants, with_torch(), NULL, &proof);
    assert_int_equal(answer_of(&proof, AF_CHECK_CXX_ABI), AF_NO);
}

static void test_proof__rejects_another_python(void **state)
{
    static const char *const wants[] = {"PyLong_FromLong", NULL};
    struct af_proof proof;
    (void)state;
    prove_as("ext.cpython-311-x86_64-linux-gnu.so", wants, NULL, NULL, &proof);
    assert_int_equal(answer_of(&proof, AF_CHECK_PYTHON), AF_NO);
    prove_as("ext.abi3.so", wants, NULL, NULL, &proof);
    assert_int_equal(answer_of(&proof, AF_CHECK_PYTHON), AF_YES);
    prove_as("other.so", wants, NULL, NULL, &proof);
    assert_int_equal(answer_of(&proof, AF_CHECK_PYTHON), AF_NO);
}

static void test_proof__a_library_may_hold_a_module_of_another_name(void **state)
{
    static const char *const wants[] = {"PyLong_FromLong", NULL};
    struct af_proof proof;
    (void)state;
    prove_as("libext_ops.so", wants, NULL, NULL, &proof);
    assert_int_equal(answer_of(&proof, AF_CHECK_PYTHON), AF_YES);
}

static void test_proof__rejects_another_layout_though_all_resolves(void **state)
{
    static const char *const wants[] = {"_ZN2at6Tensor3cpuEv", NULL};
    struct af_proof proof;
    (void)state;
    prove(wants, with_torch(), "2.6", &proof);
    assert_int_equal(proof.imports, AF_YES);
    assert_int_equal(answer_of(&proof, AF_CHECK_SYMBOLS), AF_YES);
    assert_int_equal(answer_of(&proof, AF_CHECK_LAYOUT), AF_NO);
    assert_int_equal(proof.answer, AF_NO);
    prove(wants, with_torch(), "2.9", &proof);
    assert_int_equal(proof.answer, AF_YES);
    assert_string_equal(proof.built_for, "torch 2.9");
}

static void test_proof__an_undated_one_is_unknown(void **state)
{
    static const char *const wants[] = {"_ZN2at6Tensor3cpuEv", NULL};
    struct af_proof proof;
    (void)state;
    prove(wants, with_torch(), NULL, &proof);
    assert_int_equal(proof.imports, AF_YES);
    assert_int_equal(proof.answer, AF_UNKNOWN);
}

static void test_proof__bytes_win_over_the_name(void **state)
{
    static const char *const wants[] = {"_ZN2at6Tensor3cpuEv", INCREF, NULL};
    struct af_proof proof;
    (void)state;
    prove(wants, with_torch(), "2.9", &proof);
    assert_true(proof.stated_torch_is_wrong);
    assert_int_equal(answer_of(&proof, AF_CHECK_LAYOUT), AF_NO);
}

static const char *built_for(const char *first, const char *second)
{
    const char *const wants[] = {"_ZN2at6Tensor3cpuEv", first, second, NULL};
    struct af_proof proof;
    prove(wants, with_torch(), NULL, &proof);
    return proof.built_for;
}

static void test_proof__calls_made_together_date_it(void **state)
{
    static const char of_tensor[] = "_ZNK3c1010TensorImpl27throw_data_ptr_access_errorEv";
    static const char of_storage[] = "_ZNK3c1011StorageImpl27throw_data_ptr_access_errorEv";
    static const char contiguous[] =
        "_ZNK2at10TensorBase21__dispatch_contiguousEN3c1012MemoryFormatE";
    static const char shared[] = "_ZN3c104impl3cow23materialize_cow_storageERNS_11StorageImplE";
    (void)state;
    assert_string_equal(built_for(of_tensor, NULL), "torch 2.0 to 2.5");
    assert_string_equal(built_for(of_tensor, of_storage), "torch 2.0 to 2.15");
    assert_string_equal(built_for(contiguous, NULL), "torch 2.0 to 2.8");
    assert_string_equal(built_for("_ZN3c1021throwNullDataPtrErrorEv", NULL),
                        "torch 2.13 to 2.15");
    assert_string_equal(built_for("_ZN3c1021throwNullDataPtrErrorEv", shared),
                        "torch 2.0 to 2.15");
}

static void test_proof__counting_references_dates_who_owns_tensors(void **state)
{
    static const char makes[] = "_ZN2at4_ops10empty_like4callERKNS_6TensorE";
    (void)state;
    assert_string_equal(built_for(INCREF, NULL), "torch 2.10 to 2.15");
    assert_string_equal(built_for(DECREF, makes), "torch 2.10 to 2.15");
    assert_string_equal(built_for(makes, NULL), "torch 2.0 to 2.9");
    /* Merely receiving tensors proves nothing about its torch. */
    assert_string_equal(built_for("_ZN3c1019UndefinedTensorImpl10_singletonE", NULL),
                        "torch 2.0 to 2.15");
}

static void test_proof__registering_across_its_change_ends_the_import(void **state)
{
    static const char *const wants[] = {REGISTER, NULL};
    struct af_proof proof;
    (void)state;
    prove(wants, with_torch(), "2.8", &proof);
    assert_int_equal(proof.imports, AF_NO);
    prove(wants, with_torch(), "2.6", &proof);
    assert_int_equal(proof.imports, AF_NO);
    prove(wants, with_torch(), "2.9", &proof);
    assert_int_equal(proof.imports, AF_YES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_proof__loads_what_is_whole),
        cmocka_unit_test(test_proof__names_the_missing_symbols),
        cmocka_unit_test(test_proof__a_library_outside_the_closure_does_not_count),
        cmocka_unit_test(test_proof__names_the_missing_library),
        cmocka_unit_test(test_proof__finds_libraries_of_its_own_wheel),
        cmocka_unit_test(test_proof__a_library_that_it_brings_must_be_whole),
        cmocka_unit_test(test_proof__rejects_the_other_string_abi),
        cmocka_unit_test(test_proof__rejects_another_python),
        cmocka_unit_test(test_proof__a_library_may_hold_a_module_of_another_name),
        cmocka_unit_test(test_proof__rejects_another_layout_though_all_resolves),
        cmocka_unit_test(test_proof__an_undated_one_is_unknown),
        cmocka_unit_test(test_proof__bytes_win_over_the_name),
        cmocka_unit_test(test_proof__calls_made_together_date_it),
        cmocka_unit_test(test_proof__counting_references_dates_who_owns_tensors),
        cmocka_unit_test(test_proof__registering_across_its_change_ends_the_import),
    };
    return cmocka_run_group_tests(tests, make_place, remove_place);
}
