/*
 * offered_wheel.c: gets a published wheel, checks its hash and its content, proves it, and
 * gives it the name that agrees with its metadata.
 */
#include "kit/install/offered_wheel.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kit/base/text.h"
#include "kit/formats/wheel_archive.h"
#include "kit/formats/wheel_name.h"
#include "kit/install/fetch.h"
#include "kit/proof/prover.h"
#include "kit/proof/wheel_content.h"
#include "kit/system/file.h"
#include "kit/system/output.h"

enum anyflash_status af_offered_wheel_prove(struct af_run *run,
                                            struct af_inspect_target *target, const char *torch,
                                            const char **objection_out,
                                            struct anyflash_error *err)
{
    const struct af_prover_options options = {.machine = run->machine,
                                              .is_here = torch == NULL,
                                              .torch = torch,
                                              .arch = run->arch,
                                              .reads_kernels = run->machine->gpus.count > 0};
    struct af_proof_obstacle obstacle;
    *objection_out = NULL;
    enum anyflash_status status =
        af_proof_obstacle_find(&options, target, run->arena, &obstacle, err);
    if (status == ANYFLASH_OK && obstacle.path != NULL)
        *objection_out =
            af_arena_format(run->arena, "'%s' would not load: %s", obstacle.path, obstacle.why);
    return status;
}

/* Proves the wheel and reads its version; renames it if its metadata lacks the local part. */
static enum anyflash_status prove(struct af_run *run, const char *torch,
                                  struct af_offered_wheel *out, struct anyflash_error *err)
{
    struct af_inspect_target target = {.name = NULL};
    enum anyflash_status status = af_inspect_target_open(out->path, run->arena, &target, err);
    if (status != ANYFLASH_OK)
        return status;
    status = af_offered_wheel_prove(run, &target, torch, &out->refusal, err);
    const char *version = target.wheel == NULL ? NULL : target.wheel->metadata_version;
    out->version = af_arena_text(run->arena, version);
    af_inspect_target_close(&target);
    if (status != ANYFLASH_OK || out->version == NULL || strchr(out->version, '+') != NULL)
        return status;
    const char *plain = af_wheel_plain_name(run->arena, af_path_name(out->path));
    const char *path =
        plain == NULL ? NULL
                      : af_path_join(run->arena, af_path_folder(run->arena, out->path), plain);
    if (path == NULL)
        return af_fail_memory(err);
    if (rename(out->path, path) != 0)
        return af_file_fail("rename", out->path, err);
    out->path = path;
    return ANYFLASH_OK;
}

enum anyflash_status af_offered_wheel_make(struct af_run *run,
                                           const struct af_step_wheel *wheel,
                                           const char *folder, const char *torch,
                                           struct af_offered_wheel *out,
                                           struct anyflash_error *err)
{
    struct af_fetched fetched;
    struct af_content_refusal refusal;
    *out = (struct af_offered_wheel){0};
    enum anyflash_status status = af_fetch_copy(run, wheel, folder, &fetched, err);
    if (status != ANYFLASH_OK)
        return status;
    if (fetched.ours)
        unlink(fetched.path);
    out->path = fetched.copy;
    memcpy(out->sha256, fetched.sha256, sizeof out->sha256);
    status = af_content_refuse_file(out->path, &run->allow_content, run->arena, &refusal, err);
    if (status != ANYFLASH_OK)
        return status;
    out->refusal = refusal.reason;
    out->hint = refusal.hint;
    return refusal.reason != NULL ? ANYFLASH_OK : prove(run, torch, out, err);
}
