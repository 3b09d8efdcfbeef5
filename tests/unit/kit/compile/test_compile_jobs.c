/*
 * test_compile_jobs.c: the compiler calls of a build, what is written for them, and how
 * conditions on the GPU are settled.
 */
#include "build_world.h"

static struct af_build_jobs jobs;

static void choose_128(struct world *world)
{
    struct af_selection *selection = &world->build.selection;
    selection->head_dims = 0;
    af_selection_add_head_dim(selection, 128);
    selection->dtypes = AF_SELECTION_BF16;
}

static enum anyflash_status list(struct world *world)
{
    return af_build_list_jobs(&world->build, &world->place, &jobs, &world->err);
}

static size_t glue_count(void)
{
    size_t count = 0;
    for (const struct af_build_glue *file = af_build_glue; file->name != NULL; file++)
        count += strchr(file->name, '/') == NULL &&
                 (af_ends_with(file->name, ".cpp") || af_ends_with(file->name, ".cu"));
    return count;
}

static const struct af_govern_job *job_of(const char *file)
{
    for (size_t i = 0; i < jobs.count; i++) {
        if (strcmp(jobs.rows[i].prediction.file, file) == 0)
            return &jobs.rows[i];
    }
    fail_msg("no job %s", file);
    return NULL;
}

/* The index of the word; the test fails without it. */
static size_t at_word(const struct af_govern_job *job, const char *word)
{
    for (size_t i = 0; job->argv[i] != NULL; i++) {
        if (strcmp(job->argv[i], word) == 0)
            return i;
    }
    fail_msg("no word %s", word);
    return 0;
}

static void test_jobs__are_the_kernels_and_the_glue(void **state)
{
    struct world world;
    (void)state;
    world_begin(&world);
    assert_int_equal(list(&world), ANYFLASH_OK);
    assert_int_equal(jobs.count, 72 + glue_count());
    choose_128(&world);
    assert_int_equal(list(&world), ANYFLASH_OK);
    assert_int_equal(jobs.count, 6 + glue_count());
    world.build.selection.joins = true;
    world.build.selection.features = 0;
    assert_int_equal(list(&world), ANYFLASH_OK);
    assert_int_equal(jobs.count, 3 + glue_count());
    world_end(&world);
}

static void test_jobs__compile_for_the_targets_with_our_headers_first(void **state)
{
    struct world world;
    (void)state;
    world_begin(&world);
    choose_128(&world);
    af_selection_add_arch(&world.build.selection, 86);
    world.build.selection.features = 0;
    assert_int_equal(list(&world), ANYFLASH_OK);
    const struct af_govern_job *job = job_of("flash_bwd_hdim128_bf16_causal_sm80.cu");
    struct af_arena *arena = &world.arena;
    assert_string_equal(job->argv[0], "/usr/local/cuda-13.0/bin/nvcc");
    at_word(job, "arch=compute_80,code=sm_80");
    at_word(job, "arch=compute_90,code=sm_90");
    at_word(job, "-DFLASHATTENTION_DISABLE_DROPOUT");
    assert_string_equal(job->argv[at_word(job, "-ccbin") + 1], "/usr/bin/g++");
    size_t ours = at_word(job, af_arena_format(arena, "-I%s/torch", world.place.glue));
    size_t generated =
        at_word(job, af_arena_format(arena, "-I%s/generated", world.place.folder));
    size_t theirs =
        at_word(job, af_arena_format(arena, "-I%s/csrc/flash_attn/src", world.place.sources));
    assert_true(ours < generated && generated < theirs);
    assert_string_equal(job->argv[at_word(job, "-o") + 1],
                        af_arena_format(arena, "%s.new", job->object));
    world_end(&world);
}

static void test_jobs__are_predicted_by_what_they_compile(void **state)
{
    struct world world;
    (void)state;
    world_begin(&world);
    assert_int_equal(list(&world), ANYFLASH_OK);
    const struct af_prediction *backward =
        &job_of("flash_bwd_hdim256_bf16_sm80.cu")->prediction;
    const struct af_prediction *forward = &job_of("flash_fwd_hdim64_bf16_sm80.cu")->prediction;
    const struct af_prediction *glue = &jobs.rows[jobs.count - 1].prediction;
    assert_true(backward->bytes > forward->bytes && forward->bytes > glue->bytes);
    assert_true(backward->rises && !glue->rises);
    assert_string_not_equal(backward->key, forward->key);
    world_end(&world);
}

static const char *settled(int arch, const char *text, struct af_arena *arena)
{
    struct af_selection selection = {0};
    af_selection_all(&selection);
    selection.features = 0;
    af_selection_add_arch(&selection, arch);
    return af_build_settle(&selection, text, arena);
}

static void test_settle__decides_only_what_depends_on_the_gpu_alone(void **state)
{
    static const char *const rows[][2] = {
        {"if (is_sm8x) {", "if constexpr (false) {"},
        {"} else if (max_smem_per_block >= 2 * (Headdim + 3)) {",
         "} else if constexpr (232448 >= 2 * (Headdim + 3)) {"},
        {"if (max_smem_per_block >= 2 && max_smem_per_sm < 4) { a(); }",
         "if constexpr (232448 >= 2 && 233472 < 4) { a(); }"},
        {"if (smem_size >= 48 * 1024) {", NULL},
        {"if (max_smem_per_block >= smem_size) {", NULL},
        {"if constexpr(!Is_dropout) {", NULL},
        {"if (is_sm8x)\n    a();", NULL},
        {"elif (is_sm8x) {", NULL},
        {"if (is_sm8x", NULL},
        {"if (", NULL},
        {"if (is_sm8x { ) {", NULL},
        {"", NULL}};
    struct af_arena arena;
    (void)state;
    af_arena_init(&arena);
    for (size_t i = 0; i < AF_COUNT(rows); i++) {
        const char *expected = rows[i][1] == NULL ? rows[i][0] : rows[i][1];
        assert_string_equal(settled(90, rows[i][0], &arena), expected);
        assert_string_equal(settled(80, rows[i][0], &arena), rows[i][0]);
    }
    af_arena_release(&arena);
}

static void put_source(struct world *world, const char *name)
{
    const char *path = af_arena_format(&world->arena, "%s/csrc/flash_attn/src/%s",
                                       world->place.sources + strlen(world->folder) + 1, name);
    world_put(world, path, "if (is_sm8x) {\n");
}

static enum anyflash_status write_all(struct world *world)
{
    return af_build_write_sources(&world->build, &world->place, &world->err);
}

static void test_sources__are_copied_settled_and_joined(void **state)
{
    struct world world;
    (void)state;
    world_begin(&world);
    choose_128(&world);
    world.build.selection.backward = false;
    world.build.selection.features = 0;
    world.build.selection.joins = true;
    put_source(&world, "flash_fwd_launch_template.h");
    put_source(&world, "flash_bwd_launch_template.h");
    put_source(&world, "flash_fwd_hdim128_bf16_sm80.cu");
    put_source(&world, "flash_fwd_hdim128_bf16_causal_sm80.cu");
    put_source(&world, "flash_fwd_split_hdim128_bf16_sm80.cu");
    assert_int_equal(write_all(&world), ANYFLASH_E_DATA);
    assert_non_null(strstr(world.err.message, "flash_fwd_split_hdim128_bf16_causal_sm80.cu"));
    put_source(&world, "flash_fwd_split_hdim128_bf16_causal_sm80.cu");
    assert_int_equal(write_all(&world), ANYFLASH_OK);
    const char *generated = af_path_join(&world.arena, world.place.folder, "generated");
    assert_string_equal(world_text(&world, af_path_join(&world.arena, generated,
                                                        "flash_fwd_hdim128_bf16_both_sm80.cu")),
                        "#include \"flash_fwd_hdim128_bf16_sm80.cu\"\n"
                        "#include \"flash_fwd_hdim128_bf16_causal_sm80.cu\"\n");
    assert_string_equal(world_text(&world, af_path_join(&world.arena, generated,
                                                        "flash_fwd_launch_template.h")),
                        "if constexpr (false) {\n");
    assert_non_null(
        world_text(&world, af_path_join(&world.arena, world.place.glue, "LICENSE")));
    world_starve(&world, write_all);
    world_starve(&world, list);
    world_end(&world);
}

static void test_first_error__is_the_line_that_says_most(void **state)
{
    static const char *const rows[][2] = {
        {"a.cu(3): warning: x\nb.cu(3): error: y\nc.cu: error: z\n", "b.cu(3): error: y"},
        {"nvcc error   : 'cicc' died\n", "nvcc error   : 'cicc' died"},
        {"first\nlast\n\n", "last"},
        {"", NULL}};
    struct world world;
    (void)state;
    world_begin(&world);
    for (size_t i = 0; i < AF_COUNT(rows); i++) {
        const char *path = world_put(&world, "out", rows[i][0]);
        const char *line = af_build_first_error(&world.arena, path);
        if (rows[i][1] == NULL)
            assert_null(line);
        else
            assert_string_equal(line, rows[i][1]);
    }
    assert_null(af_build_first_error(&world.arena, "/nonexistent"));
    world_end(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_jobs__are_the_kernels_and_the_glue),
        cmocka_unit_test(test_jobs__compile_for_the_targets_with_our_headers_first),
        cmocka_unit_test(test_jobs__are_predicted_by_what_they_compile),
        cmocka_unit_test(test_settle__decides_only_what_depends_on_the_gpu_alone),
        cmocka_unit_test(test_sources__are_copied_settled_and_joined),
        cmocka_unit_test(test_first_error__is_the_line_that_says_most),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
