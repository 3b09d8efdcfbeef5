/*
 * output.h: writing files whole or not at all, and making folders.
 */
#ifndef AF_KIT_SYSTEM_OUTPUT_H
#define AF_KIT_SYSTEM_OUTPUT_H

#include "engine/base/base.h"
#include "engine/base/mem.h"

/*
 * Writes `count` pieces, one behind the other, to `path`: first to a new file
 * beside it, which then takes its name, so that `path` is never half written.
 * Fails with IO, naming the path, or NO_MEMORY; then no file of ours is left.
 */
enum anyflash_status af_file_write(struct af_arena *arena, const char *path,
                                   const struct af_span *pieces, size_t count,
                                   struct anyflash_error *err);

/*
 * Puts the file `from` at `to`, whose folder is made where it is missing: a
 * hard link, or else a copy. A file that is there already is replaced. Fails
 * with IO or NO_MEMORY; then nothing of ours is left at `to`.
 */
enum anyflash_status af_file_place(struct af_arena *arena, const char *from, const char *to,
                                   struct anyflash_error *err);

/* af_file_write() of one text. */
enum anyflash_status af_file_write_text(struct af_arena *arena, const char *path,
                                        const char *text, struct anyflash_error *err);

/*
 * Makes the folder `path` with `mode` and those above it (0755) where they are
 * missing. Fails with IO, naming the folder, or LIMIT for a path that is too long.
 */
enum anyflash_status af_folder_make(const char *path, unsigned mode,
                                    struct anyflash_error *err);

#endif
