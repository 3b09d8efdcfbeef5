/*
 * test_build_selection.c: what is passed to the driver and the compilers, and
 * what is predicted for the governor.
 */
#include "build_world.h"

#include "kit/base/json.h"

static json_t *selection(struct world *world)
{
    json_t *json = NULL;
    assert_int_equal(af_folder_make(world->place.folder, 0755, NULL), ANYFLASH_OK);
    if (af_build_write_selection(&world->build, &world->place, &world->err) != ANYFLASH_OK)
        fail_msg("%s", world->err.message);
    const char *text =
        world_text(world, af_path_join(&world->arena, world->place.folder, "selection.json"));
    assert_non_null(text);
    assert_int_equal(af_json_parse((struct af_span){text, strlen(text)}, 1u << 20, "selection",
                                   &json, &world->err),
                     ANYFLASH_OK);
    return json;
}

static size_t size_of(const json_t *json, const char *key)
{
    return json_array_size(json_object_get(json, key));
}

static void choose_128(struct world *world)
{
    struct af_selection *selection = &world->build.selection;
    selection->head_dims = 0;
    af_selection_add_head_dim(selection, 128);
    selection->dtypes = AF_SELECTION_BF16;
}

static void test_selection__keeps_six_of_72_files_and_stubs_the_rest(void **state)
{
    struct world world;
    (void)state;
    world_begin(&world);
    choose_128(&world);
    json_t *json = selection(&world);
    assert_int_equal(size_of(json, "keep"), 6);
    assert_int_equal(size_of(json, "stubs"), 66);
    assert_int_equal(size_of(json, "macros"), 0);
    json_decref(json);
    world_end(&world);
}

static void test_selection__of_everything_has_no_stub(void **state)
{
    struct world world;
    (void)state;
    world_begin(&world);
    json_t *json = selection(&world);
    assert_int_equal(size_of(json, "keep"), 72);
    assert_int_equal(size_of(json, "stubs"), 0);
    json_decref(json);
    world_end(&world);
}

/* torch's headers need C++20 since 2.14. */
static void test_selection__asks_for_the_standard_of_torchs_headers(void **state)
{
    static const struct {
        const char *torch;
        const char *standard;
    } rows[] = {{"2.13.1+cu130", NULL},
                {"2.14.0+cu130", "c++20"},
                {"2.15.0+cu130", "c++20"},
                {"3.0.0", "c++20"}};
    (void)state;
    for (size_t i = 0; i < AF_COUNT(rows); i++) {
        struct world world;
        world_begin(&world);
        world_set(&world, &world.machine.torch.version, rows[i].torch);
        json_t *json = selection(&world);
        const char *standard = json_string_value(json_object_get(json, "std"));
        if (rows[i].standard == NULL)
            assert_null(standard);
        else
            assert_string_equal(standard, rows[i].standard);
        json_decref(json);
        world_end(&world);
    }
}

static void test_stub__names_what_is_missing_and_the_command_that_adds_it(void **state)
{
    struct world world;
    bool found = false;
    (void)state;
    world_begin(&world);
    choose_128(&world);
    json_t *json = selection(&world);
    const json_t *stub;
    size_t i;
    json_array_foreach(json_object_get(json, "stubs"), i, stub)
    {
        const char *text = json_string_value(json_object_get(stub, "message"));
        assert_non_null(strstr(text, "this flash-attn build has no kernel for: "));
        assert_non_null(strstr(text, "anyflash build "));
        found = found || (strstr(text, "forward, head size 64, bf16, causal") != NULL &&
                          strstr(text, "--head-dim 64,128") != NULL);
    }
    assert_true(found);
    json_decref(json);
    world_end(&world);
}

static void test_wrappers__are_programs_that_quote_a_compilers_path(void **state)
{
    struct world world;
    struct stat info;
    (void)state;
    world_begin(&world);
    world.place.cuda_home = "/opt/o'brien/cuda";
    json_decref(selection(&world));
    const char *wrapper = af_path_join(&world.arena, world.place.folder, "wrappers/nvcc");
    assert_int_equal(stat(wrapper, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0755);
    assert_non_null(strstr(world_text(&world, wrapper),
                           " compiler-wrapper '/opt/o'\\''brien/cuda/bin/nvcc' \"$@\"\n"));
    world_end(&world);
}

static struct af_prediction predict(struct world *world, const char *source)
{
    const char *const argv[] = {"nvcc", "-c", source, "-o", "x.o", NULL};
    struct af_prediction prediction;
    af_build_predict(&world->build, argv, &prediction);
    return prediction;
}

static void test_predict__knows_each_kind_of_call(void **state)
{
    struct world world;
    (void)state;
    world_begin(&world);
    struct af_prediction backward = predict(&world, "a/flash_bwd_hdim256_bf16_sm80.cu");
    struct af_prediction forward = predict(&world, "a/flash_fwd_hdim64_bf16_sm80.cu");
    struct af_prediction host = predict(&world, "a/flash_api.cpp");
    assert_true(backward.bytes > forward.bytes && forward.bytes > host.bytes);
    assert_true(host.bytes > (UINT64_C(1600) << 20));
    assert_string_not_equal(backward.key, forward.key);
    assert_string_equal(host.file, "flash_api.cpp");
    world_end(&world);
}

static void test_predict__is_not_led_astray_by_hostile_words(void **state)
{
    struct world world;
    char name[20000];
    (void)state;
    world_begin(&world);
    memset(name, 'x', sizeof name);
    memcpy(name + sizeof name - 4, ".cu", 4);
    struct af_prediction one = predict(&world, name);
    assert_true(one.bytes > 0 && strlen(one.file) < sizeof one.file);
    one = predict(&world, "flash_bwd_hdim99999999999999999999_bf16_sm80.cu");
    assert_true(one.bytes > 0);
    one = predict(&world, ".cu");
    assert_true(one.bytes > 0);
    world_end(&world);
}

static enum anyflash_status write_all(struct world *world)
{
    return af_build_write_selection(&world->build, &world->place, &world->err);
}

static void test_selection__survives_each_failed_allocation(void **state)
{
    struct world world;
    (void)state;
    world_begin(&world);
    choose_128(&world);
    json_decref(selection(&world));
    world_starve(&world, write_all);
    world_end(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_selection__keeps_six_of_72_files_and_stubs_the_rest),
        cmocka_unit_test(test_selection__of_everything_has_no_stub),
        cmocka_unit_test(test_selection__asks_for_the_standard_of_torchs_headers),
        cmocka_unit_test(test_stub__names_what_is_missing_and_the_command_that_adds_it),
        cmocka_unit_test(test_wrappers__are_programs_that_quote_a_compilers_path),
        cmocka_unit_test(test_predict__knows_each_kind_of_call),
        cmocka_unit_test(test_predict__is_not_led_astray_by_hostile_words),
        cmocka_unit_test(test_selection__survives_each_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
