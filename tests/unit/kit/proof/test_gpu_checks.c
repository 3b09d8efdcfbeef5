/*
 * test_gpu_checks.c: which image runs on which GPU, and the three GPU checks of a
 * proof, for synthetic GPU code and machines described in words.
 */
#include "kit/fit/gpu_targets.h"
#include "kit/proof/gpu_checks.h"
#include "tests/unit/kit/fit/given_machine.h"

/* Everything the tests need; released in end(). */
struct ground {
    struct af_arena arena;
    struct af_machine machine;
    struct af_view view;
    struct af_proof_check checks[AF_PROOF_GPU_CHECKS];
};

static int begin(void **state)
{
    struct ground *ground = calloc(1, sizeof *ground);
    assert_non_null(ground);
    af_arena_init(&ground->arena);
    *state = ground;
    return 0;
}

static int end(void **state)
{
    struct ground *ground = *state;
    af_arena_release(&ground->arena);
    free(ground);
    return 0;
}

#define IMAGES_MAX 16

/* GPU code in words: "sm_80 compute_90/8.4 | sm_90a+zstd": units, their images. */
struct made_code {
    struct af_gpu_code code;
    struct af_gpu_container containers[4];
    struct af_gpu_image images[IMAGES_MAX];
    struct af_gpu_target targets[IMAGES_MAX];
};

static struct af_gpu_image image_of(const char *word)
{
    struct af_gpu_image image = {
        .has_entry = AF_UNKNOWN, .version_major = 8, .raw_bytes = 9999};
    bool ptx = word[0] == 'c';
    char *end_of;
    image.kind = ptx ? AF_GPU_PTX : AF_GPU_SASS;
    image.sm = (int)strtol(word + strlen(ptx ? "compute_" : "sm_"), &end_of, 10);
    if (*end_of == 'a' || *end_of == 'f')
        image.suffix = *end_of++;
    if (*end_of == '/') {
        image.version_major = (uint16_t)strtol(end_of + 1, &end_of, 10);
        image.version_minor = (uint16_t)strtol(end_of + 1, &end_of, 10);
    }
    image.packing = strcmp(end_of, "+zstd") == 0 ? AF_GPU_ZSTD : AF_GPU_RAW;
    image.has_entry = strcmp(end_of, "-empty") == 0 ? AF_NO : AF_UNKNOWN;
    return image;
}

static void make_code(struct made_code *made, const char *words)
{
    memset(made, 0, sizeof *made);
    struct af_gpu_code *code = &made->code;
    *code = (struct af_gpu_code){.containers = made->containers,
                                 .images = made->images,
                                 .targets = made->targets,
                                 .container_count = 1,
                                 .wrapper_count = -1};
    while (*words != '\0') {
        char word[40];
        size_t len = strcspn(words, " ");
        assert_true(len < sizeof word && code->image_count < IMAGES_MAX);
        memcpy(word, words, len);
        word[len] = '\0';
        words += len + strspn(words + len, " ");
        struct af_gpu_container *container = &made->containers[code->container_count - 1];
        if (strcmp(word, "|") == 0) {
            made->containers[code->container_count++].image_first = (uint32_t)code->image_count;
            continue;
        }
        struct af_gpu_image image = image_of(word);
        image.container = (uint32_t)code->container_count - 1;
        made->images[code->image_count++] = image;
        container->image_count++;
        if (image.has_entry != AF_NO)
            made->targets[code->target_count++] =
                (struct af_gpu_target){.kind = image.kind,
                                       .sm = image.sm,
                                       .suffix = image.suffix,
                                       .zstd_count = image.packing == AF_GPU_ZSTD};
    }
}

/* Runs the checks for code and machine described in words. */
static void check(struct ground *ground, const char *code, const char *machine)
{
    struct made_code made;
    make_code(&made, code);
    machine_of(&ground->machine, machine);
    af_view_make(&ground->machine, NULL, &ground->arena, &ground->view);
    af_proof_gpu(&made.code, NULL, &ground->view, &ground->arena, ground->checks);
    af_machine_release(&ground->machine);
}

static void test_gpu_checks__images_run_where_nvidia_says(void **state)
{
    static const struct {
        const char *image;
        int gpu;
        enum af_answer runs;
    } cases[] = {
        {"sm_80", 80, AF_YES},        {"sm_80", 86, AF_YES},
        {"sm_80", 89, AF_YES},        {"sm_80", 90, AF_NO},
        {"sm_86", 80, AF_NO},         {"sm_89", 86, AF_NO},
        {"sm_80", 87, AF_UNKNOWN},    {"sm_87", 87, AF_YES},
        {"sm_87", 89, AF_UNKNOWN},    {"sm_70", 72, AF_UNKNOWN},
        {"sm_70", 75, AF_YES},        {"sm_90", 90, AF_YES},
        {"sm_90a", 90, AF_YES},       {"sm_100", 103, AF_YES},
        {"sm_100a", 103, AF_NO},      {"sm_100f", 103, AF_YES},
        {"sm_103f", 100, AF_NO},      {"sm_120f", 121, AF_YES},
        {"sm_120a", 121, AF_NO},      {"sm_100f", 110, AF_NO},
        {"sm_101", 110, AF_UNKNOWN},  {"sm_101f", 110, AF_UNKNOWN},
        {"sm_110a", 101, AF_UNKNOWN}, {"compute_80", 120, AF_YES},
        {"compute_90", 89, AF_NO},    {"compute_90a", 90, AF_YES},
        {"compute_90a", 100, AF_NO},  {"compute_100f", 103, AF_YES},
        {"compute_100f", 120, AF_NO}, {"compute_87", 89, AF_YES},
    };
    (void)state;
    for (size_t i = 0; i < AF_COUNT(cases); i++) {
        struct af_gpu_image image = image_of(cases[i].image);
        if (af_image_runs(&image, cases[i].gpu) != cases[i].runs)
            fail_msg("%s on %d", cases[i].image, cases[i].gpu);
    }
}

static void test_gpu_checks__every_unit_must_be_served(void **state)
{
    struct ground *ground = *state;
    check(ground, "sm_80 sm_90 | sm_80 sm_90", "os=linux sm=8.9 driver=550.54.14");
    assert_int_equal(ground->checks[0].answer, AF_YES);
    assert_non_null(strstr(ground->checks[0].evidence, "8.9"));
    assert_non_null(strstr(ground->checks[0].evidence, "sm_80 in 2 of 2"));
    check(ground, "sm_80 sm_90 | sm_90", "os=linux sm=8.9 driver=550.54.14");
    assert_int_equal(ground->checks[0].answer, AF_NO);
    assert_non_null(strstr(ground->checks[0].evidence, "no code in 1 of 2"));
}

static void test_gpu_checks__empty_cubins_serve_nothing_and_need_nothing(void **state)
{
    struct ground *ground = *state;
    check(ground, "sm_75-empty | sm_80", "os=linux sm=7.5 driver=550.54.14");
    assert_int_equal(ground->checks[0].answer, AF_NO);
    check(ground, "sm_75-empty | sm_80", "os=linux sm=8.0 driver=550.54.14");
    assert_int_equal(ground->checks[0].answer, AF_YES);
    check(ground, "sm_80-empty compute_80 | sm_80 compute_80",
          "os=linux sm=9.0 driver=550.54.14");
    assert_non_null(strstr(ground->checks[0].evidence, "compute_80 in 1 of 1"));
}

static void test_gpu_checks__units_for_one_sm_only_bind_nobody_else(void **state)
{
    struct ground *ground = *state;
    check(ground, "sm_80 sm_90 | sm_90a | sm_100a sm_120a", "os=linux sm=8.9 driver=580.95.05");
    assert_int_equal(ground->checks[0].answer, AF_YES);
    assert_non_null(strstr(ground->checks[0].evidence, "1 of 1"));
    check(ground, "sm_80-empty sm_90a | sm_80", "os=linux sm=8.0 driver=580.95.05");
    assert_int_equal(ground->checks[0].answer, AF_YES);
    check(ground, "sm_90a", "os=linux sm=8.9 driver=580.95.05");
    assert_int_equal(ground->checks[0].answer, AF_NO);
}

static void test_gpu_checks__each_gpu_is_judged(void **state)
{
    struct ground *ground = *state;
    check(ground, "sm_80", "os=linux sm=8.0,12.0 driver=580.95.05");
    assert_int_equal(ground->checks[0].answer, AF_NO);
    check(ground, "sm_80", "os=linux sm=8.0,8.7 driver=580.95.05");
    assert_int_equal(ground->checks[0].answer, AF_UNKNOWN);
}

static void test_gpu_checks__without_a_gpu_nothing_is_decided(void **state)
{
    struct ground *ground = *state;
    check(ground, "sm_80 sm_90a", "os=linux gpu=none");
    assert_int_equal(ground->checks[0].answer, AF_UNKNOWN);
    assert_non_null(strstr(ground->checks[0].evidence, "sm_80, sm_90a"));
    assert_int_equal(ground->checks[1].answer, AF_UNKNOWN);
    assert_int_equal(ground->checks[2].answer, AF_YES);
}

static void test_gpu_checks__ptx_is_weighed_against_the_drivers_cuda(void **state)
{
    struct ground *ground = *state;
    check(ground, "sm_80 compute_80/8.7", "os=linux sm=9.0 driver=550.54.14 cuda_api=12.4");
    assert_int_equal(ground->checks[0].answer, AF_YES);
    assert_int_equal(ground->checks[1].answer, AF_NO);
    assert_non_null(strstr(ground->checks[1].evidence, "CUDA 12.8"));
    check(ground, "sm_80 compute_80/8.7", "os=linux sm=9.0 driver=570.26 cuda_api=12.8");
    assert_int_equal(ground->checks[1].answer, AF_YES);
    check(ground, "sm_80 compute_80/8.7", "os=linux sm=8.9 driver=550.54.14 cuda_api=12.4");
    assert_int_equal(ground->checks[1].answer, AF_YES); /* SASS serves it */
    check(ground, "compute_80/99.0", "os=linux sm=9.0 driver=570.26 cuda_api=12.8");
    assert_int_equal(ground->checks[1].answer, AF_UNKNOWN);
    check(ground, "compute_80/8.4", "os=linux sm=9.0");
    assert_int_equal(ground->checks[1].answer, AF_UNKNOWN);
}

static void test_gpu_checks__zstd_needs_a_driver_that_unpacks_it(void **state)
{
    struct ground *ground = *state;
    check(ground, "sm_80+zstd", "os=linux sm=8.0 driver=535.104.05");
    assert_int_equal(ground->checks[2].answer, AF_NO);
    assert_non_null(strstr(ground->checks[2].evidence, "550.54.14"));
    check(ground, "sm_80+zstd", "os=linux sm=8.0 driver=550.54.14");
    assert_int_equal(ground->checks[2].answer, AF_YES);
    /* Images that this GPU does not need. */
    check(ground, "sm_80 sm_90+zstd", "os=linux sm=8.0 driver=535.104.05");
    assert_int_equal(ground->checks[2].answer, AF_UNKNOWN);
    check(ground, "sm_80", "os=linux sm=8.0 driver=525.60.13");
    assert_int_equal(ground->checks[2].answer, AF_YES);
}

static void test_gpu_checks__code_that_was_not_read_is_unknown(void **state)
{
    struct ground *ground = *state;
    machine_of(&ground->machine, "os=linux sm=8.0");
    af_view_make(&ground->machine, NULL, &ground->arena, &ground->view);
    af_proof_gpu(NULL, NULL, &ground->view, &ground->arena, ground->checks);
    for (size_t i = 0; i < AF_PROOF_GPU_CHECKS; i++)
        assert_int_equal(ground->checks[i].answer, AF_UNKNOWN);
    af_machine_release(&ground->machine);
}

static void test_gpu_checks__a_library_without_gpu_code_needs_no_gpu(void **state)
{
    struct ground *ground = *state;
    check(ground, "", "os=linux gpu=none");
    for (size_t i = 0; i < AF_PROOF_GPU_CHECKS; i++)
        assert_int_equal(ground->checks[i].answer, AF_YES);
}

/* FlashAttention 3: each unit is for one architecture, with empty kernels for the others. */
static void test_gpu_checks__families_with_guards_are_judged_by_their_own_units(void **state)
{
    struct ground *ground = *state;
    struct made_code made;
    struct af_proof_gpu_coverage cover;
    static const uint32_t first[] = {0};
    static const uint32_t second[] = {1};
    struct af_flash_family families[] = {
        {.kernel = {AF_FLASH_FORWARD, 3, 128, "bf16", 0, 80, 89},
         .containers = first,
         .container_count = 1},
        {.kernel = {AF_FLASH_FORWARD, 3, 128, "bf16", 0, 90, 90},
         .containers = second,
         .container_count = 1},
    };
    struct af_flash_kernels kernels = {.families = families, .family_count = 2};
    make_code(&made, "sm_80 | sm_80 sm_90a");
    af_proof_gpu_cover(&made.code, &kernels, 90, &ground->arena, &cover);
    assert_int_equal(cover.runs, AF_YES);
    af_proof_gpu_cover(&made.code, &kernels, 89, &ground->arena, &cover);
    assert_int_equal(cover.runs, AF_YES);
    af_proof_gpu_cover(&made.code, &kernels, 120, &ground->arena, &cover);
    assert_int_equal(cover.runs, AF_NO);
    assert_int_equal(cover.lacking_family_count, 1);
    assert_string_equal(cover.lacking_families.items[0], "flash_fwd (3) hdim128 bf16");
    /* Without the unit for 8.x only empty kernels are left there. */
    kernels.families = families + 1;
    kernels.family_count = 1;
    af_proof_gpu_cover(&made.code, &kernels, 80, &ground->arena, &cover);
    assert_int_equal(cover.runs, AF_NO);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(test_gpu_checks__##name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(images_run_where_nvidia_says),
        TEST(every_unit_must_be_served),
        TEST(empty_cubins_serve_nothing_and_need_nothing),
        TEST(units_for_one_sm_only_bind_nobody_else),
        TEST(each_gpu_is_judged),
        TEST(without_a_gpu_nothing_is_decided),
        TEST(ptx_is_weighed_against_the_drivers_cuda),
        TEST(zstd_needs_a_driver_that_unpacks_it),
        TEST(code_that_was_not_read_is_unknown),
        TEST(a_library_without_gpu_code_needs_no_gpu),
        TEST(families_with_guards_are_judged_by_their_own_units),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
