/*
 * test_given.c: key=value words as people write them. given_words.tsv holds the
 * environments of 186 reported failures, one per line, words separated by tabs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kit/base/json.h"
#include "kit/machine/machine.h"
#include "kit/system/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct anyflash_error problem;
static struct af_machine machine;

/* Forgets all facts. */
static void start(void)
{
    af_machine_release(&machine);
    af_machine_init(&machine, "test", "not said");
}

static int stop(void **state)
{
    (void)state;
    af_machine_release(&machine);
    return 0;
}

/* Applies NULL-terminated words to the machine without facts; the last remark or NULL. */
static const char *give(const char *const *words)
{
    const char *last = NULL;
    start();
    for (; *words != NULL; words++) {
        const char *remark = NULL;
        if (af_machine_given(&machine, *words, &remark, &problem) != ANYFLASH_OK)
            fail_msg("%s: %s", *words, problem.message);
        last = remark == NULL ? last : remark;
    }
    return last;
}

#define GIVE(...) give((const char *const[]){__VA_ARGS__, NULL})

static void assert_fact(const struct af_fact *fact, const char *text)
{
    assert_int_equal(fact->state, AF_FACT_KNOWN);
    assert_string_equal(fact->value.text, text);
}

static const char *tag(size_t index)
{
    const struct af_fact *tags = &machine.python.platform_tags;
    return tags->state == AF_FACT_KNOWN && index < tags->value.list.count
               ? tags->value.list.items[index]
               : "";
}

static void test_given__reads_systems_as_people_write_them(void **state)
{
    static const struct {
        const char *word, *os, *distribution, *glibc, *container;
        bool wsl;
    } rows[] = {
        {"os=linux", "linux", NULL, NULL, NULL, false},
        {"os=Ubuntu 20.04", "linux", "ubuntu 20.04", "2.31", NULL, false},
        {"os=Ubuntu", "linux", "ubuntu", NULL, NULL, false},
        {"os=Debian 11", "linux", "debian 11", "2.31", NULL, false},
        {"os=CentOS/RHEL 8", "linux", "rhel 8", "2.28", NULL, false},
        {"os=windows/WSL", "linux", NULL, NULL, NULL, true},
        {"os=WSL2 Ubuntu", "linux", "ubuntu", NULL, NULL, true},
        {"os=WSL2 (Windows 11)", "linux", NULL, NULL, NULL, true},
        {"os=windows", "windows", NULL, NULL, NULL, false},
        {"os=macOS", "macos", NULL, NULL, NULL, false},
        {"os=Colab", "linux", NULL, NULL, "colab", false},
        {"os=docker", "linux", NULL, NULL, "docker", false},
        {"os=linux (JetPack 5.1)", "linux", "ubuntu 20.04", "2.31", NULL, false},
        {"os=linux container on Apple Silicon", "linux", NULL, NULL, "container", false},
    };
    (void)state;
    for (size_t i = 0; i < AF_COUNT(rows); i++) {
        print_message("%s\n", rows[i].word);
        assert_null(GIVE(rows[i].word));
        assert_fact(&machine.platform.os, rows[i].os);
        if (rows[i].distribution != NULL)
            assert_fact(&machine.platform.distribution, rows[i].distribution);
        if (rows[i].glibc != NULL)
            assert_fact(&machine.platform.libc_version, rows[i].glibc);
        if (rows[i].container != NULL)
            assert_fact(&machine.platform.container, rows[i].container);
        assert_int_equal(af_fact_truth(&machine.platform.wsl),
                         rows[i].wsl ? AF_YES : AF_UNKNOWN);
    }
}

static void test_given__text_that_is_not_understood_is_unknown_with_a_remark(void **state)
{
    static const char *const words[] = {"os=plan 9",
                                        "os=linux+windows",
                                        "arch=vax",
                                        "python=three",
                                        "python=3.x",
                                        "torch=>=2.9",
                                        "torch=newest",
                                        "torch_cuda=new",
                                        "cxx11abi=perhaps",
                                        "flash_attn=1.x",
                                        "flash_attn=3.0 beta",
                                        "flash_attn=1.0.x",
                                        "installer=cargo",
                                        "gpu=AMD",
                                        "gpu=RTX 50",
                                        "sm=fast",
                                        "driver=new",
                                        "cuda_toolkit=13.x",
                                        "gcc=>12",
                                        "glibc=old",
                                        "ram_gb=much",
                                        "ram_gb=-4",
                                        "cores=0",
                                        "disk_gb=x",
                                        "env=novalue",
                                        "vram_gb=nan",
                                        "wsl=maybe",
                                        "resources.cores=-1"};
    (void)state;
    for (size_t i = 0; i < AF_COUNT(words); i++) {
        const char *remark = GIVE(words[i]);
        if (remark == NULL)
            fail_msg("'%s' gave no remark", words[i]);
        assert_non_null(strstr(remark, words[i]));
    }
}

static void test_given__strictly_refuses_values_that_cannot_be_read(void **state)
{
    static const char *const refused[] = {"torch=abc", "python=banana", "env=novalue",
                                          "os=plan 9", "sm=fast",       "ram_gb=much"};
    static const char *const noted[] = {"gpu=FOO9000", "distribution=banana 7",
                                        "installer=cargo"};
    const char *remark;
    (void)state;
    start();
    for (size_t i = 0; i < AF_COUNT(refused); i++) {
        assert_int_equal(af_machine_given_strictly(&machine, refused[i], &remark, &problem),
                         ANYFLASH_E_ARGUMENT);
        assert_non_null(strstr(problem.message, refused[i]));
    }
    assert_int_equal(machine.gpus.count, 0);
    for (size_t i = 0; i < AF_COUNT(noted); i++) {
        assert_int_equal(af_machine_given_strictly(&machine, noted[i], &remark, &problem),
                         ANYFLASH_OK);
        assert_non_null(strstr(remark, noted[i]));
    }
}

static void test_given__a_second_gpu_is_added(void **state)
{
    (void)state;
    GIVE("gpu=2x h100", "gpu=a100", "gpu=2x h100", "gpu=a100");
    assert_int_equal(machine.gpus.count, 3);
    assert_fact(&machine.gpus.rows[0].sm, "9.0");
    assert_fact(&machine.gpus.rows[1].sm, "9.0");
    assert_fact(&machine.gpus.rows[2].sm, "8.0");
}

static void test_given__an_unknown_key_is_an_error_that_names_the_keys(void **state)
{
    const char *remark;
    (void)state;
    start();
    assert_int_equal(af_machine_given(&machine, "tosch=2", &remark, &problem),
                     ANYFLASH_E_ARGUMENT);
    assert_non_null(strstr(problem.message, "no key 'tosch'; there are: os arch"));
    assert_int_equal(af_machine_given(&machine, "torch", &remark, &problem),
                     ANYFLASH_E_ARGUMENT);
    assert_non_null(strstr(problem.message, "key=value"));
}

static void test_given__torch_says_cuda_and_who_built_it(void **state)
{
    static const struct {
        const char *word, *cuda, *build;
    } rows[] = {{"torch=2.9.1+cu128", "12.8", "release"},
                {"torch=1.13.1+cu116", "11.6", "release"},
                {"torch=2.4", NULL, "release"},
                {"torch=2.1 nightly", NULL, "prerelease"},
                {"torch=2.3.0.dev20240217+cu121", "12.1", "prerelease"},
                {"torch=2.7.0.dev+cu126", "12.6", "prerelease"},
                {"torch=2.1.0a0+fe05266", NULL, "vendor"},
                {"torch=2.9.0a0+145a3a7bda.nv25.10", NULL, "vendor"}};
    (void)state;
    for (size_t i = 0; i < AF_COUNT(rows); i++) {
        print_message("%s\n", rows[i].word);
        assert_null(GIVE(rows[i].word));
        assert_fact(&machine.torch.build, rows[i].build);
        if (rows[i].cuda != NULL)
            assert_fact(&machine.torch.cuda, rows[i].cuda);
        else
            assert_int_equal(machine.torch.cuda.state, AF_FACT_UNKNOWN);
    }
}

static void test_given__rocm_and_cpu_torch_have_no_cuda(void **state)
{
    (void)state;
    GIVE("torch=2.7.0+rocm6.3");
    assert_int_equal(machine.torch.cuda.state, AF_FACT_ABSENT);
    assert_fact(&machine.torch.hip, "6.3");
    GIVE("torch=2.7.0+cpu");
    assert_int_equal(machine.torch.cuda.state, AF_FACT_ABSENT);
    assert_int_equal(machine.torch.hip.state, AF_FACT_ABSENT);
    GIVE("torch=none");
    assert_int_equal(machine.torch.version.state, AF_FACT_ABSENT);
}

static void test_given__another_torch_forgets_the_old_ones_facts(void **state)
{
    const char *remark;
    (void)state;
    start();
    af_fact_text(&machine.arena, &machine.torch.git, "abc", "torch/version.py");
    af_fact_text(&machine.arena, &machine.torch.cuda, "13.0", "torch/version.py");
    af_machine_given(&machine, "cxx11abi=false", &remark, NULL);
    af_machine_given(&machine, "torch_cuda=12.1", &remark, NULL);
    af_machine_given(&machine, "torch=2.4.0+cu124", &remark, NULL);
    assert_int_equal(machine.torch.git.state, AF_FACT_UNKNOWN);
    assert_int_equal(af_fact_truth(&machine.torch.cxx11abi), AF_NO);
    assert_fact(&machine.torch.cuda, "12.1");
    assert_fact(&machine.torch.cudart_soname, "libcudart.so.12");
    af_machine_given(&machine, "torch=2.5.0", &remark, NULL);
    assert_fact(&machine.torch.cuda, "12.1");
}

static void test_given__platform_and_python_give_tags_and_soabi(void **state)
{
    (void)state;
    GIVE("python=3.13t", "os=linux", "arch=amd64", "glibc=2.18");
    assert_fact(&machine.platform.arch, "x86_64");
    assert_fact(&machine.python.version, "3.13");
    assert_fact(&machine.python.abi_flags, "t");
    assert_fact(&machine.python.soabi, "cpython-313t-x86_64-linux-gnu");
    assert_fact(&machine.python.ext_suffix, ".cpython-313t-x86_64-linux-gnu.so");
    assert_string_equal(tag(0), "linux_x86_64");
    assert_string_equal(tag(1), "manylinux_2_18_x86_64");
    assert_string_equal(tag(2), "manylinux_2_17_x86_64");
    assert_string_equal(tag(3), "manylinux2014_x86_64");
    assert_string_equal(tag(machine.python.platform_tags.value.list.count - 1),
                        "manylinux1_x86_64");
    GIVE("os=linux", "arch=arm64", "musl=1.2", "python=3.12.4");
    assert_string_equal(tag(1), "musllinux_1_2_aarch64");
    assert_string_equal(tag(3), "musllinux_1_0_aarch64");
    assert_string_equal(tag(0), "linux_aarch64");
    assert_fact(&machine.python.soabi, "cpython-312-aarch64-linux-musl");
    GIVE("arch=x86_64", "os=windows", "python=cp310");
    assert_string_equal(tag(0), "win_amd64");
    assert_fact(&machine.python.version, "3.10");
    assert_fact(&machine.python.soabi, "cp310-win_amd64");
    GIVE("platform=manylinux_2_28_aarch64");
    assert_string_equal(tag(1), "manylinux_2_28_aarch64");
    GIVE("glibc=2.17", "arch=x86_64");
    assert_fact(&machine.platform.os, "linux");
    assert_string_equal(tag(1), "manylinux_2_17_x86_64");
    GIVE("os=linux", "arch=x86_64");
    assert_int_equal(machine.python.platform_tags.state, AF_FACT_UNKNOWN);
}

static void test_given__gpu_names_give_compute_capability(void **state)
{
    static const struct {
        const char *word, *sm, *vendor;
        size_t count;
    } rows[] = {
        {"gpu=RTX 4090", "8.9", "nvidia", 1},
        {"gpu=4090", "8.9", "nvidia", 1},
        {"gpu=NVIDIA GeForce RTX 4090 Laptop GPU", "8.9", "nvidia", 1},
        {"gpu=NVIDIA A100-SXM4-80GB", "8.0", "nvidia", 1},
        {"gpu=8x A40", "8.6", "nvidia", 8},
        {"gpu=8x B200", "10.0", "nvidia", 8},
        {"gpu=H100 SXM", "9.0", "nvidia", 1},
        {"gpu=GH200", "9.0", "nvidia", 1},
        {"gpu=Quadro RTX 5000", "7.5", "nvidia", 1},
        {"gpu=NVIDIA RTX 6000 Ada Generation", "8.9", "nvidia", 1},
        {"gpu=NVIDIA RTX PRO 6000 Blackwell", "12.0", "nvidia", 1},
        {"gpu=NVIDIA T1000", "7.5", "nvidia", 1},
        {"gpu=V100S", "7.0", "nvidia", 1},
        {"gpu=Jetson Orin", "8.7", "nvidia", 1},
        {"gpu=GB10", "12.1", "nvidia", 1},
        {"gpu=B300", "10.3", "nvidia", 1},
        {"gpu=sm120 card", "12.0", "nvidia", 1},
        {"gpu=gfx1100 (RDNA3)", "gfx1100", "amd", 1},
        {"gpu=Navi31", "gfx1100", "amd", 1},
        {"gpu=MI300X", "gfx942", "amd", 1},
        {"gpu=RX 9060 XT", "gfx1200", "amd", 1},
        {"gpu=AMD Radeon RX 7800 XT", "gfx1101", "amd", 1},
        {"gpu=AMD Radeon 890M Graphics", "gfx1150", "amd", 1},
        {"gpu=Tesla M4", "5.2", "nvidia", 1},
        {"sm=sm_90a", "9.0", "nvidia", 1},
        {"sm=120", "12.0", "nvidia", 1},
        {"sm=gfx942", "gfx942", "amd", 1},
    };
    (void)state;
    for (size_t i = 0; i < AF_COUNT(rows); i++) {
        print_message("%s\n", rows[i].word);
        assert_null(GIVE(rows[i].word));
        assert_int_equal(machine.gpus.count, rows[i].count);
        for (size_t gpu = 0; gpu < rows[i].count; gpu++) {
            assert_fact(&machine.gpus.rows[gpu].sm, rows[i].sm);
            assert_fact(&machine.gpus.rows[gpu].vendor, rows[i].vendor);
        }
    }
}

/* Every usual way to write a count, for names that start with a letter and with a digit. */
static void test_given__a_count_before_or_after_the_name_is_so_many_of_it(void **state)
{
    static const struct {
        bool before;
        const char *joint;
    } forms[] = {{true, "x"},   {true, "X"},   {true, "*"},    {true, "x "},
                 {true, " x "}, {false, " x"}, {false, " X "}, {false, " *"}};
    static const char *const names[] = {"T4", "H100", "RTX 4090", "4090", "MI300X", "L40S"};
    static const size_t counts[] = {1, 2, 8, 16};
    enum { CASES = AF_COUNT(forms) * AF_COUNT(names) * AF_COUNT(counts) };
    (void)state;
    for (size_t i = 0; i < CASES; i++) {
        char word[64];
        const char *name = names[i / AF_COUNT(forms) % AF_COUNT(names)];
        size_t count = counts[i / AF_COUNT(forms) / AF_COUNT(names)];
        const char *joint = forms[i % AF_COUNT(forms)].joint;
        if (forms[i % AF_COUNT(forms)].before)
            snprintf(word, sizeof word, "gpu=%zu%s%s", count, joint, name);
        else
            snprintf(word, sizeof word, "gpu=%s%s%zu", name, joint, count);
        print_message("%s\n", word);
        assert_null(GIVE(word));
        assert_int_equal(machine.gpus.count, count);
        for (size_t gpu = 0; gpu < count; gpu++)
            assert_fact(&machine.gpus.rows[gpu].name, name);
    }
}

static void test_given__what_is_no_count_belongs_to_the_name(void **state)
{
    static const char *const names[] = {"40xx", "RTX 50x0", "0x T4", "65xT4", "T4 x65", "x2"};
    (void)state;
    for (size_t i = 0; i < AF_COUNT(names); i++) {
        char word[32];
        snprintf(word, sizeof word, "gpu=%s", names[i]);
        GIVE(word);
        assert_int_equal(machine.gpus.count, 1);
        assert_fact(&machine.gpus.rows[0].name, names[i]);
    }
}

static void test_given__a_gpu_that_is_none_or_the_cpu_is_no_gpu(void **state)
{
    static const char *const words[] = {"gpu=none", "gpu=cpu", "gpu=CPU", "gpu=CPU only"};
    (void)state;
    for (size_t i = 0; i < AF_COUNT(words); i++) {
        assert_null(GIVE("gpu=T4", words[i]));
        assert_int_equal(machine.gpus.count, 0);
        assert_int_equal(machine.gpus.state, AF_FACT_KNOWN);
    }
}

static void test_given__gpus_of_intel_and_apple_have_no_compute_capability(void **state)
{
    static const struct {
        const char *word;
        const char *vendor;
        const char *os; /* NULL: the product does not say */
    } rows[] = {
        {"gpu=Arc A770", "intel", NULL},
        {"gpu=Intel(R) Arc(TM) B580", "intel", NULL},
        {"gpu=Data Center GPU Max 1550", "intel", NULL},
        {"gpu=M3", "apple", "macos"},
        {"gpu=Apple M4 Max", "apple", "macos"},
        {"gpu=Apple M9", "apple", "macos"},
    };
    (void)state;
    for (size_t i = 0; i < AF_COUNT(rows); i++) {
        print_message("%s\n", rows[i].word);
        assert_null(GIVE(rows[i].word));
        assert_fact(&machine.gpus.rows[0].vendor, rows[i].vendor);
        assert_int_equal(machine.gpus.rows[0].sm.state, AF_FACT_ABSENT);
        assert_string_equal(af_fact_text_or(&machine.platform.os, "?"),
                            rows[i].os != NULL ? rows[i].os : "?");
    }
    GIVE("os=linux", "gpu=M3");
    assert_fact(&machine.platform.os, "linux");
}

static void test_given__gpu_and_sm_describe_the_same_rows_in_either_order(void **state)
{
    (void)state;
    GIVE("sm=12.0", "gpu=RTX 50");
    assert_int_equal(machine.gpus.count, 1);
    assert_fact(&machine.gpus.rows[0].sm, "12.0");
    assert_fact(&machine.gpus.rows[0].name, "RTX 50");
    GIVE("gpu=RTX 50", "sm=12.0");
    assert_int_equal(machine.gpus.count, 1);
    assert_fact(&machine.gpus.rows[0].sm, "12.0");
    GIVE("gpu=A100, T4", "visible_devices=1");
    assert_int_equal(machine.gpus.count, 2);
    assert_fact(&machine.gpus.rows[1].sm, "7.5");
    assert_int_equal(af_fact_truth(&machine.gpus.rows[0].visible), AF_NO);
    assert_int_equal(af_fact_truth(&machine.gpus.rows[1].visible), AF_YES);
    GIVE("gpu=none");
    assert_int_equal(machine.gpus.state, AF_FACT_KNOWN);
    assert_int_equal(machine.gpus.count, 0);
}

static void test_given__packages_tools_and_build_needs(void **state)
{
    (void)state;
    GIVE("flash_attn=2.8.3+cu12torch2.8cxx11abiTRUE", "vllm=0.9.1", "installer=uv 0.7.8 sync",
         "cuda_toolkit=12.8.1", "gcc=11.2", "ram_gb=16", "cores=8", "disk_gb=100",
         "driver=580.95.05", "env=MAX_JOBS=2");
    assert_fact(&af_machine_package(&machine, "flash-attn")->version,
                "2.8.3+cu12torch2.8cxx11abiTRUE");
    assert_fact(&af_machine_package(&machine, "vllm")->version, "0.9.1");
    assert_fact(&machine.tools.rows[0].name, "uv");
    assert_fact(&machine.tools.rows[0].version, "0.7.8");
    assert_fact(&machine.toolkits.rows[0].version, "12.8.1");
    assert_fact(&machine.compilers.rows[0].version, "11.2");
    assert_int_equal(af_fact_int_or(&machine.resources.memory_total_bytes, 0), INT64_C(16)
                                                                                   << 30);
    assert_int_equal(machine.disks.count, 4);
    assert_fact(&machine.driver.cuda_api, "13.0");
    assert_fact(&machine.variables.rows[0].value, "2");
}

static void test_given__flash_attn_forms(void **state)
{
    (void)state;
    assert_non_null(GIVE("flash_attn=2.7.4.post1 (URL wheel)"));
    assert_fact(&af_machine_package(&machine, "flash-attn")->version, "2.7.4.post1");
    assert_null(GIVE("flash_attn=git@v2.5.9.post1"));
    assert_fact(&af_machine_package(&machine, "flash-attn")->version, "2.5.9.post1");
    assert_null(GIVE("flash_attn=flash-attn-4 4.0.0b4"));
    assert_fact(&af_machine_package(&machine, "flash-attn-4")->version, "4.0.0b4");
    assert_null(GIVE("flash_attn=2.8.3", "flash_attn=none"));
    assert_null(af_machine_package(&machine, "flash-attn"));
    assert_int_equal(machine.packages.state, AF_FACT_KNOWN);
}

static void test_given__a_dotted_key_sets_any_fact_of_a_record(void **state)
{
    (void)state;
    assert_null(GIVE("platform.kernel=6.1", "resources.cores=4", "python.writable=yes",
                     "torch.gpu_targets=sm_80, sm_90", "driver.rocm=none"));
    assert_fact(&machine.platform.kernel, "6.1");
    assert_int_equal(af_fact_int_or(&machine.resources.cores, 0), 4);
    assert_int_equal(machine.torch.gpu_targets.value.list.count, 2);
    assert_int_equal(machine.driver.rocm.state, AF_FACT_ABSENT);
}

static void test_given__reads_every_reported_environment(void **state)
{
    struct af_arena arena;
    struct af_span rest;
    struct af_span line;
    size_t lines = 0;
    (void)state;
    af_arena_init(&arena);
    assert_int_equal(
        af_file_read(&arena, AF_TEST_DATA "/data/given_words.tsv", 1u << 20, &rest, &problem),
        ANYFLASH_OK);
    while (af_text_line(&rest, &line)) {
        start();
        for (size_t at = 0; at < line.len;) {
            const char *tab = memchr(line.data + at, '\t', line.len - at);
            size_t end = tab == NULL ? line.len : (size_t)(tab - line.data);
            const char *remark;
            const char *word = af_arena_text_n(&arena, line.data + at, end - at);
            if (af_machine_given(&machine, word, &remark, &problem) != ANYFLASH_OK)
                fail_msg("%s", problem.message);
            if (remark != NULL)
                print_message("%s\n", remark);
            at = end + 1;
        }
        lines++;
    }
    assert_true(lines > 80);
    af_arena_release(&arena);
}

int main(void)
{
    af_json_start();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_given__reads_systems_as_people_write_them),
        cmocka_unit_test(test_given__text_that_is_not_understood_is_unknown_with_a_remark),
        cmocka_unit_test(test_given__strictly_refuses_values_that_cannot_be_read),
        cmocka_unit_test(test_given__a_second_gpu_is_added),
        cmocka_unit_test(test_given__an_unknown_key_is_an_error_that_names_the_keys),
        cmocka_unit_test(test_given__torch_says_cuda_and_who_built_it),
        cmocka_unit_test(test_given__rocm_and_cpu_torch_have_no_cuda),
        cmocka_unit_test(test_given__another_torch_forgets_the_old_ones_facts),
        cmocka_unit_test(test_given__platform_and_python_give_tags_and_soabi),
        cmocka_unit_test(test_given__gpu_names_give_compute_capability),
        cmocka_unit_test(test_given__a_count_before_or_after_the_name_is_so_many_of_it),
        cmocka_unit_test(test_given__what_is_no_count_belongs_to_the_name),
        cmocka_unit_test(test_given__a_gpu_that_is_none_or_the_cpu_is_no_gpu),
        cmocka_unit_test(test_given__gpus_of_intel_and_apple_have_no_compute_capability),
        cmocka_unit_test(test_given__gpu_and_sm_describe_the_same_rows_in_either_order),
        cmocka_unit_test(test_given__packages_tools_and_build_needs),
        cmocka_unit_test(test_given__flash_attn_forms),
        cmocka_unit_test(test_given__a_dotted_key_sets_any_fact_of_a_record),
        cmocka_unit_test(test_given__reads_every_reported_environment),
    };
    return cmocka_run_group_tests(tests, NULL, stop);
}
