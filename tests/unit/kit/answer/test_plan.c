/*
 * test_plan.c: turns decisions into commands, and quotes them.
 */
#include "tests/unit/kit/fit/given_machine.h"

#include "kit/answer/plan.h"
#include "kit/fit/fit.h"

#define LINUX "os=linux arch=x86_64 glibc=2.35 "
#define GPU "sm=8.9 driver=580.65.06 "
#define RTX4090 LINUX GPU "python=3.12 torch=2.8.0+cu128 uv=0.13.8 "

static struct af_arena arena;

/* All commands of the plan, one per line; advice as "# ...". */
static const char *plan_for(const char *words, const char *record,
                            const struct af_fit_options *options)
{
    struct anyflash_error err;
    struct af_machine machine;
    struct af_decision decision;
    struct af_plan plan;
    const char *text = "";
    machine_of(&machine, words);
    if (record != NULL && af_machine_parse(&machine, (struct af_span){record, strlen(record)},
                                           "record", &err) != ANYFLASH_OK)
        fail_msg("%s", err.message);
    const struct af_machine *machines[] = {&machine};
    assert_int_equal(af_fit_decide(&catalog, machines, 1, options, &decision, &err),
                     ANYFLASH_OK);
    assert_int_equal(af_plan_make(&decision, machines, 1, &plan, &err), ANYFLASH_OK);
    for (size_t i = 0; i < plan.step_count; i++) {
        const char *command = plan.steps[i].argc == 0
                                  ? af_arena_format(&arena, "# %s", plan.steps[i].title)
                                  : af_step_command(&plan.steps[i], AF_SHELL_POSIX, &arena);
        text = af_arena_format(&arena, "%s%s\n", text, command);
    }
    af_plan_release(&plan);
    af_decision_release(&decision);
    af_machine_release(&machine);
    return text;
}

static const char *plan_of(const char *words)
{
    return plan_for(words, NULL, NULL);
}

static void assert_has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("no '%s' in:\n%s", part, text);
}

static void test_plan__installs_the_wheel_by_its_encoded_address(void **state)
{
    (void)state;
    const char *text = plan_of(RTX4090);
    assert_has(text, "uv pip install --python python --no-deps https://");
    assert_has(text, "flash_attn-2.8.3.post1%2Bcu12torch2.8cxx11abiTRUE-cp312-cp312-linux_"
                     "x86_64.whl\n");
    assert_has(text, "uv pip install --python python einops\n");
}

/* A row of a community wheel for torch 2.8 and Python 3.12. */
#define ROW(version, glibc, evidence, more)                                                    \
    "{\"source\":\"a/b\",\"package\":\"flash_attn\",\"version\":\"" version                    \
    "\",\"filename\":\"flash_attn-" version "+cu12torch2.8-cp312-cp312-linux_x86_64.whl\","    \
    "\"url\":\"https://h/flash_attn-" version                                                  \
    "%2Bcu12torch2.8-cp312-cp312-linux_x86_64.whl\",\"cuda\":\"12\",\"torch\":\"2.8\","        \
    "\"cxx11abi_effective\":true,\"python\":\"cp312\",\"abi\":\"cp312\",\"platform\":"         \
    "\"linux_x86_64\",\"glibc_min\":" glibc ",\"sm\":[\"8.0\"],\"evidence\":\"" evidence       \
    "\"" more "}\n"

/* The plan of RTX4090 with only these wheels. */
static const char *plan_with(const char *rows)
{
    struct anyflash_error err;
    struct af_catalog whole = catalog;
    if (af_catalog_parse(&catalog, (struct af_span){rows, strlen(rows)}, "rows", &err) !=
        ANYFLASH_OK)
        fail_msg("%s", err.message);
    const char *text = plan_of(RTX4090);
    af_catalog_release(&catalog);
    catalog = whole;
    return text;
}

static void test_plan__names_the_hash_where_it_is_known(void **state)
{
    (void)state;
    const char *text = plan_with(ROW("2.8.3", "\"2.28\"", "listed",
                                     ",\"sha256\":\"00112233445566778899aabbccddeeff"
                                     "00112233445566778899AABBCCDDEEFF\""));
    assert_has(text, "--no-deps 'https://h/flash_attn-2.8.3%2Bcu12torch2.8-cp312-cp312-linux_"
                     "x86_64.whl#sha256=00112233445566778899aabbccddeeff"
                     "00112233445566778899aabbccddeeff'\n");
}

static void test_plan__says_that_a_wheel_was_not_seen(void **state)
{
    (void)state;
    assert_has(plan_with(ROW("2.8.3", "\"2.28\"", "matrix", "")),
               "# if that URL does not exist (404), run `anyflash update` and plan again: the "
               "file is likely there, but was not seen");
    assert_null(strstr(plan_with(ROW("2.8.3", "\"2.28\"", "listed", "")), "404"));
}

static void test_plan__prefers_a_wheel_that_was_seen(void **state)
{
    (void)state;
    assert_has(plan_with(ROW("2.8.3.post1", "\"2.24\"", "matrix", "")
                             ROW("2.8.3", "\"2.28\"", "listed", "")),
               "flash_attn-2.8.3%2B");
    assert_has(plan_with(ROW("2.8.3.post1", "\"2.24\"", "matrix", "")
                             ROW("2.8.3", "null", "listed", "")),
               "flash_attn-2.8.3.post1%2B");
}

static void test_plan__takes_pip_where_there_is_no_uv(void **state)
{
    (void)state;
    const char *text = plan_of(LINUX GPU "python=3.12 torch=2.8.0+cu128 pip=26.3");
    assert_has(text, "python -m pip install --no-deps https://");
}

static void test_plan__replaces_an_installed_flash_attn(void **state)
{
    (void)state;
    const char *text = plan_of(RTX4090 "flash_attn=2.7.3");
    assert_has(text, "--reinstall-package flash-attn");
}

static void test_plan__leaves_the_very_file_alone(void **state)
{
    static const char record[] =
        "{\"packages\":[{\"name\":\"flash-attn\",\"version\":\"2.8.3.post1\",\"origin\":"
        "\"https://github.com/Dao-AILab/flash-attention/releases/download/v2.8.3.post1/"
        "flash_attn-2.8.3.post1+cu12torch2.8cxx11abiTRUE-cp312-cp312-linux_x86_64.whl\"}]}";
    (void)state;
    const char *text = plan_for(RTX4090, record, NULL);
    assert_has(text, "# nothing to install");
    assert_null(strstr(text, "--no-deps"));
}

static void test_plan__makes_an_environment_over_a_managed_python(void **state)
{
    (void)state;
    const char *text = plan_of(RTX4090 "python.externally_managed=true");
    assert_has(text, "uv venv --python python --system-site-packages .venv\n");
    assert_has(text, "--python .venv/bin/python --no-deps");
}

static void test_plan__pins_the_build_of_a_changed_torch(void **state)
{
    (void)state;
    const char *text = plan_of(LINUX GPU "python=3.11 torch=2.8.0+cpu uv=0.13.8");
    assert_has(text, "--torch-backend cu128 torch==2.8.0+cu128\n");
    assert_has(text, "--no-deps https://");
}

static void test_plan__moves_torchvision_with_torch(void **state)
{
    static const char record[] = "{\"packages\":[{\"name\":\"torchvision\",\"version\":"
                                 "\"0.23.0+cpu\",\"needs_torch\":\"==2.8.0\"}]}";
    (void)state;
    const char *text =
        plan_for(LINUX GPU "python=3.11 torch=2.8.0+cpu uv=0.13.8", record, NULL);
    assert_has(text, "torch==2.8.0+cu128 torchvision\n");
}

static void test_plan__build_is_a_slim_one_unless_more_is_asked_for(void **state)
{
    static const char *const words[] = {"--for", "my model/config.json", "--inference"};
    struct af_fit_options options = {.has_preference = true, .preference = AF_RUNG_BUILD};
    (void)state;
    const char *machine = LINUX GPU "python=3.12 torch=2.15.0+cu132 uv=0.13.8 "
                                    "cuda_toolkit=none gcc=12 ram_gb=16 cores=8 disk_gb=100";
    const char *text = plan_for(machine, NULL, &options);
    assert_has(text, "anyflash build --head-dim 128 --dtype bf16\n");
    options.build_words = words;
    options.build_word_count = AF_COUNT(words);
    text = plan_for(machine, NULL, &options);
    assert_has(text, "anyflash build --for 'my model/config.json' --inference\n");
}

#define LINUX_T4 LINUX "sm=7.5 driver=580.65.06 uv=0.13.8 "

static void test_plan__without_a_wheel_begins_with_what_needs_no_installation(void **state)
{
    static const char *const without_wheel[] = {
        LINUX_T4 "python=3.12 torch=2.9.1+cu128",
        LINUX "gpu=none python=3.12 torch=2.9.1+cpu",
        LINUX "gpu=MI300X python=3.12 torch=2.8.0+rocm6.4",
        "gpu=M3 python=3.12 torch=2.11.0",
    };
    static const char first[] = "# with transformers, set attn_implementation=\"sdpa\"; ";
    (void)state;
    for (size_t i = 0; i < AF_COUNT(without_wheel); i++) {
        const char *text = plan_of(without_wheel[i]);
        if (strncmp(text, first, strlen(first)) != 0)
            fail_msg("it begins with:\n%s", text);
        assert_null(strstr(text, "shim install"));
    }
}

static void test_plan__offers_the_stand_in_to_programs_that_import_flash_attn(void **state)
{
    (void)state;
    const char *text = plan_of(LINUX_T4 "python=3.12 torch=2.9.1+cu128");
    assert_has(text, "\nanyflash package install --stand-in --python python\n"
                     "python -m anyflash providers\n");
    text = plan_for(LINUX_T4 "python=3.12 torch=2.9.1+cu128",
                    "{\"packages\":[{\"name\":\"flash-attn\",\"version\":\"2.8.3\"}]}", NULL);
    assert_has(text, "\nanyflash package install --python python\n");
    assert_has(text, "anyflash's stand-in can be installed once it is uninstalled");
}

static void test_plan__has_no_step_of_the_package_where_it_is_not_to_be_had(void **state)
{
    const struct af_fit_options options = {.lacks_package = true};
    (void)state;
    const char *text = plan_for(LINUX_T4 "python=3.12 torch=2.9.1+cu128", NULL, &options);
    assert_null(strstr(text, "anyflash"));
    assert_has(text, "sdpa_kernel(B.EFFICIENT_ATTENTION)");
}

static void test_plan__makes_an_environment_for_the_own_package(void **state)
{
    (void)state;
    const char *text = plan_of(LINUX_T4 "python=3.12 torch=2.9.1+cu128 "
                                        "python.externally_managed=true");
    assert_has(text, "uv venv --python python --system-site-packages .venv\n"
                     "# with transformers, set attn_implementation=\"sdpa\"; ");
    assert_has(text, "anyflash package install --stand-in --python .venv\n");
}

static void test_plan__uses_the_own_package_that_is_there(void **state)
{
    static const char record[] = "{\"packages\":[{\"name\":\"anyflash\",\"version\":\"%s\"}]}";
    const char *const versions[] = {anyflash_version_text(), "0.0.1"};
    (void)state;
    for (size_t i = 0; i < AF_COUNT(versions); i++) {
        char there[sizeof record + 16];
        snprintf(there, sizeof there, record, versions[i]);
        const char *text = plan_for(LINUX_T4 "python=3.12 torch=2.9.1+cu128", there, NULL);
        assert_null(strstr(text, "package install --python"));
        assert_true((strstr(text, "--stand-in") != NULL) == (i == 0));
    }
}

static void test_plan__says_where_the_own_package_does_not_run(void **state)
{
    (void)state;
    const char *text = plan_of(LINUX_T4 "python=3.8 torch=2.4.1+cu121");
    assert_has(text,
               "# anyflash's Python package needs Python 3.9 or newer, and this is 3.8\n");
    assert_has(text, "scaled_dot_product_attention");
    text = plan_of("os=windows arch=x86_64 gpu=none python=3.12 torch=2.9.1+cpu");
    assert_has(text, "scaled_dot_product_attention");
    assert_null(strstr(text, "package install"));
}

static void test_plan__installs_what_fa4_needs_and_keeps_torch(void **state)
{
    const struct af_fit_options options = {.package = "flash_attn_4"};
    (void)state;
    const char *text =
        plan_for(LINUX GPU "python=3.12 torch=2.9.1+cu128 uv=0.13.8", NULL, &options);
    assert_has(text, "uv pip install --python python --no-deps 'https://");
    assert_has(text, "uv pip install --python python 'nvidia-cutlass-dsl>=4.6.2' "
                     "'quack-kernels>=0.5.3' 'apache-tvm-ffi>=0.1.11,<0.2' torch-c-dlpack-ext "
                     "einops typing-extensions torch==2.9.1\n");
    assert_has(text, "from flash_attn.cute import flash_attn_func");
    assert_has(text, "# on this GPU FlashAttention-4 computes the forward pass only");
    text = plan_for(LINUX "sm=12.0 driver=580.65.06 python=3.12 torch=2.9.1+cu130 uv=0.13.8",
                    NULL, &options);
    assert_has(text, "'nvidia-cutlass-dsl[cu13]>=4.6.2'");
    assert_has(text, "takes no paged KV cache");
}

static void test_plan__says_what_serves_gpus_of_other_vendors(void **state)
{
    (void)state;
    const char *text = plan_of(LINUX "gpu=Arc-A770 python=3.12 torch=2.11.0+xpu uv=0.13.8");
    assert_has(text, "# with torch's XPU build, scaled_dot_product_attention runs on the Intel "
                     "GPU");
    assert_has(text, "anyflash package install --stand-in --python python\n");
    text = plan_of("gpu=M3 python=3.12 torch=2.11.0");
    assert_has(text, "# scaled_dot_product_attention runs on the Apple GPU");
    assert_null(strstr(text, "anyflash"));
}

static void test_plan__gives_the_commands_of_flash_attn_for_rocm(void **state)
{
    (void)state;
    const char *text = plan_of(LINUX "gpu=MI300X python=3.12 torch=2.11.0+rocm7.1 uv=0.13.8");
    assert_has(text, "\nGPU_ARCHS=gfx942 uv pip install --python python --no-build-isolation "
                     "git+https://github.com/Dao-AILab/flash-attention@v2.8.3.post1\n");
    text = plan_of(LINUX "sm=gfx1100 python=3.12 torch=2.11.0+rocm7.1 uv=0.13.8");
    assert_has(text,
               "\nFLASH_ATTENTION_TRITON_AMD_ENABLE=TRUE AITER_USE_SYSTEM_TRITON=1 uv pip "
               "install --python python --no-build-isolation git+https://");
    text = plan_of(LINUX "sm=gfx1300 python=3.12 torch=2.15.0+rocm7.1");
    assert_null(strstr(text, "flash-attention"));
    assert_has(text, "--stand-in --python python\n");
    text = plan_of(LINUX "gpu=MI300X python=3.12 torch=2.9.1+cu128 uv=0.13.8");
    if (strncmp(text, "uv pip install --python python --torch-backend auto ", 52) != 0)
        fail_msg("it begins with:\n%s", text);
}

static void test_command__quotes_what_a_shell_would_read(void **state)
{
    const char *const argv[] = {"print", "it's", "a b", "$HOME", "", "torch==2.8.0+cu128"};
    const char *const environment[] = {"FLASH_ATTN_CUDA_ARCHS=80;90", "MAX_JOBS=2"};
    const struct af_step step = {.argv = argv,
                                 .argc = AF_COUNT(argv),
                                 .environment = environment,
                                 .environment_count = AF_COUNT(environment)};
    (void)state;
    assert_string_equal(af_step_command(&step, AF_SHELL_POSIX, &arena),
                        "FLASH_ATTN_CUDA_ARCHS='80;90' MAX_JOBS=2 print 'it'\\''s' 'a b' "
                        "'$HOME' '' torch==2.8.0+cu128");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plan__installs_the_wheel_by_its_encoded_address),
        cmocka_unit_test(test_plan__names_the_hash_where_it_is_known),
        cmocka_unit_test(test_plan__says_that_a_wheel_was_not_seen),
        cmocka_unit_test(test_plan__prefers_a_wheel_that_was_seen),
        cmocka_unit_test(test_plan__takes_pip_where_there_is_no_uv),
        cmocka_unit_test(test_plan__replaces_an_installed_flash_attn),
        cmocka_unit_test(test_plan__leaves_the_very_file_alone),
        cmocka_unit_test(test_plan__makes_an_environment_over_a_managed_python),
        cmocka_unit_test(test_plan__pins_the_build_of_a_changed_torch),
        cmocka_unit_test(test_plan__moves_torchvision_with_torch),
        cmocka_unit_test(test_plan__build_is_a_slim_one_unless_more_is_asked_for),
        cmocka_unit_test(test_plan__without_a_wheel_begins_with_what_needs_no_installation),
        cmocka_unit_test(test_plan__offers_the_stand_in_to_programs_that_import_flash_attn),
        cmocka_unit_test(test_plan__has_no_step_of_the_package_where_it_is_not_to_be_had),
        cmocka_unit_test(test_plan__makes_an_environment_for_the_own_package),
        cmocka_unit_test(test_plan__uses_the_own_package_that_is_there),
        cmocka_unit_test(test_plan__says_where_the_own_package_does_not_run),
        cmocka_unit_test(test_plan__installs_what_fa4_needs_and_keeps_torch),
        cmocka_unit_test(test_plan__says_what_serves_gpus_of_other_vendors),
        cmocka_unit_test(test_plan__gives_the_commands_of_flash_attn_for_rocm),
        cmocka_unit_test(test_command__quotes_what_a_shell_would_read),
    };
    af_json_start();
    af_arena_init(&arena);
    int failed = cmocka_run_group_tests(tests, load_catalog, release_catalog);
    af_arena_release(&arena);
    return failed;
}
