/*
 * remote_whole.c: a file behind an address whose server gives no parts of it:
 * downloaded as a whole, for as long as it is read.
 */
#include <unistd.h>

#include "base/file.h"
#include "run/fetch.h"
#include "run/remote.h"

enum anyflash_status af_remote_download(const struct af_http_options *options, const char *url,
                                        struct af_arena *arena, struct af_source *source_out,
                                        struct af_place *place_out, struct anyflash_error *err)
{
    struct af_fetched fetched;
    struct af_run run = {
        .arena = arena, .allow_http = options->allow_http, .offline = options->offline};
    /* The address may end in any name; the folder is of its hash alone. */
    const struct af_step_wheel wheel = {.url = url, .filename = "inspected.whl"};
    enum anyflash_status status = af_fetch(&run, &wheel, NULL, &fetched, err);
    if (status != ANYFLASH_OK)
        return status;
    status = af_source_open_file(fetched.path, source_out, err);
    unlink(fetched.path);
    const char *folder = af_path_folder(arena, fetched.path);
    if (folder != NULL)
        rmdir(folder);
    if (status != ANYFLASH_OK)
        return status;
    source_out->bytes_read = source_out->size_bytes;
    const char *tag = af_arena_format(arena, "\"sha256 %s\"", fetched.sha256);
    if (tag != NULL)
        *place_out = af_place_of_address(arena, url, tag, "", source_out->size_bytes);
    return ANYFLASH_OK;
}
