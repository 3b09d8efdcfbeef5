/*
 * remote_whole.c: a file behind an address whose server gives no parts of it:
 * downloaded as a whole, for as long as it is read.
 */
#include <unistd.h>

#include "kit/proof/remote.h"
#include "kit/system/download.h"
#include "kit/system/file.h"
#include "kit/system/file_source.h"
#include "kit/system/output.h"

/* The address may end in any name; the folder is of its hash alone. */
static enum anyflash_status download(const struct af_http_options *options, const char *url,
                                     const char *path, struct af_download_result *result,
                                     struct anyflash_error *err)
{
    struct af_http *http;
    const struct af_download order = {
        .url = url, .path = path, .size_bytes = -1, .wheel = true};
    enum anyflash_status status = af_http_open(options, &http, err);
    if (status != ANYFLASH_OK)
        return status;
    status = af_download_run(http, &order, result, err);
    af_http_close(http);
    return status;
}

enum anyflash_status af_remote_download(const struct af_http_options *options, const char *url,
                                        struct af_arena *arena, struct af_source *source_out,
                                        struct af_place *place_out, struct anyflash_error *err)
{
    struct af_download_result result;
    const char *folder;
    enum anyflash_status status = af_download_folder(arena, url, &folder, err);
    if (status == ANYFLASH_OK)
        status = af_folder_make(folder, 0755, err);
    if (status != ANYFLASH_OK)
        return status;
    const char *path = af_path_join(arena, folder, "inspected.whl");
    if (path == NULL)
        return af_fail_memory(err);
    status = download(options, url, path, &result, err);
    if (status != ANYFLASH_OK)
        return status;
    status = af_file_source_open(path, source_out, err);
    unlink(path);
    rmdir(folder);
    if (status != ANYFLASH_OK)
        return status;
    source_out->bytes_read = source_out->size_bytes;
    const char *tag = af_arena_format(arena, "\"sha256 %s\"", result.sha256);
    if (tag != NULL)
        *place_out = af_place_of_address(arena, url, tag, "", source_out->size_bytes);
    return ANYFLASH_OK;
}
