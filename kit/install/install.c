/*
 * install.c: carries out a plan: everything is unpacked first, then moved into place at once,
 * so that a plan is done completely or not at all. step_refusal.c says which steps are refused
 * before that, source_notes.c what the user is told about the files; step_trial.c imports what
 * was installed.
 */
#include "kit/install/install.h"

#include <string.h>
#include <unistd.h>

#include "kit/base/text.h"
#include "kit/base/url.h"
#include "kit/install/checked_wheel.h"
#include "kit/install/direct_url.h"
#include "kit/install/expected_files.h"
#include "kit/install/operation.h"
#include "kit/install/own_package.h"
#include "kit/install/prove_unpacked.h"
#include "kit/install/source_notes.h"
#include "kit/install/stage.h"
#include "kit/install/step_refusal.h"
#include "kit/install/step_trial.h"
#include "kit/proof/inspect_target.h"
#include "kit/system/file.h"
#include "kit/system/output.h"
#include "kit/system/progress.h"

#define WHEELS_MAX 16

struct job {
    struct af_run *run;
    const struct af_plan *plan;
    struct af_stage stage;
    struct af_operation operation;
    const char *wheel_folder; /* of what installers get */
    const char *cache;        /* folder for uv's own copies */
    struct af_checked_wheel wheels[WHEELS_MAX];
    size_t wheel_count;
    struct af_expected_files files; /* that may be in the unpacked tree */
    struct af_install_proved proved;
    const char *refusal; /* set when the answer is NO */
    const char *hint;
};

const char *af_install_site(const struct af_machine *machine, struct af_arena *arena)
{
    const struct af_fact *sites = &machine->python.site_packages;
    if (sites->state != AF_FACT_KNOWN || sites->value.list.count == 0)
        return NULL;
    return af_file_real_path(arena, sites->value.list.items[0]);
}

static void refuse(struct job *job, const char *reason, const char *hint)
{
    job->refusal = reason;
    job->hint = hint;
}

static void check_step(struct job *job, const struct af_step *step)
{
    struct af_install_refusal refusal;
    af_install_check_step(job->run, step, &refusal);
    refuse(job, refusal.reason, refusal.hint);
}

static bool brings_files(const struct af_step *step)
{
    return step->kind == AF_STEP_WHEEL || step->kind == AF_STEP_PACKAGES ||
           step->kind == AF_STEP_TORCH || step->kind == AF_STEP_NEEDS ||
           step->kind == AF_STEP_OWN;
}

static const char *step_title(struct af_arena *arena, const struct af_step *step)
{
    if (step->kind == AF_STEP_OWN && step->stand_in)
        return "anyflash's stand-in for flash-attn " AF_OWN_PACKAGE_STAND_IN;
    if (step->kind == AF_STEP_OWN)
        return af_arena_format(arena, "anyflash %s", anyflash_version_text());
    if (step->wheel == NULL)
        return step->requirement_count > 0 ? step->requirements[0] : step->title;
    return af_arena_format(arena, "%s %s", step->wheel->package,
                           step->wheel->version != NULL ? step->wheel->version
                                                        : step->wheel->filename);
}

/* For example "flash-attn 2.8.3+cu12..., einops". */
static const char *job_title(const struct job *job)
{
    struct af_arena *arena = job->run->arena;
    const char *title = NULL;
    for (size_t i = 0; i < job->plan->step_count; i++) {
        const struct af_step *step = &job->plan->steps[i];
        if (!brings_files(step))
            continue;
        const char *part = step_title(arena, step);
        title = title == NULL ? part : af_arena_format(arena, "%s, %s", title, part);
    }
    return title;
}

static enum anyflash_status bring_wheel(struct job *job, const struct af_step *step,
                                        struct anyflash_error *err)
{
    struct af_checked_wheel *wheel = &job->wheels[job->wheel_count];
    if (job->wheel_count == WHEELS_MAX)
        return af_fail(err, ANYFLASH_E_LIMIT, "more than %d wheels in one plan", WHEELS_MAX);
    enum anyflash_status status = af_checked_wheel_make(
        job->run, step->wheel, job->wheel_folder, false, false, wheel, err);
    if (status == ANYFLASH_E_NOT_FOUND || status == ANYFLASH_E_IO ||
        status == ANYFLASH_E_TIMEOUT)
        job->hint = af_install_fetch_hint(job->run, step->wheel);
    if (wheel->path == NULL)
        return status;
    job->wheel_count++;
    af_install_tell_hash(job->run, step->wheel, wheel->fetched.sha256);
    if (step->wheel->url != NULL)
        af_install_tell_publisher(job->run, step->wheel->url);
    if (wheel->refusal != NULL)
        refuse(job, wheel->refusal, wheel->hint);
    if (status != ANYFLASH_OK || job->refusal != NULL)
        return status;
    status = af_expected_files_add(&job->files, wheel->path, job->run->arena, err);
    if (status == ANYFLASH_OK)
        status = af_stage_file(&job->stage, step->wheel->package, wheel->path, wheel->sha256,
                               job->cache, err);
    if (status == ANYFLASH_OK)
        status =
            af_expected_files_check_tree(&job->files, job->stage.root, job->run->arena, err);
    return status;
}

/* Of TORCH and NEEDS: what installers would bring, given what is there. */
static enum anyflash_status bring_resolved(struct job *job, const struct af_step *step,
                                           struct anyflash_error *err)
{
    const char *const *found;
    size_t count;
    enum anyflash_status status =
        af_stage_resolve(&job->stage, step->requirements, step->requirement_count,
                         step->torch_backend, &found, &count, err);
    if (status != ANYFLASH_OK || count == 0)
        return status;
    for (size_t i = 0; i < count; i++) {
        if (step->kind == AF_STEP_NEEDS && af_starts_with(found[i], "torch==")) {
            refuse(
                job, af_arena_format(job->run->arena, "what it needs would bring %s", found[i]),
                af_arena_format(job->run->arena,
                                "`%s` shows the requirements: one of them excludes the torch "
                                "here",
                                af_run_command(job->run, "plan", NULL)));
            return ANYFLASH_OK;
        }
        af_progress_message(&job->run->progress, "comes: %s", found[i]);
    }
    return af_stage_requirements(&job->stage, found, count, step->torch_backend, job->run->from,
                                 err);
}

static enum anyflash_status bring(struct job *job, const struct af_step *step,
                                  struct anyflash_error *err)
{
    af_progress_message(&job->run->progress, "getting %s", step_title(job->run->arena, step));
    if (step->kind == AF_STEP_WHEEL)
        return bring_wheel(job, step, err);
    if (step->kind != AF_STEP_OWN && job->stage.uv)
        af_install_tell_uv_index(job->run);
    if (step->kind == AF_STEP_TORCH || step->kind == AF_STEP_NEEDS)
        return bring_resolved(job, step, err);
    if (step->kind == AF_STEP_OWN)
        return af_own_package_stage(&job->stage, step->stand_in, err);
    enum anyflash_status status = af_stage_requirements(
        &job->stage, step->requirements, step->requirement_count, NULL, job->run->from, err);
    if (status == ANYFLASH_E_DATA && job->run->from != NULL)
        job->hint =
            af_arena_format(job->run->arena, "put the wheel of %s into the folder of --from",
                            step->requirements[0]);
    return status;
}

/* Writes where packages came from. Everything must be unpacked and the site folder known. */
static enum anyflash_status write_origins(struct job *job, struct anyflash_error *err)
{
    enum anyflash_status status = ANYFLASH_OK;
    size_t at = 0;
    for (size_t i = 0; status == ANYFLASH_OK && i < job->plan->step_count; i++) {
        const struct af_step_wheel *step = job->plan->steps[i].wheel;
        if (step == NULL)
            continue;
        const struct af_checked_wheel *wheel = &job->wheels[at++];
        status = af_installed_origin_write(job->run->arena, job->stage.fresh, step->package,
                                           wheel->origin, wheel->fetched.sha256, err);
    }
    return status;
}

/* The torch version in the name or METADATA of a wheel of the plan; NULL: none. */
static const char *stated_torch(struct job *job)
{
    const char *stated = NULL;
    for (size_t i = 0; i < job->wheel_count && stated == NULL; i++) {
        struct af_inspect_target target;
        if (af_inspect_target_open(job->wheels[i].path, job->run->arena, &target, NULL) !=
            ANYFLASH_OK)
            continue;
        stated = target.wheel != NULL ? target.wheel->stated_torch : NULL;
        af_inspect_target_close(&target);
    }
    return stated;
}

/* Hint for a refused wheel. `plan` skips a wheel of an address once it was inspected. */
static const char *inspect_hint(const struct job *job)
{
    struct af_arena *arena = job->run->arena;
    for (size_t i = 0; i < job->plan->step_count; i++) {
        const struct af_step_wheel *wheel = job->plan->steps[i].wheel;
        if (wheel == NULL)
            continue;
        bool is_file = !job->wheels[0].fetched.ours;
        const char *what =
            is_file ? job->wheels[0].fetched.path : af_url_without_secrets(arena, wheel->url);
        return af_arena_format(arena, "`%s` shows every check%s",
                               af_run_command(job->run, "inspect", what),
                               is_file ? "" : ", and `anyflash plan` skips it from then on");
    }
    return "`anyflash inspect` shows every check";
}

/*
 * Proves the extensions against the installed torch. If the plan changes torch itself, or
 * brings this program's own libraries, which find each other only once loaded, a trial import
 * shows whether they load; it runs before the change is committed.
 */
static enum anyflash_status prove(struct job *job, struct anyflash_error *err)
{
    bool strict = false;
    for (size_t i = 0; i < job->plan->step_count; i++) {
        const struct af_step *step = &job->plan->steps[i];
        if (step->kind == AF_STEP_TORCH || step->kind == AF_STEP_OWN)
            return ANYFLASH_OK;
        strict = strict ||
                 (step->wheel != NULL && (af_starts_with(step->wheel->package, "flash-attn") ||
                                          af_starts_with(step->wheel->package, "flashattn")));
    }
    enum anyflash_status status = af_install_prove(job->run, job->stage.fresh, strict,
                                                   stated_torch(job), &job->proved, err);
    if (status == ANYFLASH_OK && job->proved.refusal != NULL)
        refuse(job, job->proved.refusal, inspect_hint(job));
    return status;
}

/* Brings the files of all steps that name an exact wheel, or those of all others. */
static enum anyflash_status bring_steps(struct job *job, bool wheels,
                                        struct anyflash_error *err)
{
    enum anyflash_status status = ANYFLASH_OK;
    for (size_t i = 0;
         status == ANYFLASH_OK && job->refusal == NULL && i < job->plan->step_count; i++) {
        const struct af_step *step = &job->plan->steps[i];
        if (brings_files(step) && (step->kind == AF_STEP_WHEEL) == wheels)
            status = bring(job, step, err);
        if (status == ANYFLASH_OK && af_interrupted())
            status = af_fail(err, ANYFLASH_E_TIMEOUT, "interrupted");
    }
    return status;
}

/*
 * Unpacks everything into a folder of ours; the environment is not touched. Wheels come first,
 * because all files that are there then must be theirs.
 */
static enum anyflash_status unpack(struct job *job, struct anyflash_error *err)
{
    enum anyflash_status status = bring_steps(job, true, err);
    if (status == ANYFLASH_OK)
        status = bring_steps(job, false, err);
    if (job->refusal != NULL)
        return status;
    if (status == ANYFLASH_OK)
        status = af_stage_check(&job->stage, err);
    if (status == ANYFLASH_OK)
        status = prove(job, err);
    if (status == ANYFLASH_OK)
        status = write_origins(job, err);
    return status;
}

/*
 * Finds the entries, and the folder for old files: it is as deep below its root as the folder
 * of the new files.
 */
static enum anyflash_status find_entries(struct job *job, struct anyflash_error *err)
{
    struct af_operation *operation = &job->operation;
    struct af_entry *entries;
    operation->fresh = job->stage.fresh;
    operation->aside = af_arena_format(job->run->arena, "%s%s", operation->aside_root,
                                       operation->fresh + strlen(operation->fresh_root));
    enum anyflash_status status =
        af_replaced_paths_find(job->run->arena, job->run->site, operation->fresh,
                               &job->run->progress, &entries, &operation->entry_count, err);
    if (status == ANYFLASH_OK)
        operation->entries = entries;
    return status;
}

static enum anyflash_status try_one(struct job *job, const struct af_step *step,
                                    struct anyflash_error *err)
{
    bool own = job->plan->rung == AF_RUNG_TORCH_KERNELS || job->plan->rung == AF_RUNG_ENGINE;
    const char *what = own                    ? "anyflash's Python package"
                       : job->wheel_count > 0 ? "the wheel"
                                              : "the installed flash-attn";
    const char *refusal = NULL;
    enum anyflash_status status = af_install_try_step(job->run, step, what, &refusal, err);
    if (refusal != NULL)
        refuse(job, refusal, own ? NULL : inspect_hint(job));
    return status;
}

/* Checks that the new files work, now that they are in place. */
static enum anyflash_status look(void *context, struct anyflash_error *err)
{
    struct job *job = context;
    enum anyflash_status status = ANYFLASH_OK;
    for (size_t i = 0; status == ANYFLASH_OK && i < job->plan->step_count; i++)
        if (job->plan->steps[i].kind == AF_STEP_TRY)
            status = try_one(job, &job->plan->steps[i], err);
    return status;
}

/* Makes the folders in which wheels are copied and unpacked: only this user can open them. */
static enum anyflash_status make_folders(struct job *job, struct anyflash_error *err)
{
    struct af_arena *arena = job->run->arena;
    const char *root = job->operation.fresh_root;
    job->stage = (struct af_stage){.run = job->run,
                                   .python = job->plan->python,
                                   .uv = job->plan->uv,
                                   .root = af_path_join(arena, root, "tree")};
    job->wheel_folder = af_path_join(arena, root, "wheels");
    job->cache = af_path_join(arena, root, "cache");
    enum anyflash_status status = af_folder_make(job->stage.root, 0755, err);
    return status == ANYFLASH_OK ? af_folder_make(job->wheel_folder, 0700, err) : status;
}

static enum anyflash_status change(struct job *job, struct anyflash_error *err)
{
    struct af_operation *operation = &job->operation;
    enum anyflash_status status = af_operation_begin(job->run, operation, err);
    if (status == ANYFLASH_OK)
        status = make_folders(job, err);
    if (status == ANYFLASH_OK)
        status = unpack(job, err);
    bool go = status == ANYFLASH_OK && job->refusal == NULL;
    if (go)
        status = find_entries(job, err);
    if (go && status == ANYFLASH_OK)
        status = af_operation_move(job->run, operation, look, job, err);
    af_operation_finish(job->run, operation);
    return status;
}

/*
 * Calls the package if its result is known; else loads everything that was proved to load. The
 * package is already installed and remains so if it fails.
 */
static void verify(const struct job *job, struct af_install_result *done)
{
    struct af_run *run = job->run;
    const struct af_plan *plan = job->plan;
    const struct af_install_proved *proved = &job->proved;
    for (size_t i = 0; i < plan->step_count; i++) {
        struct af_verify_options options = {.python = plan->python,
                                            .module = plan->steps[i].module};
        if (options.module == NULL)
            continue;
        af_progress_message(&run->progress,
                            "verify: running it and comparing with a known result");
        af_verify_calls(&options, run->arena, &done->verified);
        return;
    }
    if (proved->loadable_count == 0)
        return;
    af_progress_message(&run->progress, "verify: loading its extensions");
    af_verify_extensions(plan->python, proved->loadable, proved->loadable_count, run->arena,
                         &done->verified);
}

/* Removes our copies of installed files; after a failure they are kept for the next run. */
static void remove_copies(const struct job *job)
{
    for (size_t i = 0; i < job->wheel_count; i++) {
        if (!job->wheels[i].fetched.ours)
            continue;
        unlink(job->wheels[i].fetched.path);
        rmdir(af_path_folder(job->run->arena, job->wheels[i].fetched.path));
    }
}

enum anyflash_status af_install(struct af_run *run, const struct af_plan *plan,
                                struct af_install_result *done, struct anyflash_error *err)
{
    struct job job = {.run = run, .plan = plan};
    enum anyflash_status status = ANYFLASH_OK;
    for (size_t i = 0; i < plan->step_count && job.refusal == NULL; i++)
        check_step(&job, &plan->steps[i]);
    job.operation.kind = AF_OPERATION_INSTALL;
    job.operation.title = job_title(&job);
    if (job.refusal == NULL && job.operation.title != NULL)
        status = change(&job, err);
    af_memory_free(job.files.items);
    if (status != ANYFLASH_OK && job.refusal == NULL) {
        if (job.operation.id == 0 || job.operation.phase == AF_PHASE_GONE)
            af_progress_message(&run->progress, "nothing was changed");
        *done = (struct af_install_result){.answer = AF_NO, .hint = job.hint};
        return status;
    }
    if (job.refusal == NULL)
        remove_copies(&job);
    *done = (struct af_install_result){.answer = job.refusal == NULL ? AF_YES : AF_NO,
                                       .reason = job.refusal,
                                       .hint = job.hint,
                                       .title = job.operation.title,
                                       .changed = job.operation.phase == AF_PHASE_DONE ||
                                                  job.operation.phase == AF_PHASE_COMMITTED,
                                       .id = job.operation.id};
    if (done->changed)
        verify(&job, done);
    return ANYFLASH_OK;
}
