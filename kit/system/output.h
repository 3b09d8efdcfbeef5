/*
 * output.h: writing files completely or not at all, exchanging them, and creating and removing
 * folders.
 */
#ifndef AF_KIT_SYSTEM_OUTPUT_H
#define AF_KIT_SYSTEM_OUTPUT_H

#include "engine/base/base.h"
#include "kit/base/memory.h"

/* Fails with IO, "cannot WHAT 'PATH': REASON", where the reason is that of errno. */
enum anyflash_status af_file_fail(const char *what, const char *path,
                                  struct anyflash_error *err);

/*
 * Writes `count` pieces, one after the other, to a new file beside `path`, which is then
 * renamed to `path`, so that `path` is never half written. Fails with IO, naming the path; the
 * new file is removed then.
 */
enum anyflash_status af_file_write(struct af_arena *arena, const char *path,
                                   const struct af_span *pieces, size_t count,
                                   struct anyflash_error *err);

/*
 * af_file_write() of one piece, with the permissions of the file that it replaces. Fails also
 * if they cannot be kept; at no time is the new file readable for more users than the old one.
 */
enum anyflash_status af_file_rewrite(struct af_arena *arena, const char *path,
                                     const struct af_span *piece, struct anyflash_error *err);

/*
 * Makes the file `from` available at `to`, whose folder is created if missing: as a hard link,
 * else as a copy. An existing file is replaced; it is unchanged if the call fails with IO.
 */
enum anyflash_status af_file_link_or_copy(struct af_arena *arena, const char *from,
                                          const char *to, struct anyflash_error *err);

/*
 * af_file_write() of one text. Signals wait until it returns, so that Ctrl-C leaves no file
 * with a temporary name.
 */
enum anyflash_status af_file_write_text(struct af_arena *arena, const char *path,
                                        const char *text, struct anyflash_error *err);

/*
 * Creates the folder `path` with `mode`, and missing folders above it with 0755.
 * Fails with IO, naming the folder, or LIMIT for a path that is too long.
 */
enum anyflash_status af_folder_make(const char *path, unsigned mode,
                                    struct anyflash_error *err);

/*
 * Removes the folder `path` and everything in it; follows no links and stays in its file
 * system. A missing folder is not a failure. Fails with IO, naming the folder.
 */
enum anyflash_status af_folder_remove(const char *path, struct anyflash_error *err);

#endif
