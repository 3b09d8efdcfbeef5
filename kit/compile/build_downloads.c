/*
 * build_downloads.c: what a build compiles, or takes instead: the sources of flash-attn and
 * their hash, through uv, which knows the user's index; and a pack from the folder or address
 * that the user names. Nothing is written to the user's environment.
 *
 * uv gets the release's requirements (none) from us, so it does not run setup.py to find them.
 */
#include "kit/compile/build_steps.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kit/base/text.h"
#include "kit/base/url.h"
#include "kit/formats/toml.h"
#include "kit/system/download.h"
#include "kit/system/file.h"
#include "kit/system/output.h"
#include "kit/system/progress.h"

#define LOCK_BYTES_MAX 65536u
#define FOLDER_FILES_MAX 4096
#define ARCHIVE_BYTES_MAX (UINT64_C(256) << 20)

/* The one archive of the lock file. */
struct archive {
    const char *url;
    const char *sha256;
    const char *path; /* in the cache */
};

static enum anyflash_status read_lock(struct af_build *build, const char *path,
                                      struct archive *archive, struct anyflash_error *err)
{
    struct af_toml toml;
    struct af_span text;
    enum anyflash_status status = af_file_read(build->arena, path, LOCK_BYTES_MAX, &text, err);
    if (status == ANYFLASH_OK)
        status = af_toml_parse(&toml, build->arena, text, "the lock of the sources", err);
    if (status != ANYFLASH_OK)
        return status;
    const struct af_toml_item *sdist = af_toml_find(&toml, AF_TOML_PATH("packages", "sdist"));
    const struct af_toml_item *url = af_toml_get(sdist, "url");
    const struct af_toml_item *hash = af_toml_get(af_toml_get(sdist, "hashes"), "sha256");
    if (url == NULL || url->text == NULL || hash == NULL || hash->text == NULL ||
        !af_sha256_is_hex(hash->text))
        return af_fail(err, ANYFLASH_E_DATA,
                       "the package index has no source archive of flash-attn %s",
                       build->version);
    archive->url = url->text;
    archive->sha256 = hash->text;
    return ANYFLASH_OK;
}

/* Asks uv, once; its lock file is kept beside the archive. */
static enum anyflash_status find_archive(struct af_build *build,
                                         const struct af_build_place *place, const char *folder,
                                         struct archive *archive, struct anyflash_error *err)
{
    struct af_arena *arena = build->arena;
    const char *uv = NULL;
    const char *settings = af_path_join(arena, folder, "uv.toml"); /* added to the user's own */
    const char *wanted = af_arena_format(arena, "%s/%s.txt", folder, build->version);
    const char *lock = af_arena_format(arena, "%s/pylock.%s.toml", folder,
                                       "flash-attn"); /* uv requires such a name */
    const char *requirement = af_arena_format(arena, "flash-attn==%s\n", build->version);
    const char *about = af_arena_format(arena,
                                        "[[dependency-metadata]]\nname = \"flash-attn\"\n"
                                        "version = \"%s\"\nrequires-dist = []\n",
                                        build->version);
    const char *python = af_fact_text_or(&build->machine->python.executable, NULL);
    const char *argv[] = {NULL,
                          "pip",
                          "compile",
                          "--quiet",
                          "--no-deps",
                          "--directory",
                          folder,
                          "--format",
                          "pylock.toml",
                          "-o",
                          lock,
                          wanted,
                          python == NULL ? NULL : "--python",
                          python,
                          NULL};
    archive->path = af_arena_format(arena, "%s/flash_attn-%s.tar.gz", folder, build->version);
    enum anyflash_status status = read_lock(build, lock, archive, err);
    if (status == ANYFLASH_OK)
        return status;
    if (build->offline)
        return af_fail(err, ANYFLASH_E_NOT_FOUND,
                       "the sources of flash-attn %s are not in the cache and cannot be "
                       "downloaded because of --offline",
                       build->version);
    status = af_build_prepare_uv(build, place, &uv, err);
    if (status != ANYFLASH_OK)
        return status;
    argv[0] = uv;
    status = af_build_write_file(arena, settings, (struct af_span){about, strlen(about)}, err);
    if (status == ANYFLASH_OK)
        status = af_build_write_file(arena, wanted,
                                     (struct af_span){requirement, strlen(requirement)}, err);
    if (status == ANYFLASH_OK)
        status = af_build_call(build, place->log,
                               "looking for the sources on PyPI (for another index: "
                               "UV_DEFAULT_INDEX=URL)",
                               argv, NULL, err);
    return status == ANYFLASH_OK ? read_lock(build, lock, archive, err) : status;
}

static bool show_progress(void *context, uint64_t done, int64_t total)
{
    const struct af_build *build = context;
    if (build->progress.transfer != NULL)
        build->progress.transfer(build->progress.context, "flash-attn", done,
                                 total < 0 ? 0 : (uint64_t)total);
    return !af_interrupted();
}

/* Copies the archive from an index on the disk. */
static enum anyflash_status copy_archive(struct af_build *build, const struct archive *archive,
                                         const char *path, struct anyflash_error *err)
{
    char hex[AF_SHA256_HEX_BYTES];
    enum anyflash_status status = af_file_sha256(path, hex, NULL, err);
    if (status == ANYFLASH_OK && !af_sha256_equal(hex, archive->sha256))
        return af_fail(err, ANYFLASH_E_DATA,
                       "the sources of flash-attn %s in '%s' do not match the SHA-256 given by "
                       "the package index",
                       build->version, path);
    return status == ANYFLASH_OK ? af_file_link_or_copy(build->arena, path, archive->path, err)
                                 : status;
}

static enum anyflash_status download(struct af_build *build, const struct archive *archive,
                                     struct anyflash_error *err)
{
    char hex[AF_SHA256_HEX_BYTES];
    /* Plain http only if the user's own index uses it: the hash came the same way. */
    const struct af_http http = {.allow_http = af_starts_with(archive->url, "http://")};
    struct af_download_result result;
    const struct af_download job = {.url = archive->url,
                                    .path = archive->path,
                                    .sha256 = archive->sha256,
                                    .size_bytes = -1,
                                    .max_bytes = ARCHIVE_BYTES_MAX,
                                    .progress = show_progress,
                                    .context = build};
    enum anyflash_status status = af_file_sha256(archive->path, hex, NULL, err);
    if (status == ANYFLASH_OK && af_sha256_equal(hex, archive->sha256))
        return status;
    if (build->offline)
        return af_fail(err, ANYFLASH_E_NOT_FOUND,
                       "the sources of flash-attn %s are incomplete in the cache and cannot be "
                       "downloaded because of --offline",
                       build->version);
    const char *path = af_url_file_path(build->arena, archive->url);
    return path != NULL ? copy_archive(build, archive, path, err)
                        : af_download_run(&http, &job, &result, err);
}

/* Unpacks what a build reads; the archive has the hash that the index states. */
static enum anyflash_status unpack(struct af_build *build, const struct af_build_place *place,
                                   const char *archive, struct anyflash_error *err)
{
    static const char *const wanted[] = {"csrc/flash_attn", "csrc/cutlass/include",
                                         "flash_attn",      "LICENSE",
                                         "AUTHORS",         "PKG-INFO"};
    struct af_arena *arena = build->arena;
    const char *staged = af_arena_format(arena, "%s.new", place->sources);
    const char *argv[AF_COUNT(wanted) + 9] = {
        "tar", "-xzf", archive, "--no-same-owner", "--strip-components=1", "-C", staged};
    for (size_t i = 0; i < AF_COUNT(wanted); i++)
        argv[7 + i] = af_arena_format(arena, "flash_attn-%s/%s", build->version, wanted[i]);
    enum anyflash_status status = af_folder_remove(staged, err);
    if (status == ANYFLASH_OK)
        status = af_folder_make(staged, 0755, err);
    if (status == ANYFLASH_OK)
        status = af_build_call(build, place->log, "unpacking the sources", argv, NULL, err);
    if (status == ANYFLASH_OK && rename(staged, place->sources) != 0)
        status = af_file_fail("rename", staged, err);
    if (status != ANYFLASH_OK)
        af_folder_remove(staged, NULL);
    return status;
}

/* Gets and unpacks the archive; the folder is locked. */
static enum anyflash_status fetch_and_unpack(struct af_build *build,
                                             const struct af_build_place *place,
                                             const char *folder, struct anyflash_error *err)
{
    struct archive archive;
    enum anyflash_status status = af_folder_make(folder, 0755, err);
    if (status == ANYFLASH_OK)
        status = find_archive(build, place, folder, &archive, err);
    if (status == ANYFLASH_OK)
        status = download(build, &archive, err);
    if (status != ANYFLASH_OK)
        return status;
    af_progress_message(&build->progress, "unpacking flash-attn %s", build->version);
    return unpack(build, place, archive.path, err);
}

enum anyflash_status af_build_prepare_sources(struct af_build *build,
                                              const struct af_build_place *place,
                                              struct anyflash_error *err)
{
    const char *root = af_build_root(build->arena);
    const char *folder = af_path_join(build->arena, root, "sources");
    int lock = -1;
    if (af_file_is_folder(place->sources))
        return ANYFLASH_OK; /* unpacking is atomic */
    enum anyflash_status status = af_folder_make(root, 0755, err);
    if (status == ANYFLASH_OK)
        status = af_build_lock(build, folder, AF_BUILD_ALONE, &lock, err);
    if (status == ANYFLASH_OK)
        status = fetch_and_unpack(build, place, folder, err);
    if (lock >= 0)
        close(lock);
    return status;
}

/* The only pack in the folder. */
static enum anyflash_status pack_in(struct af_build *build, const char *folder,
                                    const char **path_out, struct anyflash_error *err)
{
    const char **names;
    const char *found = NULL;
    size_t count, packs = 0;
    enum anyflash_status status =
        af_folder_list(build->arena, folder, FOLDER_FILES_MAX, &names, &count, NULL, err);
    for (size_t i = 0; status == ANYFLASH_OK && i < count; i++)
        if (af_ends_with(names[i], ".kernels")) {
            found = names[i];
            packs++;
        }
    if (status == ANYFLASH_OK && packs != 1)
        return af_fail(err, ANYFLASH_E_NOT_FOUND,
                       packs == 0 ? "'%s' has no file that ends with .kernels"
                                  : "'%s' has several files that end with .kernels: name one",
                       af_text_scrub(build->arena, folder, 200));
    if (status == ANYFLASH_OK)
        *path_out = af_path_join(build->arena, folder, found);
    return status;
}

/* Downloads the pack; the hashes in it say whether it is complete. */
static enum anyflash_status download_pack(struct af_build *build,
                                          const struct af_build_place *place,
                                          const char **path_out, struct anyflash_error *err)
{
    struct af_arena *arena = build->arena;
    const char *plain = af_arena_text_n(arena, build->pack, strcspn(build->pack, "?#"));
    const char *name = af_path_name(plain);
    const char *path = af_path_join(arena, place->packs, name);
    const struct af_http http = {.allow_http = build->allow_http};
    struct af_download_result result;
    const struct af_download job = {.url = build->pack,
                                    .path = path,
                                    .size_bytes = -1,
                                    .max_bytes = ARCHIVE_BYTES_MAX,
                                    .progress = show_progress,
                                    .context = build};
    if (!af_ends_with(name, ".kernels"))
        return af_fail(err, ANYFLASH_E_ARGUMENT, "the name of a pack ends with .kernels");
    if (build->offline)
        return af_fail(err, ANYFLASH_E_NOT_FOUND,
                       "the pack cannot be downloaded because of --offline");
    enum anyflash_status status = af_folder_make(place->packs, 0755, err);
    *path_out = path;
    return status == ANYFLASH_OK ? af_download_run(&http, &job, &result, err) : status;
}

enum anyflash_status af_build_prepare_pack(struct af_build *build,
                                           const struct af_build_place *place,
                                           const char **path_out, struct anyflash_error *err)
{
    if (strstr(build->pack, "://") != NULL)
        return download_pack(build, place, path_out, err);
    const char *path = af_file_real_path(build->arena, build->pack);
    if (path == NULL)
        return af_fail(err, ANYFLASH_E_NOT_FOUND, "--pack: '%s' does not exist",
                       af_text_scrub(build->arena, build->pack, 200));
    *path_out = path;
    return af_file_is_folder(path) ? pack_in(build, path, path_out, err) : ANYFLASH_OK;
}
