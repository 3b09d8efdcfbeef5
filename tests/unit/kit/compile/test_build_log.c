/*
 * test_build_log.c: which line of a build's log is reported as the cause.
 */
#include "build_world.h"

#include "kit/compile/governor/compiler_wrapper.h"

#define ONE "FAILED: [code=1] /o/src/flash_bwd_hdim64_bf16_sm80.o /o/x.d\n/wrappers/nvcc -c a\n"

static const struct {
    const char *log, *told; /* a part of it; NULL: nothing */
} cases[] = {
    {"", NULL},
    {"running build_ext\n[1/2] /wrappers/nvcc -c a\n", NULL},
    /* The first that failed, not the messages of others before or after it. */
    {"[1/3] nvcc a\nKilled\n[2/3] nvcc b\n" ONE "b.cu(3): error: expected a \";\"\n"
     "[3/3] nvcc c\nFAILED: c.o \nc\nc.cu(1): error: another\nninja: build stopped: x.\n",
     "b.cu(3): error: expected"},
    {"[1/3] nvcc a\nFAILED: a.o \nnvcc a\na.cu: warning: odd\n[2/3] nvcc b\nFAILED: b.o \nb\n"
     "b.cu(1): error: another\nninja: build stopped: x.\n",
     "FAILED: a.o"},
    /* Its last attempt, not those that were repeated later. */
    {"[1/1] nvcc b\n" ONE "Killed\nnvcc error   : 'cicc' died due to signal 9 (Kill signal)\n"
     "\n" AF_WRAPPER_RESTARTED "\nb.cu(7): error: identifier \"x\" is undefined\n"
     "ninja: build stopped: x.\n",
     "b.cu(7): error: identifier"},
    {"[1/1] nvcc b\n" ONE "b.cu(7): error: of a broken memory\n" AF_WRAPPER_RESTARTED
     "\nsilent\n",
     "FAILED: [code=1] /o/src/flash_bwd"},
    /* Files that were repeated and then succeeded did not cause a failure after all files. */
    {"[1/2] nvcc a\n[2/2] nvcc b\nKilled\ncicc: error: no memory\n\n" AF_WRAPPER_RESTARTED
     "\n\n" AF_WRAPPER_SUCCEEDED
     "\n/usr/bin/ld: cannot find -lcudart\ncollect2: error: ld returned 1\n",
     "collect2: error: ld returned"},
    {"[1/2] nvcc a\nKilled\n\n" AF_WRAPPER_RESTARTED "\n\n" AF_WRAPPER_SUCCEEDED
     "\nTraceback (x):\n"
     "OSError: [Errno 28] No space left on device: 'x.whl'\n",
     "OSError: [Errno 28]"},
    /* The governor's message about the file that failed, not about another. */
    {"[1/2] nvcc a\nanyflash: error: flash_bwd_hdim64_bf16_sm80.cu hangs: it used no "
     "processor\n"
     "[2/2] nvcc b\n" ONE "cicc: error: odd\n",
     "flash_bwd_hdim64_bf16_sm80.cu hangs"},
    {"anyflash: error: flash_bwd_hdim64_bf16_sm80_x.cu hangs\n[2/2] nvcc b\n" ONE
     "cicc: error: odd\n",
     "cicc: error: odd"},
    {"anyflash: error: link hangs: it used no processor time, 2 times\n", "link hangs"},
    {"[2/2] nvcc b\nFAILED: b.o \nnvcc b\nptxas fatal   : Could not open output file\n",
     "ptxas fatal"},
    {"FAILED: ", "FAILED: "},
    {"FAILED: [", "FAILED: ["},
    {"FAILED: [code=1]\nanyflash: error: \n", "FAILED: [code=1]"},
};

static void test_log__tells_the_first_real_error(void **state)
{
    struct world world;
    (void)state;
    world_begin(&world);
    for (size_t i = 0; i < AF_COUNT(cases); i++) {
        const char *log = world_put(&world, "log", cases[i].log);
        const char *told = af_build_first_error(&world.arena, log);
        if (cases[i].told == NULL ? told != NULL
                                  : told == NULL || strstr(told, cases[i].told) == NULL)
            fail_msg("case %zu tells '%s', not '%s'", i, told == NULL ? "" : told,
                     cases[i].told == NULL ? "" : cases[i].told);
    }
    world_end(&world);
}

static void test_log__is_scrubbed_cut_and_may_be_missing(void **state)
{
    struct world world;
    char text[2048] = "x: error: \033[1m";
    (void)state;
    world_begin(&world);
    memset(text + strlen(text), 'y', 1500);
    const char *told = af_build_first_error(&world.arena, world_put(&world, "log", text));
    assert_non_null(told);
    assert_true(strlen(told) < 500);
    assert_null(strchr(told, 033));
    assert_null(af_build_first_error(&world.arena, "/nonexistent/log"));
    world_end(&world);
}

static void test_disk__tells_of_a_full_one_what_is_needed_and_free(void **state)
{
    struct world world;
    (void)state;
    world_begin(&world);
    assert_int_equal(af_folder_make(world.place.folder, 0755, NULL), ANYFLASH_OK);
    assert_null(af_build_disk_reason(&world.build, &world.place, false, "x.cu: error: odd"));
    const char *told = af_build_disk_reason(&world.build, &world.place, false,
                                            "as: x.o: No space left on device");
    assert_non_null(told);
    assert_non_null(strstr(told, world.place.folder));
    assert_non_null(strstr(told, "free now"));
    assert_non_null(strstr(told, "What was built is kept"));
    assert_non_null(strstr(told, "(as: x.o: No space left on device)"));
    assert_non_null(af_build_disk_reason(&world.build, &world.place, true, "Bus error"));
    world_end(&world);
}

static void test_disk__counts_off_what_is_kept(void **state)
{
    struct world world;
    struct stat info;
    (void)state;
    world_begin(&world);
    assert_int_equal(af_build_kept_bytes(&world.build, &world.place), 0);
    char *object =
        af_arena_format(&world.arena, "%s/objects/temp.x/csrc/flash_attn/generated/a.o",
                        world.place.folder + strlen(world.folder) + 1);
    assert_non_null(object);
    assert_int_equal(stat(world_put(&world, object, "an object"), &info), 0);
    assert_int_equal(af_build_kept_bytes(&world.build, &world.place), info.st_blocks * 512);
    const char *setup = af_arena_format(&world.arena, "%s/setup.py",
                                        world.place.sources + strlen(world.folder) + 1);
    world_put(&world, setup, "");
    assert_true(af_build_kept_bytes(&world.build, &world.place) > 100000000);
    world_end(&world);
}

static void test_copies__of_the_last_run_are_dropped_and_objects_stay(void **state)
{
    static const char *const names[] = {"lib.x/flash_attn/half.py", "bdist.x/wheel/half.py",
                                        "temp.x/csrc/a.o"};
    struct world world;
    const char *paths[3];
    (void)state;
    world_begin(&world);
    for (size_t i = 0; i < 3; i++)
        paths[i] =
            world_put(&world,
                      af_arena_format(&world.arena, "%s/objects/%s",
                                      world.place.folder + strlen(world.folder) + 1, names[i]),
                      "x");
    assert_int_equal(af_build_drop_copies(&world.build, &world.place, &world.err), ANYFLASH_OK);
    assert_true(af_file_is_absent(paths[0]));
    assert_true(af_file_is_absent(paths[1]));
    assert_false(af_file_is_absent(paths[2]));
    world_end(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_log__tells_the_first_real_error),
        cmocka_unit_test(test_log__is_scrubbed_cut_and_may_be_missing),
        cmocka_unit_test(test_disk__tells_of_a_full_one_what_is_needed_and_free),
        cmocka_unit_test(test_disk__counts_off_what_is_kept),
        cmocka_unit_test(test_copies__of_the_last_run_are_dropped_and_objects_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
