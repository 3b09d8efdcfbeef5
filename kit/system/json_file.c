/*
 * json_file.c: JSON documents from files.
 */
#include "kit/system/json_file.h"

#include <string.h>

#include "kit/system/file.h"

enum anyflash_status af_file_read_json(const char *path, size_t max_bytes, json_t **json_out,
                                       struct anyflash_error *err)
{
    struct af_arena arena;
    struct af_span bytes;
    af_arena_init(&arena);
    enum anyflash_status status = strcmp(path, "-") == 0
                                      ? af_stdin_read(&arena, max_bytes, &bytes, err)
                                      : af_file_read(&arena, path, max_bytes, &bytes, err);
    if (status == ANYFLASH_OK)
        status = af_json_parse(bytes, max_bytes, path, json_out, err);
    af_arena_release(&arena);
    return status;
}
