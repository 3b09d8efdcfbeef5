/*
 * record_file.c: a machine's record from a file.
 */
#include <string.h>

#include "kit/probe/probe.h"
#include "kit/system/file.h"

enum anyflash_status af_probe_record(struct af_machine *machine, const char *path,
                                     struct anyflash_error *err)
{
    struct af_arena arena;
    struct af_span bytes;
    bool is_stdin = strcmp(path, "-") == 0;
    af_arena_init(&arena);
    enum anyflash_status status =
        is_stdin ? af_stdin_read(&arena, AF_MACHINE_BYTES_MAX, &bytes, err)
                 : af_file_read(&arena, path, AF_MACHINE_BYTES_MAX, &bytes, err);
    if (status == ANYFLASH_OK)
        status = af_machine_parse(machine, bytes, is_stdin ? "stdin" : path, err);
    af_arena_release(&arena);
    return status;
}
