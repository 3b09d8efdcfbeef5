/*
 * inspect_wheel.h: the part of inspect_target.h that handles wheels. Private to
 * inspect_target.c and inspect_wheel.c.
 */
#ifndef AF_KIT_PROOF_INSPECT_WHEEL_H
#define AF_KIT_PROOF_INSPECT_WHEEL_H

#include "kit/proof/inspect_target.h"

/*
 * Whether the path is named like a shared library: "x.so" or "libx.so.1.2", with or without
 * folders.
 */
bool af_proof_path_is_shared_library(const char *path);

/* Adds an extension to the target; NULL when there are too many or `path` is NULL. */
struct af_inspect_extension *af_inspect_target_add(struct af_inspect_target *target,
                                                   const char *path);

/* Reads the list of extensions and the wheel's metadata from the open archive. */
enum anyflash_status af_inspect_target_read_wheel(struct af_inspect_target *target,
                                                  struct af_arena *arena,
                                                  struct anyflash_error *err);

/*
 * Unpacks the libraries of the wheel that are not unpacked yet to a temporary folder. Does
 * nothing when there are none.
 */
enum anyflash_status af_inspect_target_unpack(struct af_inspect_target *target,
                                              struct af_arena *arena,
                                              struct anyflash_error *err);

#endif
