/*
 * test_build_sources.c: cached sources are compared with their hash, and
 * unpacked completely or not at all. No network is used.
 */
#include "build_world.h"

#include "kit/system/file.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sources__are_unpacked_from_the_kept_archive),
        cmocka_unit_test(test_sources__with_another_hash_are_not_taken),
        cmocka_unit_test(test_sources__a_lock_that_names_none_is_asked_for_again),
        cmocka_unit_test(test_sources__come_from_a_file_where_the_index_is_one),
        cmocka_unit_test(test_sources__survive_each_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
