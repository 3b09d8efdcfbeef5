/*
 * inspect_wheel.h: the part of inspect_target.h that is about wheels. Private to
 * inspect_target.c and inspect_wheel.c.
 */
#ifndef AF_KIT_PROOF_INSPECT_WHEEL_H
#define AF_KIT_PROOF_INSPECT_WHEEL_H

#include "kit/proof/inspect_target.h"

/* "x.so" and "libx.so.1.2", with or without folders. */
bool af_proof_path_is_shared_library(const char *path);

/* A new extension; NULL when there are too many or `path` is NULL. */
struct af_inspect_extension *af_inspect_target_add(struct af_inspect_target *target,
                                                   const char *path);

/*
 * What the bytes are instead of a wheel: "a web page ...", "a Git LFS pointer ...";
 * NULL: neither.
 */
const char *af_inspect_not_a_wheel(struct af_span start);

/* From the open archive: the extensions, and what the wheel says about itself. */
enum anyflash_status af_inspect_target_read_wheel(struct af_inspect_target *target,
                                                  struct af_arena *arena,
                                                  struct anyflash_error *err);

/*
 * Unpacks the libraries of the wheel that are not unpacked yet to a temporary
 * folder: all, or with `only_needed` those that another one needs by its
 * DT_NEEDED; nothing when there are none. Facts of all must be there then.
 */
enum anyflash_status af_inspect_target_unpack(struct af_inspect_target *target,
                                              bool only_needed, struct af_arena *arena,
                                              struct anyflash_error *err);

#endif
