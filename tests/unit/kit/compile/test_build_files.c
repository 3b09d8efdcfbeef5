/*
 * test_build_files.c: small files, folders and programs used by the steps of a
 * build.
 */
#include "build_world.h"

#include <fcntl.h>

static void test_write__leaves_the_time_of_a_file_that_has_the_text(void **state)
{
    struct world world;
    struct stat before;
    struct stat after;
    const struct timespec past[2] = {{1000, 0}, {1000, 0}};
    (void)state;
    world_begin(&world);
    const char *path = world_put(&world, "file", "text\n");
    assert_int_equal(utimensat(AT_FDCWD, path, past, 0), 0);
    assert_int_equal(stat(path, &before), 0);
    assert_int_equal(af_build_write_file(&world.arena, path, "text\n", 0644, &world.err),
                     ANYFLASH_OK);
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(after.st_mtime, before.st_mtime);
    assert_int_equal(af_build_write_file(&world.arena, path, "other\n", 0755, &world.err),
                     ANYFLASH_OK);
    assert_int_equal(stat(path, &after), 0);
    assert_int_not_equal(after.st_mtime, before.st_mtime);
    assert_int_equal(after.st_mode & 0777, 0755);
    world_end(&world);
}

static void test_write__names_a_path_that_cannot_be(void **state)
{
    struct world world;
    (void)state;
    world_begin(&world);
    const char *path = world_put(&world, "file", "text\n");
    const char *below = af_path_join(&world.arena, path, "below");
    assert_int_equal(af_build_write_file(&world.arena, below, "x", 0644, &world.err),
                     ANYFLASH_E_IO);
    assert_non_null(strstr(world.err.message, "below"));
    world_end(&world);
}

static void test_remove__does_not_follow_links(void **state)
{
    struct world world;
    (void)state;
    world_begin(&world);
    const char *kept = world_put(&world, "kept/file", "text\n");
    const char *inside = world_put(&world, "gone/deep/file", "x");
    const char *gone = af_path_join(&world.arena, world.folder, "gone");
    const char *link = af_path_join(&world.arena, gone, "link");
    const char *dangling = af_path_join(&world.arena, gone, "dangling");
    assert_int_equal(symlink("../kept", link), 0);
    assert_int_equal(symlink("/nonexistent", dangling), 0);
    assert_int_equal(mkfifo(af_path_join(&world.arena, gone, "fifo"), 0644), 0);
    assert_int_equal(af_folder_remove(gone, &world.err), ANYFLASH_OK);
    assert_null(world_text(&world, inside));
    assert_string_equal(world_text(&world, kept), "text\n");
    assert_int_equal(af_folder_remove(gone, &world.err), ANYFLASH_OK); /* not there */
    world_end(&world);
}

static enum anyflash_status call(struct world *world, const char *script)
{
    const char *const argv[] = {"/bin/sh", "-c", script, NULL};
    const char *log = af_path_join(&world->arena, world->folder, "log");
    return af_build_call(&world->build, log, "the step", argv, NULL, &world->err);
}

static void test_call__tells_the_last_line_of_a_failure(void **state)
{
    struct world world;
    (void)state;
    world_begin(&world);
    assert_int_equal(call(&world, "echo out; echo first >&2; printf 'l\\033[1mast\\n\\n' >&2; "
                                  "exit 3"),
                     ANYFLASH_E_IO);
    assert_non_null(strstr(world.err.message, "the step failed (exit code 3): "));
    assert_non_null(strstr(world.err.message, "ast"));
    assert_null(strchr(world.err.message, 033)); /* scrubbed */
    const char *log = world_text(&world, af_path_join(&world.arena, world.folder, "log"));
    assert_non_null(strstr(log, "out\n"));
    assert_non_null(strstr(log, "first\n"));
    world_end(&world);
}

static void test_call__tells_of_a_program_that_is_not_there_or_dies(void **state)
{
    static const char *const argv[] = {"/nonexistent/uv", NULL};
    struct world world;
    (void)state;
    world_begin(&world);
    assert_int_equal(af_build_call(&world.build, NULL, "the step", argv, NULL, &world.err),
                     ANYFLASH_E_NOT_FOUND);
    assert_non_null(strstr(world.err.message, "/nonexistent/uv"));
    assert_int_equal(call(&world, "kill -KILL $$"), ANYFLASH_E_IO);
    world_end(&world);
}

static enum anyflash_status write_and_call(struct world *world)
{
    const char *const argv[] = {"/bin/echo", "said", NULL};
    char path[OWN_FOLDER_BYTES + 16];
    snprintf(path, sizeof path, "%s/starved", world->folder);
    unlink(path);
    enum anyflash_status status =
        af_build_write_file(world->build.arena, path, "text\n", 0644, &world->err);
    if (status == ANYFLASH_OK)
        status = af_build_call(&world->build, NULL, "the step", argv, NULL, &world->err);
    return status;
}

static void test_files__survive_each_failed_allocation(void **state)
{
    struct world world;
    (void)state;
    world_begin(&world);
    world_starve(&world, write_and_call);
    world_end(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_write__leaves_the_time_of_a_file_that_has_the_text),
        cmocka_unit_test(test_write__names_a_path_that_cannot_be),
        cmocka_unit_test(test_remove__does_not_follow_links),
        cmocka_unit_test(test_call__tells_the_last_line_of_a_failure),
        cmocka_unit_test(test_call__tells_of_a_program_that_is_not_there_or_dies),
        cmocka_unit_test(test_files__survive_each_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
