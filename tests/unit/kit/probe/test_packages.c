/*
 * test_packages.c: finds the relevant installed packages, in folders made for
 * the test.
 */
#include "machine_place.h"

#define SITE PLACE_SITE
#define INFO SITE "/flash_attn-2.8.3.dist-info"

static const struct af_package *probe_package(struct place *place, const char *name)
{
    place_site(place);
    af_probe_packages(&place->probe);
    assert_int_equal(place->machine.packages.state, AF_FACT_KNOWN);
    return af_machine_package(&place->machine, name);
}

static void make_flash_attn(struct place *place)
{
    place_put(place, INFO "/METADATA",
              "Metadata-Version: 2.4\nName: flash_attn\nVersion: 2.8.3\nRequires-Dist: torch\n"
              "Requires-Dist: einops\n\nName: not a header\n");
    place_put(place, INFO "/WHEEL",
              "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: cp312-cp312-linux_x86_64\n");
    place_put(place, INFO "/INSTALLER", "uv\n");
    place_put(place, INFO "/direct_url.json",
              "{\"url\":\"https://me:secret@h.org/flash_attn.whl\",\"archive_info\":{}}");
    place_put(place, INFO "/RECORD",
              "flash_attn/__init__.py,,\n"
              "flash_attn_2_cuda.cpython-312-x86_64-linux-gnu.so,"
              "sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,3\n"
              "flash_attn-2.8.3.dist-info/RECORD,,\n");
    place_put(place, SITE "/flash_attn/__init__.py", "__version__ = \"2.8.3\"\n");
    place_put(place, SITE "/flash_attn_2_cuda.cpython-312-x86_64-linux-gnu.so", "elf");
}

static void test_packages__flash_attn_with_its_origin_and_files(void **state)
{
    struct place *place = *state;
    make_flash_attn(place);
    const struct af_package *found = probe_package(place, "flash-attn");
    assert_non_null(found);
    assert_int_equal(place->machine.packages.count, 1);
    assert_fact(&found->version, "2.8.3");
    assert_fact(&found->installer, "uv");
    assert_fact(&found->origin, "https://h.org/flash_attn.whl");
    assert_int_equal(af_fact_truth(&found->purelib), AF_NO);
    assert_int_equal(found->built_for_torch.state, AF_FACT_ABSENT);
    assert_fact(&found->needs_torch, "");
    assert_int_equal(found->extensions.value.list.count, 1);
    assert_int_equal(found->missing_files.state, AF_FACT_KNOWN);
    assert_int_equal(found->missing_files.value.list.count, 0);
}

static void test_packages__files_of_record_that_are_gone_are_named(void **state)
{
    struct place *place = *state;
    make_flash_attn(place);
    unlink(place_path(place, SITE "/flash_attn/__init__.py"));
    const struct af_package *found = probe_package(place, "flash-attn");
    assert_int_equal(found->missing_files.value.list.count, 1);
    assert_string_equal(found->missing_files.value.list.items[0], "flash_attn/__init__.py");
}

#define MODULE "flash_attn_2_cuda.cpython-312-x86_64-linux-gnu.so"

static void test_packages__kernels_inside_xformers_are_listed(void **state)
{
    struct place *place = *state;
    place_put(place, SITE "/xformers-0.0.32.dist-info/METADATA",
              "Name: xformers\nVersion: 0.0.32\nRequires-Dist: torch==2.8.0\n");
    place_put(place, SITE "/xformers-0.0.32.dist-info/RECORD",
              "xformers/__init__.py,,\nxformers/_C.so,,3\nxformers/flash_attn_3/_C.so,,3\n");
    const struct af_package *found = probe_package(place, "xformers");
    assert_int_equal(found->extensions.value.list.count, 2);
    assert_string_equal(found->extensions.value.list.items[1], "xformers/flash_attn_3/_C.so");
    assert_unknown(&found->missing_files, "flash-attn only");
}

static void test_packages__another_size_than_in_record_is_seen(void **state)
{
    struct place *place = *state;
    make_flash_attn(place);
    place_put(place, INFO "/RECORD", "flash_attn/__init__.py,,5\n" MODULE ",,3\n");
    const struct af_package *found = probe_package(place, "flash-attn");
    assert_int_equal(found->changed_files.value.list.count, 1);
    assert_string_equal(found->changed_files.value.list.items[0], "flash_attn/__init__.py");
    assert_int_equal(found->broken_files.value.list.count, 0);
}

static void test_packages__a_module_cut_short_is_broken(void **state)
{
    struct place *place = *state;
    make_flash_attn(place);
    place_put(place, INFO "/RECORD", MODULE ",,999999\n");
    place_elf(place, SITE "/" MODULE, "libc10_cuda.so");
    const struct af_package *found = probe_package(place, "flash-attn");
    assert_int_equal(found->changed_files.value.list.count, 1);
    assert_int_equal(found->broken_files.value.list.count, 0); /* stripped: still whole */
    assert_int_equal(truncate(place_path(place, SITE "/" MODULE), 300), 0);
    place_reset(place);
    found = probe_package(place, "flash-attn");
    assert_int_equal(found->broken_files.value.list.count, 1);
}

static void put_torch(struct place *place)
{
    place_put(place, SITE "/torch/version.py", "__version__ = '2.8.0+cu128'\ncuda = '12.8'\n");
    place_put(place, SITE "/torch/__init__.py", "");
    place_elf(place, SITE "/torch/lib/libc10.so", "libc10-new.so");
    place_elf(place, SITE "/torch/lib/libc10_cuda.so", "libc10_cuda.so");
    place_put(place, SITE "/torch/lib/libtorch_cpu.so", "");
    place_elf(place, SITE "/torch/lib/libtorch_global_deps.so", "libc10_cuda.so");
    place_elf(place, SITE "/nvidia/cuda_runtime/lib/libcudart.so.12", "cudart.so");
    place_put(place, SITE "/torch-2.8.0.dist-info/METADATA", "Name: torch\nVersion: 2.8.0\n");
    place_put(place, SITE "/torch-2.8.0.dist-info/RECORD",
              "torch/version.py,,\ntorch/__init__.py,,\ntorch/lib/libtorch_cpu.so,,0\n"
              "torch/include/gone.h,,1\n");
}

static struct af_torch *probe_all(struct place *place)
{
    place_reset(place);
    place_site(place);
    af_probe_torch(&place->probe);
    af_probe_packages(&place->probe);
    return &place->machine.torch;
}

static void test_packages__torchs_main_files_are_compared(void **state)
{
    struct place *place = *state;
    put_torch(place);
    struct af_torch *torch = probe_all(place);
    assert_int_equal(torch->missing_files.state, AF_FACT_KNOWN);
    assert_int_equal(torch->missing_files.value.list.count, 0);
    unlink(place_path(place, SITE "/torch/version.py"));
    unlink(place_path(place, SITE "/torch/lib/libtorch_cpu.so"));
    torch = probe_all(place);
    assert_int_equal(torch->missing_files.value.list.count, 2);
    assert_string_equal(torch->missing_files.value.list.items[0], "torch/version.py");
}

static void test_packages__cuda_libraries_that_are_gone_are_named(void **state)
{
    struct place *place = *state;
    put_torch(place);
    make_flash_attn(place);
    place_elf(place, SITE "/" MODULE, "libc10_cuda.so"); /* needs libcudart.so.12 */
    assert_int_equal(probe_all(place)->missing_libraries.value.list.count, 0);
    const struct af_package *flash = af_machine_package(&place->machine, "flash-attn");
    assert_int_equal(flash->missing_libraries.state, AF_FACT_KNOWN);
    assert_int_equal(flash->missing_libraries.value.list.count, 0);
    unlink(place_path(place, SITE "/nvidia/cuda_runtime/lib/libcudart.so.12"));
    struct af_torch *torch = probe_all(place);
    assert_int_equal(torch->missing_libraries.value.list.count, 1);
    assert_string_equal(torch->missing_libraries.value.list.items[0], "libcudart.so.12");
    flash = af_machine_package(&place->machine, "flash-attn");
    assert_int_equal(flash->missing_libraries.value.list.count, 1);
}

static void assert_einops_missing(struct place *place, bool is_missing)
{
    const struct af_fact *missing = &probe_package(place, "flash-attn")->missing_requirements;
    assert_int_equal(missing->state, AF_FACT_KNOWN);
    assert_int_equal(missing->value.list.count, is_missing ? 1 : 0);
    if (is_missing)
        assert_string_equal(missing->value.list.items[0], "einops");
}

static void test_packages__missing_requirement_is_found(void **state)
{
    struct place *place = *state;
    make_flash_attn(place);
    assert_einops_missing(place, true);
    place_put(place, SITE "/einops-0.8.1.dist-info/METADATA", "Name: einops\nVersion: 0.8.1\n");
    place_put(place, SITE "/einops-0.8.1.dist-info/RECORD", "einops/__init__.py,,\n");
    assert_einops_missing(place, true);
    place_put(place, SITE "/einops/__init__.py", "");
    assert_einops_missing(place, false);
}

static void test_packages__source_build_of_uv_names_its_torch(void **state)
{
    struct place *place = *state;
    make_flash_attn(place);
    place_put(place, INFO "/uv_build.json",
              "{\"extra_build_requires\":[{\"requirement\":{\"name\":\"torch\","
              "\"specifier\":\"==2.8.0\"}}]}");
    assert_fact(&probe_package(place, "flash-attn")->built_for_torch, "==2.8.0");
}

static void test_packages__only_those_that_need_torch_are_listed(void **state)
{
    struct place *place = *state;
    place_put(place, SITE "/a-1.0.dist-info/METADATA",
              "Name: A.b\nVersion: 1.0\nRequires-Dist: torch (>=2.4) ; python_version > '3'\n"
              "Requires-Dist: torch==2.8.*\n");
    place_put(place, SITE "/b-1.0.dist-info/METADATA",
              "Name: b\nVersion: 1.0\nRequires-Dist: torch ; extra == 'gpu'\n"
              "Requires-Dist: torchvision\n");
    place_put(place, SITE "/c-1.0.egg-info/PKG-INFO", "Name: c\nVersion: 1.0\n");
    place_put(place, SITE "/c-1.0.egg-info/requires.txt", "flash-attn<3\n\n[x]\ntorch\n");
    place_put(place, SITE "/d-1.0.egg-info", "Name: d\nVersion: 1.0\nRequires-Dist: torch\n");
    assert_fact(&probe_package(place, "a-b")->needs_torch, "==2.8.*");
    assert_null(af_machine_package(&place->machine, "b"));
    const struct af_package *egg = af_machine_package(&place->machine, "c");
    assert_fact(&egg->needs_flash_attn, "<3");
    assert_int_equal(egg->needs_torch.state, AF_FACT_ABSENT);
    assert_non_null(af_machine_package(&place->machine, "d"));
    assert_int_equal(place->machine.packages.count, 3);
}

struct window_case {
    const char *package;
    const char *file;
    const char *text;
    const char *min;
    const char *max;
};

static void test_packages__peers_code_says_which_flash_attn_it_takes(void **state)
{
    static const struct window_case cases[] = {
        {"xformers", "xformers/ops/fmha/flash.py",
         "    FLASH_VER_MIN = (2, 7, 1)\n    FLASH_VER_LAST = (2, 8, 0)  # inclusive\n",
         "2.7.1", "2.8.0"},
        {"xformers", "xformers/ops/fmha/flash.py",
         "    FLASH_VER_MIN = parse_version(\"2.7.1\")\n"
         "    FLASH_VER_LAST = parse_version(\"2.8.4\")\n",
         "2.7.1", "2.8.4"},
        {"transformer_engine",
         "transformer_engine/pytorch/attention/dot_product_attention/utils.py",
         "    version_required = PkgVersion(\"2.1.1\")\n"
         "    version_required_blackwell = PkgVersion(\"2.7.3\")\n"
         "    max_version = PkgVersion(\"2.7.4.post1\")\n",
         "2.1.1", "2.7.4.post1"},
        {"transformer_engine",
         "transformer_engine/pytorch/attention/dot_product_attention/utils.py",
         "    version_required = PkgVersion(\"2.1.1\")\n    max_version = "
         "PkgVersion(\"2.8.4\")\n"
         "        return minimum_version <= version < FlashAttentionUtils.max_version\n",
         "2.1.1", "2.8.4.dev0"},
        {"transformer_engine", "transformer_engine/pytorch/attention.py",
         "_flash_attn_version_required = PkgVersion(\"2.1.1\")\n"
         "_flash_attn_max_version = PkgVersion(\"2.6.3\")\n",
         "2.1.1", "2.6.3"},
        {"transformers", "transformers/utils/import_utils.py",
         "x >= version.parse(\"9\")\ndef is_flash_attn_2_available(k: bool) -> bool:\n"
         "    return version.parse(v) >= version.parse(\"2.3.3\")\ndef f():\n",
         "2.3.3", NULL},
    };
    (void)state;
    for (size_t i = 0; i < AF_COUNT(cases); i++) {
        void *made;
        char path[256];
        char name[64];
        assert_int_equal(place_make(&made), 0);
        struct place *place = made;
        snprintf(path, sizeof path, SITE "/%s-1.0.dist-info/METADATA", cases[i].package);
        snprintf(name, sizeof name, "Name: %s\nVersion: 1.0\n", cases[i].package);
        place_put(place, path, name);
        snprintf(path, sizeof path, SITE "/%s", cases[i].file);
        place_put(place, path, cases[i].text);
        place_site(place);
        af_probe_packages(&place->probe);
        assert_int_equal(place->machine.packages.count, 1);
        const struct af_package *found = &place->machine.packages.rows[0];
        assert_fact(&found->flash_attn_min, cases[i].min);
        if (cases[i].max == NULL)
            assert_int_equal(found->flash_attn_max.state, AF_FACT_ABSENT);
        else
            assert_fact(&found->flash_attn_max, cases[i].max);
        place_remove(&made);
    }
}

static void test_packages__window_of_unknown_shape_is_unknown_and_named(void **state)
{
    struct place *place = *state;
    place_put(place, SITE "/xformers-1.0.dist-info/METADATA", "Name: xformers\nVersion: 1.0\n");
    place_put(place, SITE "/xformers/ops/fmha/flash.py",
              "FLASH_VER_MIN = (2, 7, 1\nFLASH_VER_LAST = compute(\"\x1b[31m\")\n");
    const struct af_package *found = probe_package(place, "xformers");
    assert_unknown(&found->flash_attn_min, "flash.py");
    assert_unknown(&found->flash_attn_max, "flash.py");
}

static void test_packages__empty_info_left_by_a_killed_upgrade_comes_last(void **state)
{
    struct place *place = *state;
    make_flash_attn(place);
    mkdir(place_path(place, SITE "/flash_attn-2.7.0.dist-info"), 0755);
    assert_fact(&probe_package(place, "flash-attn")->version, "2.8.3");
    assert_int_equal(place->machine.packages.count, 2);
    const struct af_package *broken = &place->machine.packages.rows[1];
    assert_fact(&broken->name, "flash-attn");
    assert_unknown(&broken->version, "flash_attn-2.7.0.dist-info/METADATA");
    assert_unknown(&broken->missing_files, "RECORD");
}

static void test_packages__flash_attn_from_a_source_tree_is_listed(void **state)
{
    struct place *place = *state;
    place_put(place, SITE "/flash_attn/__init__.py",
              "__version__ = \"2.8.4\"\n\nfrom x import y\n");
    const struct af_package *found = probe_package(place, "flash-attn");
    assert_fact(&found->version, "2.8.4");
    assert_int_equal(found->installer.state, AF_FACT_ABSENT);
}

static void test_packages__condas_record_alone_is_enough_for_the_version(void **state)
{
    struct place *place = *state;
    place_put(place, "/venv/conda-meta/flash-attn-layer-norm-2.8.3-py312_5.json", "{}");
    place_put(place, "/venv/conda-meta/flash-attn-2.8.3-py312h0_5.json", "{}");
    const struct af_package *found = probe_package(place, "flash-attn");
    assert_fact(&found->version, "2.8.3");
    assert_fact(&found->installer, "conda");
    assert_int_equal(place->machine.packages.count, 1);
}

static void test_packages__hostile_files_lose_facts_only(void **state)
{
    struct place *place = *state;
    make_flash_attn(place);
    place_put(place, INFO "/direct_url.json", "{\"url\":");
    place_put_n(place, INFO "/WHEEL", "\0\xff\0", 3);
    unlink(place_path(place, INFO "/INSTALLER"));
    assert_int_equal(mkfifo(place_path(place, INFO "/INSTALLER"), 0600), 0);
    place_link(place, SITE "/xformers-1.dist-info", "xformers-1.dist-info");
    assert_int_equal(truncate(place_path(place, INFO "/RECORD"), 100 << 20), 0);
    const struct af_package *found = probe_package(place, "flash-attn");
    assert_fact(&found->version, "2.8.3");
    assert_unknown(&found->origin, "direct_url.json");
    assert_unknown(&found->purelib, "WHEEL");
    assert_unknown(&found->installer, "INSTALLER");
    assert_unknown(&found->extensions, "RECORD");
    assert_unknown(&af_machine_package(&place->machine, "xformers")->version,
                   "xformers-1.dist-info");
}

static void test_packages__unknown_folders_make_the_list_unknown(void **state)
{
    struct place *place = *state;
    af_fact_unknown(&place->machine.arena, &place->machine.python.site_packages,
                    "'cfg' is odd");
    af_probe_packages(&place->probe);
    assert_int_equal(place->machine.packages.state, AF_FACT_UNKNOWN);
    assert_string_equal(place->machine.packages.source, "'cfg' is odd");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PLACE_TEST(test_packages__flash_attn_with_its_origin_and_files),
        PLACE_TEST(test_packages__files_of_record_that_are_gone_are_named),
        PLACE_TEST(test_packages__kernels_inside_xformers_are_listed),
        PLACE_TEST(test_packages__another_size_than_in_record_is_seen),
        PLACE_TEST(test_packages__a_module_cut_short_is_broken),
        PLACE_TEST(test_packages__torchs_main_files_are_compared),
        PLACE_TEST(test_packages__cuda_libraries_that_are_gone_are_named),
        PLACE_TEST(test_packages__missing_requirement_is_found),
        PLACE_TEST(test_packages__source_build_of_uv_names_its_torch),
        PLACE_TEST(test_packages__only_those_that_need_torch_are_listed),
        PLACE_TEST(test_packages__peers_code_says_which_flash_attn_it_takes),
        PLACE_TEST(test_packages__window_of_unknown_shape_is_unknown_and_named),
        PLACE_TEST(test_packages__empty_info_left_by_a_killed_upgrade_comes_last),
        PLACE_TEST(test_packages__flash_attn_from_a_source_tree_is_listed),
        PLACE_TEST(test_packages__condas_record_alone_is_enough_for_the_version),
        PLACE_TEST(test_packages__hostile_files_lose_facts_only),
        PLACE_TEST(test_packages__unknown_folders_make_the_list_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
