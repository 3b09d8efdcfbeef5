/*
 * test_decision.c: decisions for machines described in words: which rung is
 * recommended, what else is mentioned, and what happens when allocations fail.
 */
#include "tests/unit/kit/fit/given_machine.h"

#include "kit/catalog/tables.h"
#include "kit/fit/fit.h"
#include "kit/fit/rung.h"

#define LINUX "os=linux arch=x86_64 glibc=2.35 "
#define GPU "sm=8.9 driver=580.65.06 "

static void decide_with(struct af_decision *decision, const char *words,
                        const struct af_fit_options *options)
{
    struct anyflash_error err;
    struct af_machine machine;
    machine_of(&machine, words);
    const struct af_machine *machines[] = {&machine};
    if (af_fit_decide(&catalog, machines, 1, options, decision, &err) != ANYFLASH_OK)
        fail_msg("%s", err.message);
    af_machine_release(&machine); /* the decision keeps no pointers into it */
}

static void decide(struct af_decision *decision, const char *words)
{
    decide_with(decision, words, NULL);
}

static void test_decision__takes_newest_official_wheel(void **state)
{
    struct af_decision decision;
    (void)state;
    decide(&decision, LINUX GPU "python=3.12 torch=2.8.0+cu128");
    assert_int_equal(decision.recommended, AF_RUNG_WHEEL);
    assert_true(decision.possible);
    assert_string_equal(decision.rungs[AF_RUNG_WHEEL].wheel->filename,
                        "flash_attn-2.8.3.post1+cu12torch2.8cxx11abiTRUE-cp312-cp312-linux_"
                        "x86_64.whl");
    assert_int_equal(decision.near_miss_count, 0);
    af_decision_release(&decision);
}

static void test_decision__falls_to_torch_kernels_on_a_new_torch(void **state)
{
    struct af_decision decision;
    (void)state;
    decide(&decision, LINUX GPU "python=3.12 torch=2.16.0+cu132");
    assert_int_equal(decision.recommended, AF_RUNG_TORCH_KERNELS);
    assert_int_equal(decision.rungs[AF_RUNG_WHEEL].answer, AF_UNKNOWN);
    assert_true(rung_has(&decision.rungs[AF_RUNG_WHEEL], AF_REASON_TORCH_NEWER));
    assert_false(rung_has(&decision.rungs[AF_RUNG_WHEEL], AF_REASON_NO_WHEEL_TORCH));
    assert_int_equal(decision.near_miss_count, 2);
    assert_int_equal(decision.rungs[AF_RUNG_TORCH_CHANGE].answer, AF_YES);
    assert_string_equal(decision.rungs[AF_RUNG_TORCH_CHANGE].torch_version, "2.14.1");
    af_decision_release(&decision);
}

static void test_decision__knows_a_new_torch_without_the_python(void **state)
{
    struct af_decision decision;
    (void)state;
    decide(&decision, LINUX GPU "torch=2.16.0+cu132");
    assert_int_equal(decision.rungs[AF_RUNG_WHEEL].answer, AF_UNKNOWN);
    assert_true(rung_has(&decision.rungs[AF_RUNG_WHEEL], AF_REASON_TORCH_NEWER));
    af_decision_release(&decision);
}

/* One for torch 2.14 is offered to be proved, but one for 2.15 may be published, too. */
static void test_decision__offers_the_neighbour_of_a_new_torch(void **state)
{
    struct af_decision decision;
    (void)state;
    decide(&decision, LINUX GPU "python=3.12 torch=2.15.0+cu132");
    const struct af_rung *rung = &decision.rungs[AF_RUNG_WHEEL];
    assert_int_equal(rung->answer, AF_UNKNOWN);
    assert_true(rung->prove_first);
    assert_string_equal(rung->wheel->torch, "2.14");
    assert_true(rung_has(rung, AF_REASON_TORCH_NEWER));
    assert_true(rung_has(rung, AF_REASON_TORCH_NEIGHBOUR));
    assert_int_equal(decision.recommended, AF_RUNG_TORCH_KERNELS);
    af_decision_release(&decision);
}

/* Its address was derived: the only one for this processor and glibc. */
static void test_decision__says_that_a_wheel_was_not_seen(void **state)
{
    struct af_decision decision;
    (void)state;
    decide(&decision, "os=linux arch=aarch64 glibc=2.28 glibcxx=3.4.30 " GPU
                      "python=3.12 torch=2.12.0+cu130");
    const struct af_rung *rung = &decision.rungs[AF_RUNG_WHEEL];
    assert_int_equal(decision.recommended, AF_RUNG_WHEEL);
    assert_false(rung->wheel->listed);
    assert_true(rung_has(rung, AF_REASON_DERIVED));
    assert_non_null(strstr(rung->summary, "URL not checked"));
    af_decision_release(&decision);
}

/* No wheel that is published later could help these. */
static void test_decision__refuses_a_new_torch_where_no_wheel_can_fit(void **state)
{
    static const char *const machines[] = {
        LINUX "sm=7.0 driver=580.65.06 python=3.12 torch=2.16.0+cu132",
        LINUX GPU "python=3.12 torch=2.16.0+cpu",
        LINUX GPU "python=3.12 torch=2.16.0+rocm7.2",
        LINUX GPU "python=3.12 torch=2.16.0a0+12ab34cd56.nv26.10",
        "os=macos arch=aarch64 python=3.12 torch=2.16.0",
    };
    struct af_decision decision;
    (void)state;
    for (size_t i = 0; i < AF_COUNT(machines); i++) {
        decide(&decision, machines[i]);
        assert_int_equal(decision.rungs[AF_RUNG_WHEEL].answer, AF_NO);
        assert_false(rung_has(&decision.rungs[AF_RUNG_WHEEL], AF_REASON_TORCH_NEWER));
        af_decision_release(&decision);
    }
}

/* This torch was there when the wheels were listed. */
static void test_decision__refuses_a_listed_torch_without_a_wheel(void **state)
{
    struct af_decision decision;
    (void)state;
    decide(&decision, "os=windows arch=x86_64 " GPU "python=3.14t torch=2.13.0+cu130");
    assert_int_equal(decision.rungs[AF_RUNG_WHEEL].answer, AF_NO);
    assert_true(rung_has(&decision.rungs[AF_RUNG_WHEEL], AF_REASON_NO_WHEEL_PYTHON));
    af_decision_release(&decision);
    decide(&decision, LINUX "sm=8.9 driver=525.85.12 python=3.12 torch=2.11.0+cu130");
    assert_int_equal(decision.rungs[AF_RUNG_WHEEL].answer, AF_NO);
    assert_int_equal(decision.near_miss_count, 3);
    assert_int_equal(decision.near_misses[0].reasons[0].id, AF_REASON_WHEEL_404);
    af_decision_release(&decision);
}

/* Fails unless the closest official wheel is for that torch; NULL: none is shown. */
static void check_closest(const char *words, const char *torch, const char *python)
{
    struct af_decision decision;
    const struct af_near_miss *closest = NULL;
    decide(&decision, words);
    for (size_t i = 0; i < decision.near_miss_count; i++)
        if (strcmp(decision.near_misses[i].what, "the closest official wheel") == 0)
            closest = &decision.near_misses[i];
    if (torch == NULL) {
        assert_null(closest);
    } else {
        assert_non_null(closest);
        assert_string_equal(closest->wheel->torch, torch);
        assert_string_equal(closest->wheel->python, python);
    }
    af_decision_release(&decision);
}

static void test_decision__the_closest_wheel_is_for_the_nearest_torch(void **state)
{
    (void)state;
    check_closest(LINUX GPU "python=3.11 torch=2.15.0+cu132", "2.10", "cp312");
    check_closest(LINUX GPU "python=3.12 torch=2.15.0+cu132", "2.10", "cp312");
    check_closest(LINUX GPU "python=3.12 torch=2.0.1+cu117", "2.0", "cp310");
}

static void test_decision__what_may_fit_is_closer_than_what_does_not(void **state)
{
    (void)state;
    check_closest(LINUX GPU "python=3.12", NULL, NULL);
    check_closest(LINUX GPU "torch=2.9.1+cu128", NULL, NULL);
}

static void test_decision__sieve_ends_where_no_wheel_is_left(void **state)
{
    struct af_decision decision;
    (void)state;
    decide(&decision, LINUX GPU "python=3.12 torch=2.16.0+cu132");
    assert_true(decision.filter_counts[0].left == decision.candidate_count);
    assert_int_equal(decision.filter_counts[decision.filter_count - 1].left, 0);
    assert_string_equal(decision.filter_counts[decision.filter_count - 1].what,
                        "for torch 2.16.0+cu132");
    af_decision_release(&decision);
}

static void test_decision__missing_torch_gets_one_with_an_official_wheel(void **state)
{
    struct af_decision decision;
    (void)state;
    decide(&decision, LINUX GPU "python=3.11 torch=none");
    const struct af_rung *rung = &decision.rungs[AF_RUNG_TORCH_CHANGE];
    assert_int_equal(decision.recommended, AF_RUNG_TORCH_CHANGE);
    assert_true(rung->wheel->official);
    assert_string_equal(rung->torch_version, "2.8.0");
    assert_int_equal(rung->move_count, 1);
    assert_null(rung->moves[0].from);
    af_decision_release(&decision);
}

static void test_decision__keeps_the_minor_when_only_the_build_is_wrong(void **state)
{
    struct af_decision decision;
    (void)state;
    decide(&decision, LINUX GPU "python=3.11 torch=2.7.1+cpu");
    assert_string_equal(decision.rungs[AF_RUNG_TORCH_CHANGE].torch_version, "2.7.1");
    af_decision_release(&decision);
}

static void test_decision__old_driver_leads_to_an_older_cuda(void **state)
{
    struct af_decision decision;
    (void)state;
    decide(&decision, LINUX "sm=8.0 driver=525.147.05 python=3.12 torch=2.9.1+cu130");
    assert_true(rung_has(&decision.rungs[AF_RUNG_WHEEL], AF_REASON_DRIVER));
    assert_int_equal(decision.recommended, AF_RUNG_TORCH_CHANGE);
    assert_string_equal(decision.rungs[AF_RUNG_TORCH_CHANGE].torch_cuda, "cu128");
    af_decision_release(&decision);
}

static enum af_answer torch_kernels(const char *words, enum af_reason_id reason)
{
    struct af_decision decision;
    decide(&decision, words);
    const struct af_rung *rung = &decision.rungs[AF_RUNG_TORCH_KERNELS];
    enum af_answer answer = rung->answer;
    assert_true(rung_has(rung, reason));
    if (answer == AF_YES)
        assert_int_equal(decision.recommended, AF_RUNG_TORCH_KERNELS);
    af_decision_release(&decision);
    return answer;
}

static void test_decision__old_gpus_have_the_efficient_kernel(void **state)
{
    (void)state;
    assert_int_equal(torch_kernels(LINUX
                                   "sm=7.5 driver=580.65.06 python=3.12 torch=2.8.0+cu128",
                                   AF_REASON_KERNELS_EFFICIENT),
                     AF_YES);
    assert_int_equal(torch_kernels(LINUX
                                   "sm=7.0 driver=580.65.06 python=3.12 torch=2.12.0+cu128",
                                   AF_REASON_UNKNOWN_TORCH_SM),
                     AF_UNKNOWN);
    assert_int_equal(torch_kernels(LINUX
                                   "sm=3.7 driver=580.65.06 python=3.12 torch=2.8.0+cu128",
                                   AF_REASON_SM_UNSUPPORTED),
                     AF_NO);
}

static void test_decision__amd_gpus_have_torchs_kernels(void **state)
{
    (void)state;
    assert_int_equal(torch_kernels(LINUX "gpu=MI300X python=3.12 torch=2.11.0+rocm7.1",
                                   AF_REASON_KERNELS_ROCM),
                     AF_YES);
    assert_int_equal(torch_kernels(LINUX "sm=gfx1100 python=3.12 torch=2.11.0+rocm7.1",
                                   AF_REASON_KERNELS_RDNA),
                     AF_YES);
    assert_int_equal(torch_kernels(LINUX "sm=gfx1030 python=3.12 torch=2.11.0+rocm7.1",
                                   AF_REASON_KERNELS_NOT_ROCM),
                     AF_NO);
    assert_int_equal(
        torch_kernels(LINUX "sm=gfx942 python=3.12 torch=2.9.1+cu128", AF_REASON_MACHINE_ROCM),
        AF_NO);
    assert_int_equal(torch_kernels(LINUX "sm=gfx9999 python=3.12 torch=2.11.0+rocm7.1",
                                   AF_REASON_ROCM_TARGET_UNKNOWN),
                     AF_UNKNOWN);
}

static void test_decision__intel_and_apple_gpus_have_sdpa_alone(void **state)
{
    (void)state;
    assert_int_equal(
        torch_kernels(LINUX "gpu=Arc-A770 python=3.12 torch=2.11.0+xpu", AF_REASON_KERNELS_XPU),
        AF_NO);
    assert_int_equal(torch_kernels("gpu=M3 python=3.12 torch=2.11.0", AF_REASON_KERNELS_MPS),
                     AF_NO);
}

static void test_decision__hopper_has_cudnns_kernels(void **state)
{
    (void)state;
    assert_int_equal(torch_kernels(LINUX "sm=9.0 driver=595.45 python=3.12 torch=2.15.0+cu132",
                                   AF_REASON_KERNELS_CUDNN),
                     AF_YES);
}

static void test_decision__unknown_gpu_leaves_the_wheel_open_and_recommended(void **state)
{
    struct af_decision decision;
    (void)state;
    decide(&decision, LINUX "python=3.12 torch=2.8.0+cu128");
    assert_int_equal(decision.recommended, AF_RUNG_WHEEL);
    assert_int_equal(decision.rungs[AF_RUNG_WHEEL].answer, AF_UNKNOWN);
    assert_true(rung_has(&decision.rungs[AF_RUNG_WHEEL], AF_REASON_UNKNOWN_GPU));
    af_decision_release(&decision);
}

static void test_decision__key_fact_missing_is_asked_for(void **state)
{
    struct af_decision decision;
    (void)state;
    decide(&decision, LINUX GPU "torch=2.8.0+cu128");
    assert_false(decision.possible);
    assert_string_equal(decision.missing_fact, "Python version");
    af_decision_release(&decision);
}

static void test_decision__preference_takes_a_lower_rung(void **state)
{
    const struct af_fit_options options = {.has_preference = true,
                                           .preference = AF_RUNG_TORCH_KERNELS};
    struct af_decision decision;
    (void)state;
    decide_with(&decision, LINUX GPU "python=3.12 torch=2.8.0+cu128", &options);
    assert_int_equal(decision.recommended, AF_RUNG_TORCH_KERNELS);
    assert_true(decision.possible);
    af_decision_release(&decision);
}

static void test_decision__preference_of_a_closed_rung_is_not_possible(void **state)
{
    const struct af_fit_options options = {.has_preference = true, .preference = AF_RUNG_WHEEL};
    struct af_decision decision;
    (void)state;
    decide_with(&decision, LINUX "sm=7.0 python=3.12 torch=2.15.0+cu132", &options);
    assert_false(decision.possible);
    af_decision_release(&decision);
}

static void test_decision__version_and_official_narrow_the_candidates(void **state)
{
    const struct af_fit_options options = {.version = "2.8.1", .official_only = true};
    struct af_decision decision;
    (void)state;
    decide_with(&decision, LINUX GPU "python=3.12 torch=2.8.0+cu128", &options);
    for (size_t i = 0; i < decision.candidate_count; i++) {
        assert_true(decision.candidates[i].wheel->official);
        assert_string_equal(decision.candidates[i].wheel->version, "2.8.1");
    }
    assert_int_equal(decision.recommended, AF_RUNG_WHEEL);
    af_decision_release(&decision);
}

static void test_decision__unknown_version_has_its_reason(void **state)
{
    const struct af_fit_options options = {.version = "7.7.7"};
    struct af_decision decision;
    (void)state;
    decide_with(&decision, LINUX GPU "python=3.12 torch=2.8.0+cu128", &options);
    assert_true(rung_has(&decision.rungs[AF_RUNG_WHEEL], AF_REASON_NO_WHEEL_PACKAGE));
    af_decision_release(&decision);
}

static void test_decision__wheel_must_fit_all_machines(void **state)
{
    struct anyflash_error err;
    struct af_machine ada;
    struct af_machine old;
    struct af_decision decision;
    (void)state;
    machine_of(&ada, LINUX GPU "python=3.12 torch=2.8.0+cu128");
    machine_of(&old, "os=linux arch=x86_64 glibc=2.28 python=3.12 torch=2.8.0+cu128 " GPU);
    const struct af_machine *machines[] = {&ada, &old};
    assert_int_equal(af_fit_decide(&catalog, machines, 2, NULL, &decision, &err), ANYFLASH_OK);
    assert_int_equal(decision.recommended, AF_RUNG_WHEEL);
    assert_string_equal(decision.rungs[AF_RUNG_WHEEL].wheel->glibc_basis, "platform_tag");
    af_decision_release(&decision);
    af_machine_release(&ada);
    af_machine_release(&old);
}

static void test_decision__build_counts_jobs_by_memory(void **state)
{
    struct af_decision decision;
    (void)state;
    decide(&decision, LINUX GPU "python=3.12 torch=2.8.0+cu128 cuda_toolkit=12.8 gcc=12 "
                                "ram_gb=16 cores=8 disk_gb=100");
    const struct af_rung *rung = &decision.rungs[AF_RUNG_BUILD];
    assert_int_equal(rung->answer, AF_YES);
    assert_int_equal(rung->build.jobs, 2);
    assert_string_equal(rung->build.words[1], "128");
    af_decision_release(&decision);
}

/* The row called `name`; the test fails without it. */
static const struct af_prerequisite *row_of(const struct af_rung *rung, const char *name)
{
    for (size_t i = 0; i < rung->build.prerequisite_count; i++) {
        if (strcmp(rung->build.prerequisites[i].name, name) == 0)
            return &rung->build.prerequisites[i];
    }
    fail_msg("no row %s", name);
    return NULL;
}

static void assert_row_of(const struct af_rung *rung, const char *words, const char *name,
                          enum af_answer answer, const char *evidence, const char *fix)
{
    const struct af_prerequisite *row = row_of(rung, name);
    if (row->answer != answer || strstr(row->evidence, evidence) == NULL)
        fail_msg("%s for %s: %d, '%s'", name, words, (int)row->answer, row->evidence);
    if (fix == NULL)
        assert_null(row->fix);
    else if (row->fix == NULL || strstr(row->fix, fix) == NULL)
        fail_msg("%s for %s: fix '%s'", name, words, row->fix);
}

static void assert_row(const char *words, const char *name, enum af_answer answer,
                       const char *evidence, const char *fix)
{
    struct af_decision decision;
    decide(&decision, words);
    assert_row_of(&decision.rungs[AF_RUNG_BUILD], words, name, answer, evidence, fix);
    af_decision_release(&decision);
}

/* The same of flash-attn's own source build. */
static void assert_upstream(const char *words, const char *name, enum af_answer answer,
                            const char *evidence, const char *fix)
{
    const struct af_fit_options options = {.upstream_build = true};
    struct af_machine machine;
    struct af_arena arena;
    struct af_rung rung;
    machine_of(&machine, words);
    af_arena_init(&arena);
    assert_int_equal(af_rung_build_alone(&machine, &options, &arena, &rung, NULL), ANYFLASH_OK);
    assert_row_of(&rung, words, name, answer, evidence, fix);
    af_arena_release(&arena);
    af_machine_release(&machine);
}

#define SPACE "ram_gb=64 cores=8 disk_gb=100 "
#define CU132 LINUX GPU "python=3.12 torch=2.15.0+cu132 " SPACE
#define CU128 LINUX GPU "python=3.12 torch=2.8.0+cu128 " SPACE

static void test_build__needs_no_compiler_and_a_driver_from_520(void **state)
{
    struct af_decision decision;
    (void)state;
    decide(&decision, CU132 "gcc=none cuda_toolkit=none");
    assert_int_equal(decision.rungs[AF_RUNG_BUILD].answer, AF_YES);
    af_decision_release(&decision);
    assert_row(LINUX "sm=8.9 driver=515.43.04 python=3.12 torch=2.8.0+cu128 " SPACE, "driver",
               AF_NO, "520 or newer", "");
    assert_row(LINUX "sm=12.1 driver=580.95.05 python=3.12 torch=2.15.0+cu132 " SPACE, "driver",
               AF_YES, "580", NULL);
}

static void test_upstream__needs_a_toolkit_that_the_driver_serves(void **state)
{
    static const char old[] = LINUX "sm=8.9 driver=550.54.14 " SPACE;
    char words[400];
    (void)state;
    assert_upstream(CU132 "gcc=12 cuda_toolkit=13.0", "cuda-toolkit", AF_YES, "CUDA 13.0 in",
                    NULL);
    snprintf(words, sizeof words, "%s%s", old, "gcc=12 cuda_toolkit=none distribution=ubuntu");
    assert_upstream(words, "cuda-toolkit", AF_NO, "none found", "cuda-toolkit-12-8");
    snprintf(words, sizeof words, "%s%s", old, "gcc=12 cuda_toolkit=13.0");
    assert_upstream(words, "cuda-toolkit", AF_NO, "CUDA 13.0", "");
    snprintf(words, sizeof words, "%s%s", old, "gcc=12 cuda_toolkit=12.4");
    assert_upstream(words, "cuda-toolkit", AF_YES, "CUDA 12.4 in", NULL);
}

static void test_build__needs_no_torch_but_one_that_can_use_the_wheel(void **state)
{
    struct af_decision decision;
    (void)state;
    decide(&decision, LINUX GPU SPACE "gcc=12 cuda_toolkit=13.0");
    assert_int_equal(decision.rungs[AF_RUNG_BUILD].answer, AF_YES);
    af_decision_release(&decision);
    assert_row(LINUX GPU "torch=2.3.1+cu121 gcc=12 cuda_toolkit=13.0 " SPACE, "torch", AF_NO,
               "torch 2.3.1", "");
}

static void test_upstream__knows_the_host_compilers_it_may_take(void **state)
{
    (void)state;
    assert_upstream(CU132 "cuda_toolkit=13.0 gcc=16", "host-compiler", AF_NO,
                    "accepts gcc up to 15", "CXX=g++-15");
    assert_upstream(CU132 "cuda_toolkit=13.0 gcc=9", "host-compiler", AF_YES, "gcc 9", NULL);
    assert_upstream(CU132 "cuda_toolkit=13.0 gcc=8", "host-compiler", AF_NO, "gcc 9 or newer",
                    "g++");
    assert_upstream(CU132 "cuda_toolkit=13.0 gcc=none", "host-compiler", AF_NO, "", "g++");
    assert_upstream(LINUX "sm=12.0 torch=2.8.0+cu128 cuda_toolkit=12.4 gcc=12 " SPACE,
                    "gpu-target", AF_NO, "nvcc 12.4, SM 12.0", "newer CUDA toolkit");
}

static void test_build__refuses_a_gpu_older_than_ampere(void **state)
{
    (void)state;
    assert_row(LINUX "sm=7.5 driver=595.45 python=3.12 torch=2.15.0+cu132 gcc=12 " SPACE, "gpu",
               AF_NO, "sm 7.5", "scaled_dot_product_attention");
}

static void test_build__names_the_room_it_needs(void **state)
{
    (void)state;
    assert_row(LINUX GPU "python=3.12 torch=2.15.0+cu132 gcc=12 ram_gb=4 disk_gb=1", "memory",
               AF_NO, "4.0 GiB free; 6.0 GiB", "more memory");
    assert_row(LINUX GPU "python=3.12 torch=2.15.0+cu132 gcc=12 ram_gb=4 disk_gb=0.5", "disk",
               AF_NO, "0.5 GiB free", "ANYFLASH_CACHE");
}

static void test_decision__refuses_an_arch_that_is_none(void **state)
{
    const struct af_fit_options options = {.arch = "hopper"};
    struct anyflash_error err;
    struct af_machine machine;
    struct af_decision decision;
    (void)state;
    machine_of(&machine, LINUX);
    const struct af_machine *machines[] = {&machine};
    assert_int_equal(af_fit_decide(&catalog, machines, 1, &options, &decision, &err),
                     ANYFLASH_E_ARGUMENT);
    af_machine_release(&machine);
}

static void test_decision__huge_numbers_are_no_facts(void **state)
{
    struct af_decision decision;
    (void)state;
    decide(&decision, LINUX "sm=99999.9 driver=99999999999.1 python=3.999999999 "
                            "torch=2.99999999999");
    assert_int_equal(decision.fitting_count, 0);
    af_decision_release(&decision);
}

static void test_decision__is_the_same_every_time(void **state)
{
    struct af_decision first;
    struct af_decision second;
    (void)state;
    decide(&first, LINUX GPU "python=3.12 torch=2.8.0+cu128");
    decide(&second, LINUX GPU "python=3.12 torch=2.8.0+cu128");
    assert_int_equal(first.fitting_count, second.fitting_count);
    for (size_t i = 0; i < first.candidate_count; i++)
        assert_ptr_equal(first.candidates[i].wheel, second.candidates[i].wheel);
    af_decision_release(&first);
    af_decision_release(&second);
}

/* Whatever else is there: torch must be built for the vendor of the GPU. */
static void test_decision__options_need_a_torch_for_the_gpus_vendor(void **state)
{
    static const char *const systems[] = {LINUX, "os=linux arch=aarch64 glibc=2.39 ",
                                          "os=windows arch=x86_64 "};
    static const char *const gpus[][2] = {{"gpu=H100", "nvidia"},    {"gpu=T4", "nvidia"},
                                          {"gpu=5090", "nvidia"},    {"gpu=T4,H100", "nvidia"},
                                          {"gpu=MI300X", "amd"},     {"sm=gfx1100", "amd"},
                                          {"gpu=Arc-A770", "intel"}, {"gpu=Apple-M3", "apple"}};
    static const char *const builds[][2] = {
        {"cpu", "none"}, {"cu128", "nvidia"}, {"rocm6.4", "amd"}};
    static const enum af_rung_kind kinds[] = {AF_RUNG_WHEEL, AF_RUNG_TORCH_KERNELS,
                                              AF_RUNG_BUILD};
    enum { CASES = AF_COUNT(systems) * AF_COUNT(gpus) * AF_COUNT(builds) };
    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        struct af_decision decision;
        char words[256];
        const char *const *build = builds[i % AF_COUNT(builds)];
        const char *const *gpu = gpus[i / AF_COUNT(builds) % AF_COUNT(gpus)];
        snprintf(words, sizeof words,
                 "%s%s torch=2.8.0+%s python=3.12 driver=580.65.06 cuda_toolkit=12.8 gcc=12 "
                 "ram_gb=64 disk_gb=100",
                 systems[i / AF_COUNT(builds) / AF_COUNT(gpus)], gpu[0], build[0]);
        decide(&decision, words);
        for (size_t k = 0; k < AF_COUNT(kinds) && strcmp(gpu[1], build[1]) != 0; k++)
            if (decision.rungs[kinds[k]].answer != AF_NO)
                fail_msg("%s: %s is %s", words, af_rung_name(kinds[k]),
                         af_answer_text(decision.rungs[kinds[k]].answer));
        af_decision_release(&decision);
    }
}

static void test_decision__rocm_torch_on_an_nvidia_gpu_is_replaced(void **state)
{
    struct af_decision decision;
    (void)state;
    decide(&decision, LINUX "gpu=H100 python=3.12 torch=2.8.0+rocm6.4 gcc=12");
    assert_int_equal(decision.recommended, AF_RUNG_TORCH_CHANGE);
    assert_string_equal(decision.rungs[AF_RUNG_TORCH_CHANGE].torch_cuda, "cu128");
    assert_true(rung_has(&decision.rungs[AF_RUNG_WHEEL], AF_REASON_TORCH_WITHOUT_CUDA));
    af_decision_release(&decision);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decision__takes_newest_official_wheel),
        cmocka_unit_test(test_decision__falls_to_torch_kernels_on_a_new_torch),
        cmocka_unit_test(test_decision__knows_a_new_torch_without_the_python),
        cmocka_unit_test(test_decision__offers_the_neighbour_of_a_new_torch),
        cmocka_unit_test(test_decision__says_that_a_wheel_was_not_seen),
        cmocka_unit_test(test_decision__refuses_a_new_torch_where_no_wheel_can_fit),
        cmocka_unit_test(test_decision__refuses_a_listed_torch_without_a_wheel),
        cmocka_unit_test(test_decision__the_closest_wheel_is_for_the_nearest_torch),
        cmocka_unit_test(test_decision__what_may_fit_is_closer_than_what_does_not),
        cmocka_unit_test(test_decision__sieve_ends_where_no_wheel_is_left),
        cmocka_unit_test(test_decision__missing_torch_gets_one_with_an_official_wheel),
        cmocka_unit_test(test_decision__keeps_the_minor_when_only_the_build_is_wrong),
        cmocka_unit_test(test_decision__old_driver_leads_to_an_older_cuda),
        cmocka_unit_test(test_decision__old_gpus_have_the_efficient_kernel),
        cmocka_unit_test(test_decision__amd_gpus_have_torchs_kernels),
        cmocka_unit_test(test_decision__intel_and_apple_gpus_have_sdpa_alone),
        cmocka_unit_test(test_decision__hopper_has_cudnns_kernels),
        cmocka_unit_test(test_decision__unknown_gpu_leaves_the_wheel_open_and_recommended),
        cmocka_unit_test(test_decision__key_fact_missing_is_asked_for),
        cmocka_unit_test(test_decision__preference_takes_a_lower_rung),
        cmocka_unit_test(test_decision__preference_of_a_closed_rung_is_not_possible),
        cmocka_unit_test(test_decision__version_and_official_narrow_the_candidates),
        cmocka_unit_test(test_decision__unknown_version_has_its_reason),
        cmocka_unit_test(test_decision__wheel_must_fit_all_machines),
        cmocka_unit_test(test_decision__build_counts_jobs_by_memory),
        cmocka_unit_test(test_build__needs_no_compiler_and_a_driver_from_520),
        cmocka_unit_test(test_upstream__needs_a_toolkit_that_the_driver_serves),
        cmocka_unit_test(test_upstream__knows_the_host_compilers_it_may_take),
        cmocka_unit_test(test_build__needs_no_torch_but_one_that_can_use_the_wheel),
        cmocka_unit_test(test_build__refuses_a_gpu_older_than_ampere),
        cmocka_unit_test(test_build__names_the_room_it_needs),
        cmocka_unit_test(test_decision__refuses_an_arch_that_is_none),
        cmocka_unit_test(test_decision__huge_numbers_are_no_facts),
        cmocka_unit_test(test_decision__is_the_same_every_time),
        cmocka_unit_test(test_decision__options_need_a_torch_for_the_gpus_vendor),
        cmocka_unit_test(test_decision__rocm_torch_on_an_nvidia_gpu_is_replaced),
    };
    af_json_start();
    return cmocka_run_group_tests(tests, load_catalog, release_catalog);
}
