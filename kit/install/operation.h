/*
 * operation.h: one operation from its first line in the journal to its last,
 * and back when something fails. Private to this module.
 */
#ifndef AF_KIT_INSTALL_OPERATION_H
#define AF_KIT_INSTALL_OPERATION_H

#include "kit/install/install.h"

/*
 * Begins an installation: names for fresh_root and aside_root are chosen,
 * written to the journal, then the folders are made. operation->title is set.
 */
enum anyflash_status af_operation_begin(struct af_run *run, struct af_operation *operation,
                                        struct anyflash_error *err);

/*
 * Moves the entries: on disk, journal, renames. Then `look` (may be NULL)
 * examines the result, and unless it fails the operation is committed.
 */
enum anyflash_status af_operation_move(struct af_run *run, struct af_operation *operation,
                                       enum anyflash_status (*look)(void *context,
                                                                    struct anyflash_error *err),
                                       void *context, struct anyflash_error *err);

/*
 * Ends an operation in whatever phase it is: before COMMITTED all is as it was
 * before, from there on all is as it shall be. Folders that are not needed are
 * removed. Also what recovery does.
 */
enum anyflash_status af_operation_end(struct af_state *state, struct af_operation *operation,
                                      struct anyflash_error *err);

#endif
