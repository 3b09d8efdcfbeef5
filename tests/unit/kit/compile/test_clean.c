/*
 * test_clean.c: lists, measures and removes what builds keep.
 */
#include "build_world.h"

#include <fcntl.h>
#include <sys/file.h>

#define TITLE "flash-attn 2.8.3.post2, torch 2.15.0+cu130"

static void fill(struct world *world)
{
    world_put(world, "build/0123456789abcdef/about", TITLE "\nmore\n");
    world_put(world, "build/0123456789abcdef/objects/deep/a.o", "object");
    world_put(world, "build/0123456789abcdef/lock", "");
    world_put(world, "build/tools-0123/complete", "tools of flash-attn builds\n");
    world_put(world, "build/tools-4567/bin/python", "half made");
    world_put(world, "build/sources/a.tar.gz", "archive");
    world_put(world, "build/.hidden/file", "x");
    world_put(world, "build/no-folder", "x");
}

/* The row of this folder; the test fails without it. */
static const struct af_build_kept *row_of(const struct af_build_kept *rows, size_t count,
                                          const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(af_path_name(rows[i].path), name) == 0)
            return &rows[i];
    }
    fail_msg("no %s", name);
    return NULL;
}

static void test_list__says_what_each_folder_is(void **state)
{
    struct world world;
    struct af_build_kept *rows;
    size_t count;
    (void)state;
    world_begin(&world);
    fill(&world);
    assert_int_equal(af_build_list(&world.arena, &rows, &count, &world.err), ANYFLASH_OK);
    assert_int_equal(count, 4);
    assert_string_equal(row_of(rows, count, "0123456789abcdef")->title, TITLE);
    assert_string_equal(row_of(rows, count, "tools-0123")->title, "tools of flash-attn builds");
    assert_string_equal(row_of(rows, count, "tools-4567")->title, "unfinished");
    assert_string_equal(row_of(rows, count, "sources")->title, "sources of flash-attn");
    assert_true(row_of(rows, count, "0123456789abcdef")->bytes > 0);
    world_end(&world);
}

static void test_list__is_empty_where_nothing_was_built(void **state)
{
    struct world world;
    struct af_build_kept *rows;
    size_t count = 7;
    (void)state;
    world_begin(&world);
    assert_int_equal(af_build_list(&world.arena, &rows, &count, &world.err), ANYFLASH_OK);
    assert_int_equal(count, 0);
    world_end(&world);
}

static void test_list__is_not_led_away_by_links(void **state)
{
    struct world world;
    struct af_build_kept *rows;
    size_t count;
    (void)state;
    world_begin(&world);
    fill(&world);
    const char *folder = af_path_join(&world.arena, world.folder, "build/sources");
    assert_int_equal(symlink("..", af_path_join(&world.arena, folder, "up")), 0);
    assert_int_equal(symlink("/usr", af_path_join(&world.arena, folder, "usr")), 0);
    assert_int_equal(af_build_list(&world.arena, &rows, &count, &world.err), ANYFLASH_OK);
    assert_true(row_of(rows, count, "sources")->bytes < 1000000);
    world_end(&world);
}

static void test_list__scrubs_a_hostile_title(void **state)
{
    struct world world;
    struct af_build_kept *rows;
    size_t count;
    (void)state;
    world_begin(&world);
    world_put(&world, "build/a/about", "\033[31mred\n");
    assert_int_equal(af_build_list(&world.arena, &rows, &count, &world.err), ANYFLASH_OK);
    assert_null(strchr(rows[0].title, 033));
    world_end(&world);
}

static void test_remove__leaves_a_folder_in_which_a_build_works(void **state)
{
    struct world world;
    struct af_build_kept *rows;
    size_t count;
    (void)state;
    world_begin(&world);
    fill(&world);
    assert_int_equal(af_build_list(&world.arena, &rows, &count, &world.err), ANYFLASH_OK);
    const struct af_build_kept *kept = row_of(rows, count, "0123456789abcdef");
    int lock = open(af_path_join(&world.arena, kept->path, "lock"), O_RDWR | O_CLOEXEC);
    assert_true(lock >= 0);
    assert_int_equal(flock(lock, LOCK_EX), 0);
    assert_int_equal(af_build_remove(kept, &world.err), ANYFLASH_E_IO);
    assert_non_null(strstr(world.err.message, "a build is using"));
    assert_true(af_file_is_folder(kept->path));
    close(lock);
    assert_int_equal(af_build_remove(kept, &world.err), ANYFLASH_OK);
    assert_false(af_file_is_folder(kept->path));
    world_end(&world);
}

static enum anyflash_status list(struct world *world)
{
    struct af_build_kept *rows = NULL;
    size_t count = 0;
    return af_build_list(world->build.arena, &rows, &count, &world->err);
}

static void test_list__survives_each_failed_allocation(void **state)
{
    struct world world;
    (void)state;
    world_begin(&world);
    fill(&world);
    world_starve(&world, list);
    world_end(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_list__says_what_each_folder_is),
        cmocka_unit_test(test_list__is_empty_where_nothing_was_built),
        cmocka_unit_test(test_list__is_not_led_away_by_links),
        cmocka_unit_test(test_list__scrubs_a_hostile_title),
        cmocka_unit_test(test_remove__leaves_a_folder_in_which_a_build_works),
        cmocka_unit_test(test_list__survives_each_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
