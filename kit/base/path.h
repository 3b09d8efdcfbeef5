/*
 * path.h: POSIX paths as text.
 */
#ifndef AF_KIT_BASE_PATH_H
#define AF_KIT_BASE_PATH_H

#include "engine/base/mem.h"

/* Returns folder + "/" + name, without a doubled slash. */
const char *af_path_join(struct af_arena *arena, const char *folder, const char *name);

/* The folder part of `path`: "/a" for "/a/b", "/" for "/a", "." for "a". */
const char *af_path_folder(struct af_arena *arena, const char *path);

/* The part after the last slash; points into `path`. */
const char *af_path_name(const char *path);

#endif
