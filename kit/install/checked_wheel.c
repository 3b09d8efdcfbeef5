/*
 * checked_wheel.c: the steps, in af_checked_wheel_make().
 */
#include "kit/install/checked_wheel.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kit/base/text.h"
#include "kit/base/url.h"
#include "kit/formats/metadata.h"
#include "kit/formats/wheel_archive.h"
#include "kit/formats/wheel_name.h"
#include "kit/proof/prover.h"
#include "kit/proof/wheel_content.h"
#include "kit/system/file.h"
#include "kit/system/output.h"

#define METADATA_BYTES_MAX (4u << 20)

/* The address of the file: the wheel's own, else that of the user's file. */
static const char *origin_url(struct af_arena *arena, const struct af_step_wheel *wheel,
                              const struct af_fetched *fetched)
{
    if (wheel->url != NULL)
        return af_url_without_secrets(arena, wheel->url);
    const char *path = af_file_real_path(arena, fetched->path);
    return af_arena_format(arena, "file://%s",
                           af_url_encode_path(arena, path == NULL ? fetched->path : path));
}

static enum anyflash_status check_content(struct af_run *run, struct af_checked_wheel *out,
                                          struct anyflash_error *err)
{
    struct af_content_refusal refusal;
    enum anyflash_status status =
        af_content_refuse_file(out->path, &run->allow_content, run->arena, &refusal, err);
    if (status == ANYFLASH_OK) {
        out->refusal = refusal.reason;
        out->hint = refusal.hint;
    }
    return status;
}

static const char *metadata_version(const struct af_wheel_archive *archive,
                                    struct af_arena *arena)
{
    struct af_span text, version;
    if (af_wheel_archive_read_info(archive, "METADATA", arena, METADATA_BYTES_MAX, &text,
                                   NULL) != ANYFLASH_OK ||
        !af_header_find(text, "Version", &version))
        return NULL;
    return af_arena_text_n(arena, version.data, version.len);
}

/* The path of the new file: that of the old one, or with the plain name. */
static const char *new_path(struct af_arena *arena, const struct af_checked_wheel *out,
                            bool plain_name)
{
    const char *name = af_path_name(out->path);
    if (plain_name && out->version != NULL && strchr(out->version, '+') == NULL)
        name = af_wheel_plain_name(arena, name);
    return af_path_join(arena, af_path_folder(arena, out->path), name);
}

/* Writes the archive beside the old file, and then in the place of `path`. */
static enum anyflash_status write_again(const struct af_wheel_archive *archive,
                                        struct af_arena *arena, const char *path,
                                        struct anyflash_error *err)
{
    const struct af_span *pieces;
    size_t count;
    const char *fresh = af_arena_format(arena, "%s.new", path);
    enum anyflash_status status =
        af_zip_write_again(&archive->zip, arena, &pieces, &count, err);
    if (status == ANYFLASH_OK)
        status = af_file_write(arena, fresh, pieces, count, err);
    if (status == ANYFLASH_OK && rename(fresh, path) != 0)
        status = af_file_fail("rename", fresh, err);
    return status;
}

/* Makes the file that installers get from the copy. */
static enum anyflash_status make_file(struct af_run *run, bool keeps_file, bool plain_name,
                                      struct af_checked_wheel *out, struct anyflash_error *err)
{
    struct af_mapping mapping = {0};
    struct af_wheel_archive archive = {.info = NULL};
    const char *old = out->path;
    enum anyflash_status status = af_file_map(old, &mapping, err);
    if (status == ANYFLASH_OK)
        status = af_wheel_archive_open(af_mapping_bytes(&mapping), old, &archive, err);
    if (status == ANYFLASH_OK) {
        out->version = metadata_version(&archive, run->arena);
        out->path = new_path(run->arena, out, plain_name);
        if (!keeps_file)
            status = write_again(&archive, run->arena, out->path, err);
    }
    af_wheel_archive_close(&archive);
    af_file_unmap(&mapping);
    if (status == ANYFLASH_OK && keeps_file && strcmp(old, out->path) != 0 &&
        rename(old, out->path) != 0)
        status = af_file_fail("rename", old, err);
    else if (status == ANYFLASH_OK && strcmp(old, out->path) != 0)
        unlink(old);
    return status;
}

enum anyflash_status af_checked_wheel_make(struct af_run *run,
                                           const struct af_step_wheel *wheel,
                                           const char *folder, bool keeps_file, bool plain_name,
                                           struct af_checked_wheel *out,
                                           struct anyflash_error *err)
{
    *out = (struct af_checked_wheel){.path = NULL};
    enum anyflash_status status = af_fetch_copy(run, wheel, folder, &out->fetched, err);
    if (status != ANYFLASH_OK)
        return status;
    out->path = out->fetched.copy;
    out->origin = origin_url(run->arena, wheel, &out->fetched);
    status = check_content(run, out, err);
    if (status == ANYFLASH_OK && out->refusal == NULL)
        status = make_file(run, keeps_file, plain_name, out, err);
    if (status == ANYFLASH_OK && out->refusal == NULL)
        status = af_file_sha256(out->path, out->sha256, NULL, err);
    return status;
}

enum anyflash_status af_checked_wheel_prove(struct af_run *run, const char *path,
                                            const char *torch, const char **objection_out,
                                            struct anyflash_error *err)
{
    const struct af_prover_options options = {.machine = run->machine,
                                              .is_here = torch == NULL,
                                              .torch = torch,
                                              .arch = run->arch,
                                              .reads_kernels = run->machine->gpus.count > 0};
    struct af_inspect_target target = {.name = NULL};
    struct af_proof_obstacle obstacle;
    *objection_out = NULL;
    enum anyflash_status status = af_inspect_target_open(path, run->arena, &target, err);
    if (status == ANYFLASH_OK)
        status = af_proof_obstacle_find(&options, &target, run->arena, &obstacle, err);
    if (status == ANYFLASH_OK && obstacle.path != NULL)
        *objection_out =
            af_arena_format(run->arena, "'%s' would not load: %s", obstacle.path, obstacle.why);
    af_inspect_target_close(&target);
    return status;
}
