/*
 * test_verdict.c: one behaviour of the rules per row: a machine in words, a
 * wheel of the catalog, and the reason that must be found; or must not be, with
 * '!'.
 */
#include "tests/unit/kit/fit/given_machine.h"

struct row {
    const char *name;
    const char *words;
    const char *wheel;
    const char *reason; /* "-": nothing but notes */
};

#define LINUX "os=linux arch=x86_64 glibc=2.35 "
#define ADA "sm=8.9 "
#define PY312_28 "flash_attn-2.8.3.post1+cu12torch2.8cxx11abiTRUE-cp312-cp312-linux_x86_64.whl"
#define PY310_26_FALSE "flash_attn-2.8.2+cu12torch2.6cxx11abiFALSE-cp310-cp310-linux_x86_64.whl"
#define OLD_26_TRUE                                                                            \
    "flash_attn-2.7.4.post1+cu12torch2.6cxx11abiTRUE-cp310-cp310-linux_x86_64.whl"
#define OLD_25_FALSE                                                                           \
    "flash_attn-2.7.4.post1+cu12torch2.5cxx11abiFALSE-cp312-cp312-linux_x86_64.whl"
#define CU130_210                                                                              \
    "flash_attn-2.6.3+cu130torch2.10-cp312-cp312-manylinux_2_24_x86_64.manylinux_2_28_x86_64." \
    "whl"
#define FA3_28                                                                                 \
    "flash_attn_3-3.0.0+cu126torch2.8gite2743ab-cp39-abi3-manylinux_2_24_x86_64"               \
    ".manylinux_2_28_x86_64.whl"
#define FA4 "flash_attn_4-4.0.0b10-py3-none-any.whl"
#define FA4_OLD "flash_attn_4-4.0.0b4-py3-none-any.whl"
#define T28 "torch=2.8.0+cu128 "
#define BUILT "flash_attn-2.8.3.post2+any.ptx.hd64.bf16-py3-none-manylinux_2_28_x86_64.whl"
#define PTX "flash_attn-2.8.3.post2+any.ptx-py3-none-manylinux_2_28_x86_64.whl"

static const struct row rows[] = {
    {"exact_wheel_fits", LINUX ADA "python=3.12 " T28, PY312_28, "-"},
    {"other_python_is_refused", LINUX ADA "python=3.11 " T28, PY312_28,
     "wheel-tag-wrong-python"},
    {"free_threaded_python_is_another", LINUX ADA "python=3.12t " T28, PY312_28,
     "wheel-tag-wrong-python"},
    {"pypy_is_refused", LINUX ADA "python=pypy3.10 " T28, PY312_28, "python-not-cpython"},
    {"unknown_python_is_open", LINUX ADA T28, PY312_28, "unknown-python"},
    {"linux_wheel_not_on_windows", "os=windows arch=x86_64 python=3.12 " T28, PY312_28,
     "wheel-tag-wrong-platform"},
    {"x86_wheel_not_on_aarch64", "os=linux arch=aarch64 python=3.12 " T28, PY312_28,
     "wheel-tag-wrong-platform"},
    {"musl_loads_no_linux_wheel", "os=linux arch=x86_64 musl=1.2 python=3.12 " T28, PY312_28,
     "wheel-tag-wrong-platform"},
    {"unknown_platform_is_open", "python=3.12 " T28, PY312_28, "unknown-platform"},
    {"unknown_system_is_open", "arch=x86_64 python=3.12 " T28, PY312_28, "unknown-os"},
    {"unknown_processor_is_open", "os=linux python=3.12 " T28, PY312_28, "unknown-arch"},
    {"missing_torch_is_named", LINUX ADA "python=3.12 torch=none", PY312_28, "torch-missing"},
    {"unknown_torch_is_open", LINUX ADA "python=3.12", PY312_28, "unknown-torch"},
    {"other_minor_is_refused", LINUX ADA "python=3.12 torch=2.9.1+cu128", PY312_28,
     "torch-minor-mismatch"},
    {"nightly_torch_takes_no_wheel", LINUX ADA "python=3.12 torch=2.8.0.dev20250319+cu128",
     PY312_28, "torch-nightly"},
    {"vendor_torch_takes_no_wheel", LINUX ADA "python=3.12 torch=2.8.0a0+5228986c39.nv25.05",
     PY312_28, "ngc-prerelease-torch"},
    {"neighbour_is_open", LINUX ADA "python=3.12 torch=2.12.0+cu130", CU130_210,
     "torch-minor-neighbour"},
    {"neighbour_is_not_refused", LINUX ADA "python=3.12 torch=2.12.0+cu130", CU130_210,
     "!torch-minor-mismatch"},
    {"nightly_built_wheel_is_refused", LINUX ADA "python=3.10 torch=2.3.0+cu121",
     "flash_attn-2.5.7+cu122torch2.3cxx11abiFALSE-cp310-cp310-linux_x86_64.whl",
     "torch-nightly-wheel"},
    {"patch_that_matters_is_refused", LINUX ADA "python=3.10 torch=2.2.0+cu121",
     "flash_attn-2.5.8+cu122torch2.2cxx11abiFALSE-cp310-cp310-linux_x86_64.whl",
     "torch-patch-mismatch"},
    {"its_own_patch_is_taken", LINUX ADA "python=3.10 torch=2.2.2+cu121",
     "flash_attn-2.5.8+cu122torch2.2cxx11abiFALSE-cp310-cp310-linux_x86_64.whl",
     "!torch-patch-mismatch"},
    {"cuda_major_must_be_torchs", LINUX ADA "python=3.12 torch=2.8.0 torch_cuda=13.0", PY312_28,
     "cuda-major-mismatch"},
    {"cuda_minor_does_not_matter", LINUX ADA "python=3.12 torch=2.8.0+cu126", PY312_28, "-"},
    {"cpu_torch_is_named", LINUX ADA "python=3.12 torch=2.8.0+cpu", PY312_28,
     "torch-without-cuda"},
    {"bare_version_leaves_cuda_open", LINUX ADA "python=3.12 torch=2.8.0", PY312_28,
     "unknown-torch-cuda"},
    {"rocm_torch_takes_no_cuda_wheel", LINUX "python=3.12 torch=2.8.0+rocm6.4", PY312_28,
     "rocm"},
    {"untrue_abi_label_is_named", LINUX ADA "python=3.10 torch=2.6.0+cu124", PY310_26_FALSE,
     "mislabelled-wheel"},
    {"untrue_abi_label_fits_the_other", LINUX ADA "python=3.10 torch=2.6.0+cu126",
     PY310_26_FALSE, "!mislabelled-wheel"},
    {"other_abi_is_refused", LINUX ADA "python=3.10 torch=2.6.0+cu124", OLD_26_TRUE,
     "abi-mismatch"},
    {"torch26_alone_leaves_abi_open", LINUX ADA "python=3.10 torch=2.6.0", OLD_26_TRUE,
     "unknown-torch-abi"},
    {"read_abi_wins_over_the_table", LINUX ADA "python=3.10 torch=2.6.0+cu124 cxx11abi=true",
     OLD_26_TRUE, "!abi-mismatch"},
    {"old_glibc_is_refused", "os=linux arch=x86_64 glibc=2.31 python=3.12 " ADA T28, PY312_28,
     "glibc-too-old"},
    {"build_image_glibc_is_open",
     "os=linux arch=x86_64 glibc=2.28 python=3.12 torch=2.5.1+cu124 " ADA, OLD_25_FALSE,
     "glibc-may-be-too-old"},
    {"unknown_glibc_is_open", "os=linux arch=x86_64 python=3.12 " ADA T28, PY312_28,
     "unknown-glibc"},
    {"old_libstdcxx_is_said", LINUX "glibcxx=3.4.25 python=3.12 " ADA T28, PY312_28,
     "libstdcxx-too-old"},
    {"no_gpu_is_named", LINUX "gpu=none python=3.12 " T28, PY312_28, "no-nvidia-gpu"},
    {"unknown_gpu_is_open", LINUX "python=3.12 " T28, PY312_28, "unknown-gpu"},
    {"turing_is_refused", LINUX "sm=7.5 python=3.12 " T28, PY312_28, "sm-unsupported"},
    {"blackwell_finds_no_code_in_old_wheels", LINUX "sm=12.0 python=3.12 torch=2.5.1+cu124",
     OLD_25_FALSE, "sm-not-in-wheel"},
    {"blackwell_is_refused_by_older_code", LINUX "sm=12.0 python=3.12 torch=2.6.0+cu126",
     "flash_attn-2.7.2.post1+cu12torch2.6cxx11abiFALSE-cp312-cp312-linux_x86_64.whl",
     "sm-unsupported"},
    {"consumer_blackwell_runs_sm120", LINUX "sm=12.0 python=3.12 " T28, PY312_28, "-"},
    {"gb10_runs_sm120_code", LINUX "sm=12.1 python=3.12 " T28, PY312_28, "-"},
    {"orin_is_not_settled", LINUX "sm=8.7 python=3.12 " T28, PY312_28, "sm-not-settled"},
    {"thor_finds_no_code", LINUX "sm=11.0 python=3.12 " T28, PY312_28, "sm-not-in-wheel"},
    {"driver_below_the_floor_is_refused", LINUX ADA "driver=470.82.01 python=3.12 " T28,
     PY312_28, "driver-too-old"},
    {"driver_535_runs_cuda_12_8_cubins", LINUX ADA "driver=535.183.01 python=3.12 " T28,
     PY312_28, "-"},
    {"fa3_is_not_for_blackwell", LINUX "sm=12.0 python=3.12 " T28, FA3_28, "fa3-needs-hopper"},
    {"fa3_fits_hopper", LINUX "sm=9.0 python=3.12 " T28, FA3_28, "-"},
    {"fa4_is_for_ada", LINUX ADA "python=3.12 " T28, FA4, "!fa4-arch"},
    {"fa4_was_not_for_ada", LINUX ADA "python=3.12 " T28, FA4_OLD, "fa4-arch"},
    {"fa4_is_for_ada_since_beta_5", LINUX ADA "python=3.12 " T28,
     "flash_attn_4-4.0.0b5-py3-none-any.whl", "!fa4-arch"},
    {"fa4_computes_only_forward_on_ada", LINUX ADA "python=3.12 " T28, FA4, "fa4-forward-only"},
    {"fa4_computes_both_passes_on_rtx_50", LINUX "sm=12.0 python=3.12 " T28, FA4,
     "!fa4-forward-only"},
    {"fa4_has_no_pages_on_rtx_50", LINUX "sm=12.0 python=3.12 " T28, FA4, "fa4-no-paging"},
    {"fa4_had_no_pages_on_hopper", LINUX "sm=9.0 python=3.12 " T28, FA4_OLD, "fa4-no-paging"},
    {"fa4_requires_python_3_10", LINUX "sm=9.0 python=3.9 " T28, FA4, "wheel-tag-wrong-python"},
    {"fa4_is_not_for_turing", LINUX "sm=7.5 python=3.12 " T28, FA4, "fa4-arch"},
    {"fa4_asks_for_no_torch_minor", LINUX "sm=10.0 python=3.12 torch=2.15.0+cu132", FA4, "-"},
    {"invalid_name_is_refused", LINUX "sm=12.0 python=3.12 torch=2.7.0+cu128",
     "flash_attn-2.7.4.post1-rtx5090-torch2.7.0cu128cxx11abiTRUE-cp312-linux_x86_64.whl",
     "wheel-name-invalid"},
    {"derived_address_is_said", LINUX ADA "python=3.13 " T28,
     "flash_attn-2.8.3.post1+cu12torch2.8cxx11abiTRUE-cp313-cp313-linux_x86_64.whl",
     "wheel-not-seen"},
    {"missing_local_in_metadata_is_said", LINUX ADA "python=3.12 " T28, PY312_28,
     "filename-metadata-mismatch"},
    {"built_wheel_needs_no_cuda_of_torch", LINUX ADA "python=3.9 torch=2.6.0+cu118", BUILT,
     "-"},
    {"built_wheel_loads_with_a_later_torch", LINUX ADA "python=3.15 torch=2.19.0+cu150", BUILT,
     "-"},
    {"built_wheel_loads_with_a_nightly", LINUX ADA "python=3.12 torch=2.8.0.dev20250319+cu128",
     BUILT, "-"},
    {"built_wheel_needs_torch_library", LINUX ADA "python=3.12 torch=2.3.1+cu121", BUILT,
     "torch-minor-mismatch"},
    {"built_wheel_needs_a_torch_for_gpus", LINUX ADA "python=3.12 torch=2.8.0+cpu", BUILT,
     "torch-without-cuda"},
    {"built_wheel_has_code_for_its_targets", LINUX "sm=12.0 python=3.12 " T28, BUILT, "-"},
    {"ptx_serves_the_newest_gpu", LINUX "sm=13.0 python=3.15 torch=2.19.0+cu150", PTX, "-"},
    {"ptx_serves_the_oldest_gpu", LINUX "sm=8.0 driver=520.61.05 python=3.12 " T28, PTX, "-"},
    {"ptx_serves_no_older_gpu", LINUX "sm=7.5 python=3.12 " T28, PTX, "sm-unsupported"},
    {"ptx_needs_a_driver", LINUX ADA "driver=515.43.04 python=3.12 " T28, PTX,
     "driver-too-old"},
    {"built_wheel_needs_its_glibc", "os=linux arch=x86_64 glibc=2.27 python=3.12 " ADA T28,
     BUILT, "glibc-too-old"},
    {"built_wheel_is_for_its_platform", "os=linux arch=aarch64 glibc=2.35 python=3.12 " ADA T28,
     BUILT, "wheel-tag-wrong-platform"},
};

static bool only_notes(const struct af_reason *reasons, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (af_reasons[reasons[i].id].effect != AF_REASON_NOTE)
            return false;
    }
    return true;
}

static bool has(const struct af_reason *reasons, size_t count, const char *text_id)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(af_reasons[reasons[i].id].text_id, text_id) == 0)
            return true;
    }
    return false;
}

static void test_row(void **state)
{
    const struct row *row = *state;
    const struct af_reason *reasons;
    struct af_machine machine;
    struct anyflash_error err;
    size_t count;
    machine_of(&machine, row->words);
    const struct af_catalog_wheel *wheel = wheel_named(row->wheel);
    assert_int_equal(
        af_fit_explain(&catalog, &machine, NULL, wheel, &machine.arena, &reasons, &count, &err),
        ANYFLASH_OK);
    bool met = row->reason[0] == '-'   ? only_notes(reasons, count)
               : row->reason[0] == '!' ? !has(reasons, count, row->reason + 1)
                                       : has(reasons, count, row->reason);
    for (size_t i = 0; i < count && !met; i++)
        print_message("  %s (%s)\n", af_reasons[reasons[i].id].text_id,
                      reasons[i].detail == NULL ? "" : reasons[i].detail);
    assert_true(met);
    af_machine_release(&machine);
}

static void test_verdict__peer_window_is_kept(void **state)
{
    static const char record[] =
        "{\"platform\":{\"os\":\"linux\",\"arch\":\"x86_64\",\"libc_version\":\"2.35\"},"
        "\"python\":{\"version\":\"3.12.1\"},\"torch\":{\"version\":\"2.8.0+cu128\"},"
        "\"packages\":[{\"name\":\"xformers\",\"version\":\"0.0.32\","
        "\"flash_attn_min\":\"2.7.1\",\"flash_attn_max\":\"2.8.2\"}],"
        "\"gpus\":[{\"vendor\":\"nvidia\",\"sm\":\"8.9\"}]}";
    const struct af_reason *reasons;
    struct af_machine machine;
    struct anyflash_error err;
    size_t count;
    (void)state;
    af_machine_init(&machine, "test", "not said");
    assert_int_equal(
        af_machine_parse(&machine, (struct af_span){record, sizeof record - 1}, "record", &err),
        ANYFLASH_OK);
    assert_int_equal(af_fit_explain(&catalog, &machine, NULL, wheel_named(PY312_28),
                                    &machine.arena, &reasons, &count, &err),
                     ANYFLASH_OK);
    assert_true(has(reasons, count, "peer-version-window"));
    af_machine_release(&machine);
}

static void test_verdict__stated_arch_replaces_the_gpus(void **state)
{
    const struct af_fit_options options = {.arch = "9.0"};
    const struct af_reason *reasons;
    struct af_machine machine;
    struct anyflash_error err;
    size_t count;
    (void)state;
    machine_of(&machine, LINUX "gpu=none python=3.12 " T28);
    assert_int_equal(af_fit_explain(&catalog, &machine, &options, wheel_named(PY312_28),
                                    &machine.arena, &reasons, &count, &err),
                     ANYFLASH_OK);
    assert_true(only_notes(reasons, count));
    af_machine_release(&machine);
}

/* The catalog with a wheel that was built on this machine. */
static int load_with_built(void **state)
{
    static const char built[] = "/cache/" BUILT, ptx[] = "/cache/" PTX;
    const char *const paths[] = {built, ptx, "/cache/numpy-2.0-py3-none-any.whl",
                                 "/cache/no wheel"};
    struct anyflash_error err;
    size_t published;
    if (load_catalog(state) != 0)
        return -1;
    published = catalog.count;
    return af_catalog_add_files(&catalog, paths, AF_COUNT(paths), &err) == ANYFLASH_OK &&
                   catalog.count == published + 2
               ? 0
               : -1;
}

int main(void)
{
    struct CMUnitTest tests[AF_COUNT(rows) + 2] = {
        cmocka_unit_test(test_verdict__peer_window_is_kept),
        cmocka_unit_test(test_verdict__stated_arch_replaces_the_gpus),
    };
    for (size_t i = 0; i < AF_COUNT(rows); i++)
        tests[i + 2] = (struct CMUnitTest){.name = rows[i].name,
                                           .test_func = test_row,
                                           .initial_state = (void *)(uintptr_t)&rows[i]};
    af_json_start();
    return cmocka_run_group_tests(tests, load_with_built, release_catalog);
}
