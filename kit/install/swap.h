/*
 * swap.h: the renames of an operation, forward and back, and the folders they need. Every
 * function can be called again after an interruption at any point: where an entry is shows
 * which renames were done. Private to operation.c and undo.c.
 */
#ifndef AF_KIT_INSTALL_SWAP_H
#define AF_KIT_INSTALL_SWAP_H

#include "kit/install/journal.h"

/*
 * A name for a new folder of ours in `site`: SITE/.anyflash-<word>-<random>. The folder is not
 * created. NULL if memory runs out.
 */
const char *af_swap_name(struct af_arena *arena, const char *site, const char *word);

/* Creates the folders that entries of `aside` and `site` need before the renames. */
enum anyflash_status af_swap_prepare(const struct af_operation *operation,
                                     struct anyflash_error *err);

/* Moves old entries aside and new ones into place. Fails with IO, naming the entry. */
enum anyflash_status af_swap_forward(const struct af_operation *operation,
                                     struct anyflash_error *err);

/* Moves everything back, as if af_swap_forward() had never been called. */
enum anyflash_status af_swap_back(const struct af_operation *operation,
                                  struct anyflash_error *err);

/* Flushes the file system of `folder` to disk. */
void af_swap_flush(const char *folder);

/*
 * Removes a folder of ours and everything in it; its name must start with AF_OWN_PREFIX. A
 * missing folder counts as removed. False when something could not be removed.
 */
bool af_swap_remove(const char *root);

/*
 * Computes a digest of the entries as they are now: names, kinds, sizes, modification times,
 * link targets; without files that Python itself writes (__pycache__).
 */
enum anyflash_status af_swap_fingerprint(const struct af_operation *operation,
                                         struct af_arena *arena, const char **hex_out,
                                         struct anyflash_error *err);

/* Bytes on disk below `root`; files that cannot be read are not counted. */
uint64_t af_swap_bytes(const char *root, struct af_arena *arena);

#endif
