/*
 * fetch.c: gets the exact file of a step. Also `--download-only`, which gets all files of a
 * plan.
 */
#include "kit/install/fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kit/base/text.h"
#include "kit/install/stage.h"
#include "kit/proof/wheel_content.h"
#include "kit/system/download.h"
#include "kit/system/file.h"
#include "kit/system/output.h"
#include "kit/system/progress.h"
#include "kit/system/state.h"

struct reporter {
    const struct af_progress *progress;
    const char *what;
};

static bool report(void *context, uint64_t done_bytes, int64_t total_bytes)
{
    const struct reporter *reporter = context;
    if (reporter->progress->transfer != NULL)
        reporter->progress->transfer(reporter->progress->context, reporter->what, done_bytes,
                                     total_bytes < 0 ? 0 : (uint64_t)total_bytes);
    return !af_interrupted();
}

static enum anyflash_status download(struct af_run *run, const struct af_step_wheel *wheel,
                                     const char *path, struct af_fetched *fetched,
                                     struct anyflash_error *err)
{
    const struct af_http http = {.allow_http = run->allow_http, .offline = run->offline};
    struct reporter reporter = {&run->progress, wheel->filename};
    struct af_download order = {.url = wheel->url,
                                .path = path,
                                .sha256 = wheel->sha256,
                                .size_bytes = -1,
                                .wheel = true,
                                .progress = report,
                                .context = &reporter};
    struct af_download_result result;
    enum anyflash_status status = af_download_run(&http, &order, &result, err);
    if (status == ANYFLASH_OK)
        memcpy(fetched->sha256, result.sha256, sizeof fetched->sha256);
    return status;
}

static enum anyflash_status check_hash(const struct af_step_wheel *wheel,
                                       const struct af_fetched *fetched,
                                       struct anyflash_error *err)
{
    if (wheel->sha256 == NULL || af_sha256_equal(fetched->sha256, wheel->sha256))
        return ANYFLASH_OK;
    return af_fail(err, ANYFLASH_E_DATA,
                   "'%s' is not the file in the plan: its SHA-256 is %s, expected %s",
                   af_path_name(fetched->path), fetched->sha256, wheel->sha256);
}

/* Finds an existing file, or downloads the wheel to `folder`. */
static enum anyflash_status find(struct af_run *run, const struct af_step_wheel *wheel,
                                 const char *folder, struct af_fetched *fetched, bool *here_out,
                                 struct anyflash_error *err)
{
    enum anyflash_status status = ANYFLASH_OK;
    *fetched = (struct af_fetched){.path = wheel->path};
    *here_out = wheel->path != NULL || run->from != NULL;
    if (wheel->path == NULL && run->from != NULL)
        fetched->path = af_path_join(run->arena, run->from, wheel->filename);
    if (!*here_out && folder == NULL) {
        status = af_cache_wheel_folder(run->arena, wheel->url, &folder, err);
        fetched->ours = true;
    }
    if (!*here_out && status == ANYFLASH_OK) {
        fetched->path = af_path_join(run->arena, folder, wheel->filename);
        status = af_folder_make(folder, 0755, err);
    }
    if (status != ANYFLASH_OK)
        return status;
    return *here_out ? ANYFLASH_OK : download(run, wheel, fetched->path, fetched, err);
}

enum anyflash_status af_fetch(struct af_run *run, const struct af_step_wheel *wheel,
                              const char *folder, struct af_fetched *fetched_out,
                              struct anyflash_error *err)
{
    struct af_fetched fetched;
    bool is_here;
    enum anyflash_status status = find(run, wheel, folder, &fetched, &is_here, err);
    if (status == ANYFLASH_OK && is_here)
        status = af_file_sha256(fetched.path, fetched.sha256, NULL, err);
    if (status == ANYFLASH_OK)
        status = check_hash(wheel, &fetched, err);
    if (status == ANYFLASH_OK)
        *fetched_out = fetched;
    return status;
}

/* A copy that is being written; `number` is an errno, 0: no failure. */
struct copying {
    struct af_sha256 hash;
    int fd;
    int number;
};

static void copy_piece(void *context, const char *bytes, size_t len)
{
    struct copying *copying = context;
    af_sha256_add(&copying->hash, bytes, len);
    while (copying->number == 0 && len > 0) {
        ssize_t got = write(copying->fd, bytes, len);
        if (got < 0 && errno != EINTR)
            copying->number = errno;
        bytes += got > 0 ? got : 0;
        len -= got > 0 ? (size_t)got : 0;
    }
}

/* Copies the file to fetched->copy and sets fetched->sha256, of the bytes that were written. */
static enum anyflash_status copy(struct af_fetched *fetched, struct anyflash_error *err)
{
    struct copying copying = {.number = 0};
    char shown[200];
    copying.fd = open(fetched->copy, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    copying.number = copying.fd < 0 ? errno : 0;
    af_sha256_init(&copying.hash);
    enum anyflash_status status =
        copying.fd < 0 ? ANYFLASH_OK
                       : af_file_read_pieces(fetched->path, copy_piece, &copying, err);
    if (copying.fd >= 0 && close(copying.fd) != 0 && copying.number == 0)
        copying.number = errno;
    if (status == ANYFLASH_OK && copying.number != 0)
        status =
            af_fail(err, ANYFLASH_E_IO, "cannot copy '%s' into the environment: %s",
                    af_text_quote(shown, sizeof shown, fetched->path, strlen(fetched->path)),
                    strerror(copying.number));
    af_sha256_finish(&copying.hash, fetched->sha256);
    return status;
}

enum anyflash_status af_fetch_copy(struct af_run *run, const struct af_step_wheel *wheel,
                                   const char *folder, struct af_fetched *fetched_out,
                                   struct anyflash_error *err)
{
    struct af_fetched fetched;
    bool is_here;
    enum anyflash_status status = find(run, wheel, NULL, &fetched, &is_here, err);
    if (status != ANYFLASH_OK)
        return status;
    fetched.copy = af_path_join(run->arena, folder, wheel->filename);
    status = copy(&fetched, err);
    if (status == ANYFLASH_OK)
        status = check_hash(wheel, &fetched, err);
    if (status == ANYFLASH_OK)
        *fetched_out = fetched;
    return status;
}

#define REQUIREMENTS_FILE ".anyflash-requirements.txt"

static enum anyflash_status get_requirement(struct af_run *run, const struct af_plan *plan,
                                            const char *requirement, const char *folder,
                                            struct anyflash_error *err)
{
    struct af_fetched fetched;
    struct af_step_wheel wheel;
    const char *real = af_file_real_path(run->arena, folder);
    if (real == NULL)
        return af_file_fail("find", folder, err);
    const char *file = af_path_join(run->arena, real, REQUIREMENTS_FILE);
    struct af_stage stage = {.run = run, .python = plan->python, .uv = plan->uv, .root = file};
    enum anyflash_status status = af_file_write_text(run->arena, file, requirement, err);
    if (status == ANYFLASH_OK)
        status = af_stage_locate(&stage, requirement, &wheel, err);
    unlink(file);
    return status == ANYFLASH_OK ? af_fetch(run, &wheel, folder, &fetched, err) : status;
}

/* Removes the downloaded wheel if it contains more than its package; `refusal` says why. */
static enum anyflash_status check_content(struct af_run *run, const struct af_fetched *fetched,
                                          bool is_downloaded,
                                          struct af_content_refusal *refusal,
                                          struct anyflash_error *err)
{
    enum anyflash_status status =
        af_content_refuse_file(fetched->path, &run->allow_content, run->arena, refusal, err);
    if (is_downloaded && (status != ANYFLASH_OK || refusal->reason != NULL))
        unlink(fetched->path);
    return status;
}

static enum anyflash_status get_step(struct af_run *run, const struct af_plan *plan,
                                     const struct af_step *step, const char *folder,
                                     struct af_install_result *done,
                                     struct af_content_refusal *refusal,
                                     struct anyflash_error *err)
{
    struct af_fetched fetched;
    enum anyflash_status status = ANYFLASH_OK;
    if (step->kind == AF_STEP_TORCH || step->kind == AF_STEP_NEEDS ||
        step->kind == AF_STEP_OWN || step->kind == AF_STEP_BUILD || step->kind == AF_STEP_TOOL)
        return af_fail(err, ANYFLASH_E_UNSUPPORTED,
                       "only wheels can be downloaded, but the plan says: %s", step->title);
    if (step->wheel != NULL) {
        status = af_fetch(run, step->wheel, folder, &fetched, err);
        done->wheel = af_arena_text(run->arena, fetched.path);
        done->sha256 = af_arena_text(run->arena, fetched.sha256);
        if (status == ANYFLASH_OK)
            status = check_content(
                run, &fetched, step->wheel->path == NULL && run->from == NULL, refusal, err);
    }
    for (size_t i = 0;
         status == ANYFLASH_OK && refusal->reason == NULL && i < step->requirement_count; i++)
        status = get_requirement(run, plan, step->requirements[i], folder, err);
    return status;
}

enum anyflash_status af_install_download(struct af_run *run, const struct af_plan *plan,
                                         const char *folder, struct af_install_result *done,
                                         struct anyflash_error *err)
{
    if (mkdir(folder, 0755) != 0 && errno != EEXIST)
        return af_file_fail("create the folder", folder, err);
    enum anyflash_status status = ANYFLASH_OK;
    struct af_content_refusal refusal = {NULL, NULL};
    struct af_install_result made = {.title = folder};
    for (size_t i = 0; status == ANYFLASH_OK && refusal.reason == NULL && i < plan->step_count;
         i++)
        status = get_step(run, plan, &plan->steps[i], folder, &made, &refusal, err);
    made.answer = refusal.reason == NULL ? AF_YES : AF_NO;
    made.reason = refusal.reason;
    made.hint = refusal.hint;
    if (status == ANYFLASH_OK)
        *done = made;
    return status;
}
