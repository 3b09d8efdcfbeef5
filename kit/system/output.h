/* output.h: writing files completely or not at all, and creating folders. */
#ifndef AF_KIT_SYSTEM_OUTPUT_H
#define AF_KIT_SYSTEM_OUTPUT_H

#include "engine/base/base.h"
#include "engine/base/mem.h"

/*
 * Writes `count` pieces, one after the other, to a new file beside `path`, which is then
 * renamed to `path`, so that `path` is never half written. Fails with IO, naming the path, or
 * NO_MEMORY; the new file is removed then.
 */
enum anyflash_status af_file_write(struct af_arena *arena, const char *path,
                                   const struct af_span *pieces, size_t count,
                                   struct anyflash_error *err);

/*
 * Makes the file `from` available at `to`, whose folder is created if missing: as a hard link,
 * else as a copy. An existing file is replaced. Fails with IO or NO_MEMORY; `to` does not exist
 * then.
 */
enum anyflash_status af_file_place(struct af_arena *arena, const char *from, const char *to,
                                   struct anyflash_error *err);

/* af_file_write() of one text. */
enum anyflash_status af_file_write_text(struct af_arena *arena, const char *path,
                                        const char *text, struct anyflash_error *err);

/*
 * Creates the folder `path` with `mode`, and missing folders above it with 0755.
 * Fails with IO, naming the folder, or LIMIT for a path that is too long.
 */
enum anyflash_status af_folder_make(const char *path, unsigned mode,
                                    struct anyflash_error *err);

#endif
