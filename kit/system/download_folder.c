/*
 * download_folder.c: where a download to our cache goes.
 */
#include <string.h>

#include "kit/base/sha256.h"
#include "kit/system/download.h"
#include "kit/system/state.h"

enum anyflash_status af_download_folder(struct af_arena *arena, const char *url,
                                        const char **folder_out, struct anyflash_error *err)
{
    char hex[AF_SHA256_HEX_BYTES];
    af_sha256_bytes((struct af_span){url, strlen(url)}, hex);
    const char *cache = af_cache_folder(arena);
    if (cache == NULL)
        return arena->failed ? af_fail_memory(err)
                             : af_fail(err, ANYFLASH_E_NOT_FOUND,
                                       "nowhere to download to: HOME is not set");
    const char *folder = af_arena_format(arena, "%s/wheels/%.16s", cache, hex);
    if (folder == NULL)
        return af_fail_memory(err);
    *folder_out = folder;
    return ANYFLASH_OK;
}
