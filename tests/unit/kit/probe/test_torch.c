/*
 * test_torch.c: the torch probe on package folders made of tiny files.
 */
#include "machine_place.h"

#define SITE PLACE_SITE
#define VERSION_PY                                                                             \
    "from typing import Optional\n\n__all__ = ['__version__', 'debug', 'cuda']\n"              \
    "__version__ = '2.8.0+cu128'\ndebug = False\ncuda: Optional[str] = '12.8'\n"               \
    "git_version = 'a1cb3cc05d46d198467bebbb6e8fba50a325d4e7'\nhip: Optional[str] = None\n"

static struct af_torch *probe_torch(struct place *place)
{
    place_site(place);
    af_probe_torch(&place->probe);
    return &place->machine.torch;
}

static void make_torch(struct place *place, const char *version_py)
{
    place_put(place, SITE "/torch/version.py", version_py);
    place_elf(place, SITE "/torch/lib/libc10.so", "libc10-new.so");
    place_elf(place, SITE "/torch/lib/libc10_cuda.so", "libc10_cuda.so");
    place_elf(place, SITE "/torch/lib/libtorch_python.so", "libtorch_python.so");
    place_put(place, SITE "/torch/lib/libtorch_cpu.so", "");
    place_elf(place, SITE "/nvidia/cuda_runtime/lib/libcudart.so.12", "cudart.so");
}

static void test_torch__release_is_read_from_its_files(void **state)
{
    struct place *place = *state;
    make_torch(place, VERSION_PY);
    struct af_torch *torch = probe_torch(place);
    assert_fact(&torch->version, "2.8.0+cu128");
    assert_fact(&torch->build, "release");
    assert_fact(&torch->cuda, "12.8");
    assert_int_equal(torch->hip.state, AF_FACT_ABSENT);
    assert_fact(&torch->git, "a1cb3cc05d46d198467bebbb6e8fba50a325d4e7");
    assert_int_equal(af_fact_truth(&torch->cxx11abi), AF_YES);
    assert_fact(&torch->c10_soname, "libc10.so");
    assert_fact(&torch->cudart_soname, "libcudart.so.12");
    assert_fact_ends(&torch->cudart_path, "/nvidia/cuda_runtime/lib/libcudart.so.12");
}

static void test_torch__longest_list_that_ends_in_nul_is_the_targets(void **state)
{
    struct place *place = *state;
    make_torch(place, VERSION_PY);
    struct af_torch *torch = probe_torch(place);
    assert_int_equal(torch->gpu_targets.value.list.count, 3);
    assert_string_equal(torch->gpu_targets.value.list.items[0], "sm_80");
    assert_string_equal(torch->gpu_targets.value.list.items[1], "sm_90a");
    assert_string_equal(torch->gpu_targets.value.list.items[2], "compute_120");
}

static void test_torch__old_string_abi_is_seen_by_symbol(void **state)
{
    struct place *place = *state;
    make_torch(place, VERSION_PY);
    place_elf(place, SITE "/torch/lib/libc10.so", "libc10-old.so");
    assert_int_equal(af_fact_truth(&probe_torch(place)->cxx11abi), AF_NO);
}

struct build_case {
    const char *version;
    const char *build;
};

static void test_torch__who_built_it_shows_in_the_version(void **state)
{
    static const struct build_case cases[] = {
        {"2.8.0", "release"},
        {"2.6.0+cpu", "release"},
        {"2.6.0+rocm6.2.4", "release"},
        {"2.9.0.dev20250801+cu128", "prerelease"},
        {"2.8.0rc1+cu128", "prerelease"},
        {"2.9.0a0+50eac811a6.nv25.09", "vendor"},
        {"2.4.0a0+07cecf4168.nv24.5", "vendor"},
        {"2.9.0a0+git1234567", "source"},
        {"2.5.1+git8420923", "source"},
        {"2.6.0+debian", "distribution"},
    };
    struct place *place = *state;
    for (size_t i = 0; i < AF_COUNT(cases); i++) {
        char text[256];
        place_reset(place);
        snprintf(text, sizeof text, "__version__ = '%s'\ncuda = '12.8'\n", cases[i].version);
        make_torch(place, text);
        assert_fact(&probe_torch(place)->build, cases[i].build);
    }
}

static void test_torch__distribution_is_seen_by_its_versioned_soname(void **state)
{
    struct place *place = *state;
    place_put(place, SITE "/torch/version.py", "__version__ = '2.6.0'\ncuda = '12.4'\n");
    place_elf(place, "/usr/lib/x86_64-linux-gnu/libc10.so.2.6", "libc10-debian.so");
    struct af_torch *torch = probe_torch(place);
    assert_fact(&torch->c10_soname, "libc10.so.2.6");
    assert_fact(&torch->build, "distribution");
    assert_unknown(&torch->cudart_soname, "libc10_cuda.so");
}

static void test_torch__cpu_build_has_no_cuda_facts(void **state)
{
    struct place *place = *state;
    make_torch(place, "__version__ = '2.8.0+cpu'\ncuda: Optional[str] = None\n");
    struct af_torch *torch = probe_torch(place);
    assert_int_equal(torch->cuda.state, AF_FACT_ABSENT);
    assert_int_equal(torch->cudart_soname.state, AF_FACT_ABSENT);
    assert_int_equal(torch->gpu_targets.state, AF_FACT_ABSENT);
}

static void test_torch__runtime_that_is_nowhere_is_absent(void **state)
{
    struct place *place = *state;
    make_torch(place, VERSION_PY);
    unlink(place_path(place, SITE "/nvidia/cuda_runtime/lib/libcudart.so.12"));
    struct af_torch *torch = probe_torch(place);
    assert_fact(&torch->cudart_soname, "libcudart.so.12");
    assert_int_equal(torch->cudart_path.state, AF_FACT_ABSENT);
}

static void test_torch__runtime_of_the_system_is_found_in_the_ld_cache(void **state)
{
    struct place *place = *state;
    static const char cache[] = "ld.so-1.7.0\0libcudart.so.12\0/cuda/lib/libcudart.so.12\0";
    make_torch(place, VERSION_PY);
    unlink(place_path(place, SITE "/nvidia/cuda_runtime/lib/libcudart.so.12"));
    place_put_n(place, "/etc/ld.so.cache", cache, sizeof cache);
    assert_fact_ends(&probe_torch(place)->cudart_path, "/cuda/lib/libcudart.so.12");
}

static void test_torch__truncated_version_py_is_unknown_and_named(void **state)
{
    static const char *const texts[] = {"", "__version__ = '2.8", "__version__ = 2.8\n",
                                        "__version__ = 'x'\n", "__version__"};
    struct place *place = *state;
    for (size_t i = 0; i < AF_COUNT(texts); i++) {
        place_reset(place);
        make_torch(place, texts[i]);
        struct af_torch *torch = probe_torch(place);
        assert_unknown(&torch->version, "torch/version.py");
        assert_unknown(&torch->build, "torch/version.py");
        assert_unknown(&torch->cuda, "torch/version.py");
        assert_int_equal(af_fact_truth(&torch->cxx11abi), AF_YES);
    }
}

static void test_torch__binary_or_huge_version_py_is_unknown_and_named(void **state)
{
    struct place *place = *state;
    make_torch(place, VERSION_PY);
    place_put_n(place, SITE "/torch/version.py", "__version__ = '2.8.0'\n\0\xff", 24);
    assert_unknown(&probe_torch(place)->version, "version.py' is not a text file");
    assert_int_equal(truncate(place_path(place, SITE "/torch/version.py"), 100 << 20), 0);
    assert_unknown(&probe_torch(place)->version, "version.py");
}

static void test_torch__damaged_libraries_are_unknown_and_named(void **state)
{
    struct place *place = *state;
    make_torch(place, VERSION_PY);
    place_put(place, SITE "/torch/lib/libc10.so", "not a library");
    place_put(place, SITE "/torch/lib/libc10_cuda.so", "");
    place_elf(place, SITE "/torch/lib/libtorch_python.so", "cudart.so");
    struct af_torch *torch = probe_torch(place);
    assert_unknown(&torch->cxx11abi, "libc10.so");
    assert_unknown(&torch->c10_soname, "libc10.so");
    assert_unknown(&torch->cudart_soname, "libc10_cuda.so");
    assert_unknown(&torch->gpu_targets, "libtorch_python.so");
}

static void test_torch__not_installed_is_absent_and_unknown_site_is_unknown(void **state)
{
    struct place *place = *state;
    place_put(place, SITE "/torch/left_by_uninstall", "");
    assert_int_equal(probe_torch(place)->version.state, AF_FACT_ABSENT);
    af_fact_unknown(&place->machine.arena, &place->machine.python.site_packages,
                    "'cfg' is odd");
    af_probe_torch(&place->probe);
    assert_unknown(&place->machine.torch.version, "'cfg' is odd");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PLACE_TEST(test_torch__release_is_read_from_its_files),
        PLACE_TEST(test_torch__longest_list_that_ends_in_nul_is_the_targets),
        PLACE_TEST(test_torch__old_string_abi_is_seen_by_symbol),
        PLACE_TEST(test_torch__who_built_it_shows_in_the_version),
        PLACE_TEST(test_torch__distribution_is_seen_by_its_versioned_soname),
        PLACE_TEST(test_torch__cpu_build_has_no_cuda_facts),
        PLACE_TEST(test_torch__runtime_that_is_nowhere_is_absent),
        PLACE_TEST(test_torch__runtime_of_the_system_is_found_in_the_ld_cache),
        PLACE_TEST(test_torch__truncated_version_py_is_unknown_and_named),
        PLACE_TEST(test_torch__binary_or_huge_version_py_is_unknown_and_named),
        PLACE_TEST(test_torch__damaged_libraries_are_unknown_and_named),
        PLACE_TEST(test_torch__not_installed_is_absent_and_unknown_site_is_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
