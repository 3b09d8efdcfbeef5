/*
 * test_build_steps.c: small files, folders and programs used by the steps of a build; cached
 * sources, which are compared with their hash, and unpacked completely or not at all; what
 * builds keep is listed, measured and removed. No network is used.
 */
#include "build_world.h"

#include <fcntl.h>
#include <sys/file.h>

#include "kit/system/file.h"

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

/* An archive of flash-attn and the lock file that names it, as left by an earlier build. */
static void keep_sources(struct world *world, const char *sha256)
{
    static const char *const files[] = {"csrc/flash_attn/a.cu",
                                        "csrc/cutlass/include/a.h",
                                        "csrc/other/b.cu",
                                        "flash_attn/__init__.py",
                                        "LICENSE",
                                        "AUTHORS",
                                        "PKG-INFO"};
    struct af_arena *arena = &world->arena;
    char hex[AF_SHA256_HEX_BYTES];
    for (size_t i = 0; i < AF_COUNT(files); i++)
        world_put(world, af_arena_format(arena, "flash_attn-2.8.3.post2/%s", files[i]),
                  "// kernel\n");
    const char *archive = world_put(world, "build/sources/flash_attn-2.8.3.post2.tar.gz", "");
    const char *const argv[] = {
        "/bin/tar", "-czf", archive, "-C", world->folder, "flash_attn-2.8.3.post2", NULL};
    assert_int_equal(af_build_call(&world->build, NULL, "tar", argv, NULL, &world->err),
                     ANYFLASH_OK);
    assert_int_equal(af_file_sha256(archive, hex, NULL, &world->err), ANYFLASH_OK);
    world_put(world, "build/sources/pylock.flash-attn.toml",
              af_arena_format(arena,
                              "[[packages]]\nname = \"flash-attn\"\nsdist = { url = "
                              "\"https://x.invalid/a\", hashes = { sha256 = \"%s\" } }\n",
                              sha256 == NULL ? hex : sha256));
    world->build.offline = true;
    assert_int_equal(af_folder_make(world->place.folder, 0755, NULL), ANYFLASH_OK);
}

static enum anyflash_status prepare(struct world *world)
{
    af_folder_remove(world->place.sources, NULL);
    return af_build_prepare_sources(&world->build, &world->place, &world->err);
}

static void test_sources__are_unpacked_from_the_kept_archive(void **state)
{
    struct world world;
    (void)state;
    world_begin(&world);
    keep_sources(&world, NULL);
    if (prepare(&world) != ANYFLASH_OK)
        fail_msg("%s", world.err.message);
    const char *kernel =
        af_path_join(&world.arena, world.place.sources, "csrc/flash_attn/a.cu");
    assert_string_equal(world_text(&world, kernel), "// kernel\n");
    const char *other = af_path_join(&world.arena, world.place.sources, "csrc/other");
    assert_false(af_file_is_folder(other));
    world_end(&world);
}

static void test_sources__with_another_hash_are_not_taken(void **state)
{
    static const char zeros[] =
        "0000000000000000000000000000000000000000000000000000000000000000";
    struct world world;
    (void)state;
    world_begin(&world);
    keep_sources(&world, zeros);
    assert_int_equal(prepare(&world), ANYFLASH_E_NOT_FOUND);
    assert_non_null(strstr(world.err.message, "incomplete in the cache"));
    assert_false(af_file_is_folder(world.place.sources));
    world_end(&world);
}

static void test_sources__a_lock_that_names_none_is_asked_for_again(void **state)
{
    static const char unsafe[] = "[[packages]]\nsdist = { url = \"https://x/a\", hashes "
                                 "= { sha256 = \"../..\" } }\n";
    static const char *const locks[] = {"",
                                        "[[packages]]\n",
                                        "not toml [",
                                        "\xff\xfe",
                                        "[[packages]]\nsdist = { url = 7 }\n",
                                        unsafe};
    (void)state;
    for (size_t i = 0; i < AF_COUNT(locks); i++) {
        struct world world;
        world_begin(&world);
        keep_sources(&world, NULL);
        world_put(&world, "build/sources/pylock.flash-attn.toml", locks[i]);
        assert_int_equal(prepare(&world), ANYFLASH_E_NOT_FOUND);
        assert_non_null(strstr(world.err.message, "because of --offline"));
        world_end(&world);
    }
}

/* An index on disk: its archive is compared as well. */
static void test_sources__come_from_a_file_where_the_index_is_one(void **state)
{
    struct world world;
    (void)state;
    world_begin(&world);
    keep_sources(&world, NULL);
    const char *kept =
        af_path_join(&world.arena, world.folder, "build/sources/flash_attn-2.8.3.post2.tar.gz");
    const char *lock =
        af_path_join(&world.arena, world.folder, "build/sources/pylock.flash-attn.toml");
    const char *text = world_text(&world, lock);
    const char *hash = strstr(text, "hashes");
    world_put(&world, "an index/x", "");
    const char *moved = af_path_join(&world.arena, world.folder, "an index/a.tar.gz");
    assert_int_equal(rename(kept, moved), 0);
    world_put(
        &world, "build/sources/pylock.flash-attn.toml",
        af_arena_format(&world.arena,
                        "[[packages]]\nsdist = { url = \"file://%s/an%%20index/a.tar.gz\", "
                        "%s",
                        world.folder, hash));
    world.build.offline = false;
    if (prepare(&world) != ANYFLASH_OK)
        fail_msg("%s", world.err.message);
    assert_int_equal(unlink(kept), 0);
    world_put(&world, "an index/a.tar.gz", "another");
    assert_int_equal(prepare(&world), ANYFLASH_E_DATA);
    assert_non_null(strstr(world.err.message, "do not match the SHA-256"));
    assert_false(af_file_is_folder(world.place.sources));
    world_end(&world);
}

static void test_sources__survive_each_failed_allocation(void **state)
{
    struct world world;
    (void)state;
    world_begin(&world);
    keep_sources(&world, NULL);
    world_starve(&world, prepare);
    world_end(&world);
}

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
        cmocka_unit_test(test_write__leaves_the_time_of_a_file_that_has_the_text),
        cmocka_unit_test(test_write__names_a_path_that_cannot_be),
        cmocka_unit_test(test_remove__does_not_follow_links),
        cmocka_unit_test(test_call__tells_the_last_line_of_a_failure),
        cmocka_unit_test(test_call__tells_of_a_program_that_is_not_there_or_dies),
        cmocka_unit_test(test_files__survive_each_failed_allocation),
        cmocka_unit_test(test_sources__are_unpacked_from_the_kept_archive),
        cmocka_unit_test(test_sources__with_another_hash_are_not_taken),
        cmocka_unit_test(test_sources__a_lock_that_names_none_is_asked_for_again),
        cmocka_unit_test(test_sources__come_from_a_file_where_the_index_is_one),
        cmocka_unit_test(test_sources__survive_each_failed_allocation),
        cmocka_unit_test(test_list__says_what_each_folder_is),
        cmocka_unit_test(test_list__is_empty_where_nothing_was_built),
        cmocka_unit_test(test_list__is_not_led_away_by_links),
        cmocka_unit_test(test_list__scrubs_a_hostile_title),
        cmocka_unit_test(test_remove__leaves_a_folder_in_which_a_build_works),
        cmocka_unit_test(test_list__survives_each_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
