/*
 * swap.h: the renames of an operation, forward and back, and the folders they need.
 * Every function can be called again after it was interrupted anywhere: where an
 * entry is shows what was done. Private to operation.c and undo.c.
 */
#ifndef AF_KIT_INSTALL_SWAP_H
#define AF_KIT_INSTALL_SWAP_H

#include "kit/install/journal.h"

#define AF_OWN_PREFIX ".anyflash-"

/*
 * A name for a new folder of ours in `site`: SITE/.anyflash-<word>-<random>.
 * Nothing is made. NULL without memory.
 */
const char *af_swap_name(struct af_arena *arena, const char *site, const char *word);

/* Creates the folders that entries of `aside` and `site` need before the renames. */
enum anyflash_status af_swap_prepare(const struct af_operation *operation,
                                     struct anyflash_error *err);

/* Old entries aside, fresh ones in. Fails with IO, naming the entry. */
enum anyflash_status af_swap_forward(const struct af_operation *operation,
                                     struct anyflash_error *err);

/* Moves everything back, as if af_swap_forward() had never been called. */
enum anyflash_status af_swap_back(const struct af_operation *operation,
                                  struct anyflash_error *err);

/* Flushes the file system of `folder` to disk. */
void af_swap_flush(const char *folder);

/*
 * Removes a folder of ours and everything in it; its name must start with
 * AF_OWN_PREFIX. A missing folder counts as removed. False when something is left.
 */
bool af_swap_remove(const char *root);

/*
 * A digest of what the entries are now: names, kinds, sizes, times of change, link
 * texts; without what Python writes by itself (__pycache__).
 */
enum anyflash_status af_swap_fingerprint(const struct af_operation *operation,
                                         struct af_arena *arena, const char **hex_out,
                                         struct anyflash_error *err);

/* Bytes on disk below `root`; what cannot be read counts nothing. */
uint64_t af_swap_bytes(const char *root, struct af_arena *arena);

#endif
