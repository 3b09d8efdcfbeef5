/*
 * operation.h: one operation from its first line in the journal to its last, its renames, and
 * its rollback when something fails. Everything can be called again after an interruption at
 * any point: where an entry is shows which renames were done. Private to this room.
 */
#ifndef AF_KIT_INSTALL_OPERATION_H
#define AF_KIT_INSTALL_OPERATION_H

#include "kit/install/install.h"

/*
 * Begins an operation: chooses names for fresh_root and aside_root, writes them
 * to the journal, then creates the folders. operation->title must be set.
 */
enum anyflash_status af_operation_begin(struct af_run *run, struct af_operation *operation,
                                        struct anyflash_error *err);

/*
 * Moves the entries: flushes files to disk, writes the journal, renames. Then `look` (may be
 * NULL) examines the result; unless it fails, the operation is committed.
 */
enum anyflash_status af_operation_move(struct af_run *run, struct af_operation *operation,
                                       enum anyflash_status (*look)(void *context,
                                                                    struct anyflash_error *err),
                                       void *context, struct anyflash_error *err);

/*
 * Ends an operation in any phase: before COMMITTED the old state is restored, from COMMITTED on
 * the new state is completed. Folders that are no longer needed are removed. Recovery calls
 * this, too.
 */
enum anyflash_status af_operation_end(struct af_state *state, struct af_operation *operation,
                                      struct anyflash_error *err);

/*
 * The same at the end of a run, which has its result already: if it fails, says that the next
 * run will finish it. Does nothing if `operation` was not begun.
 */
void af_operation_finish(struct af_run *run, struct af_operation *operation);

/*
 * In observed.c: ends an observed operation of a killed process in phase PREPARING: what its
 * command changed is recorded, as af_observed_end() would have done. Reports what became of it.
 */
enum anyflash_status af_observed_recover(struct af_state *state, struct af_operation *operation,
                                         struct af_arena *arena,
                                         const struct af_progress *progress,
                                         struct anyflash_error *err);

/*
 * Computes a digest of the entries as they are now: names, kinds, sizes, modification times,
 * link targets; without files that Python itself writes (__pycache__).
 */
enum anyflash_status af_operation_fingerprint(const struct af_operation *operation,
                                              struct af_arena *arena, const char **hex_out,
                                              struct anyflash_error *err);

/*
 * In replaced_paths.c: finds the entries for the distributions that are unpacked in `fresh`, to
 * be installed in `site`. Files of the same distributions there are replaced, whatever their
 * version. Folders that other distributions share are split only as far as needed. A file in
 * the way that belongs to no package is moved aside with the rest, and `progress` reports it.
 *
 * Fails with UNSUPPORTED when something cannot be replaced safely (installed by conda or
 * setup.py, a file of another distribution is in the way), DATA, LIMIT or IO.
 */
enum anyflash_status af_replaced_paths_find(struct af_arena *arena, const char *site,
                                            const char *fresh,
                                            const struct af_progress *progress,
                                            struct af_entry **entries_out, size_t *count_out,
                                            struct anyflash_error *err);

#endif
