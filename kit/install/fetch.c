/*
 * fetch.c: where the exact file of a step comes from.
 */
#include "kit/install/fetch.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "kit/base/text.h"
#include "kit/system/download.h"
#include "kit/system/file.h"
#include "kit/system/hash_file.h"
#include "kit/system/output.h"

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
    struct af_http *http;
    struct af_http_options options = {
        .allow_http = run->allow_http, .offline = run->offline, .interrupted = af_interrupted};
    struct reporter reporter = {&run->progress, wheel->filename};
    struct af_download order = {.url = wheel->url,
                                .path = path,
                                .sha256 = wheel->sha256,
                                .size_bytes = -1,
                                .wheel = true,
                                .progress = report,
                                .context = &reporter};
    struct af_download_result result;
    enum anyflash_status status = af_http_open(&options, &http, err);
    if (status != ANYFLASH_OK)
        return status;
    status = af_download_run(http, &order, &result, err);
    af_http_close(http);
    if (status == ANYFLASH_OK)
        memcpy(fetched->sha256, result.sha256, sizeof fetched->sha256);
    return status;
}

/* A file that is there already: only its hash is wanted. */
static enum anyflash_status take(const struct af_step_wheel *wheel, const char *path,
                                 struct af_fetched *fetched, struct anyflash_error *err)
{
    enum anyflash_status status = af_file_sha256(path, fetched->sha256, NULL, err);
    if (status == ANYFLASH_OK && wheel->sha256 != NULL &&
        !af_sha256_equal(fetched->sha256, wheel->sha256))
        status = af_fail(err, ANYFLASH_E_DATA,
                         "'%s' is another file than the plan's: its SHA-256 is %s, not %s",
                         af_path_name(path), fetched->sha256, wheel->sha256);
    return status;
}

enum anyflash_status af_fetch(struct af_run *run, const struct af_step_wheel *wheel,
                              const char *folder, struct af_fetched *fetched_out,
                              struct anyflash_error *err)
{
    struct af_fetched fetched = {.path = wheel->path};
    bool here = wheel->path != NULL;
    enum anyflash_status status = ANYFLASH_OK;
    if (!here && run->from != NULL) {
        fetched.path = af_path_join(run->arena, run->from, wheel->filename);
        here = true;
    }
    if (!here && folder == NULL) {
        status = af_download_folder(run->arena, wheel->url, &folder, err);
        fetched.ours = true;
    }
    if (!here && status == ANYFLASH_OK) {
        fetched.path = af_path_join(run->arena, folder, wheel->filename);
        status = af_folder_make(folder, 0755, err);
    }
    if (status != ANYFLASH_OK)
        return status;
    if (fetched.path == NULL)
        return af_fail_memory(err);
    status = here ? take(wheel, fetched.path, &fetched, err)
                  : download(run, wheel, fetched.path, &fetched, err);
    if (status == ANYFLASH_OK)
        *fetched_out = fetched;
    return status;
}
