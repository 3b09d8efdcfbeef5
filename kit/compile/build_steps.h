/*
 * build_steps.h: the steps of a build, and the helpers that they share. Private to
 * this room.
 */
#ifndef AF_KIT_COMPILE_BUILD_STEPS_H
#define AF_KIT_COMPILE_BUILD_STEPS_H

#include "kit/compile/build.h"

/* driver.py, unpack.py and cuda_home.py, embedded. */
extern const char af_build_driver_py[];
extern const char af_build_unpack_py[];
extern const char af_build_cuda_home_py[];

/* build_files.c */

/* Writes a small file atomically, unless it has this text already. */
enum anyflash_status af_build_write_file(struct af_arena *arena, const char *path,
                                         const char *text, int mode,
                                         struct anyflash_error *err);

/*
 * Runs a program that must succeed; argv is NULL-terminated. Its output is appended
 * to the log (NULL: nowhere) and, unless NULL, returned in *output_out. A failure
 * names `what` and the cause that the program printed.
 */
enum anyflash_status af_build_call(struct af_build *build, const char *log, const char *what,
                                   const char *const *argv, const char *const *environment,
                                   struct af_span *output_out, struct anyflash_error *err);

enum af_build_lock_mode {
    AF_BUILD_SHARED, /* held by users of the folder */
    AF_BUILD_ALONE   /* held by the process that makes or removes it */
};

/*
 * Locks a folder of the cache, which need not exist. Waits for other builds, with a
 * message; fails with TIMEOUT if it is interrupted meanwhile, IO or NO_MEMORY. *fd is
 * -1 or a lock on the same folder, whose mode is changed; the caller closes it in any
 * case.
 */
enum anyflash_status af_build_lock(struct af_build *build, const char *folder,
                                   enum af_build_lock_mode mode, int *fd,
                                   struct anyflash_error *err);

/*
 * Takes this lock file exclusively; false if another process holds it. *fd_out
 * is -1 if the lock file cannot be made, which does not prevent the removal of
 * the folder.
 */
bool af_build_try_lock(const char *path, int *fd_out);

/* build_environment.c */

/* The path of uv, from PATH or the build's environment; NULL if there is none. */
const char *af_build_uv(const struct af_build *build, const struct af_build_place *place);

/*
 * Makes the build's environment with its tools and the toolkit. *lock (-1
 * before) is shared with other builds; the caller closes it when the build has
 * ended.
 */
enum anyflash_status af_build_prepare_environment(struct af_build *build,
                                                  const struct af_build_place *place, int *lock,
                                                  struct anyflash_error *err);

/* sources.c: downloads the sources, checks their hash and unpacks them. */
enum anyflash_status af_build_prepare_sources(struct af_build *build,
                                              const struct af_build_place *place,
                                              struct anyflash_error *err);

/* selection.c */

/* Writes the driver, its selection and the compiler wrappers into the place. */
enum anyflash_status af_build_write_selection(struct af_build *build,
                                              const struct af_build_place *place,
                                              struct anyflash_error *err);

/* The local part of the wheel's version: torch, CUDA, ABI, and what it contains. */
const char *af_build_local_version(const struct af_build *build);

/* Predicts a compiler call for the governor; context: struct af_build. */
void af_build_predict(void *context, const char *const *argv, struct af_prediction *out);

/* place.c */

/* The entry of the objects' folder that starts with `start` ("lib."); NULL: none. */
const char *af_build_find_objects(const struct af_build *build,
                                  const struct af_build_place *place, const char *start);

/* The folder "temp.linux-x86_64-cpython-312/csrc/flash_attn"; NULL if there is none. */
const char *af_build_object_folder(const struct af_build *build,
                                   const struct af_build_place *place);

/*
 * Removes what setup.py copied and linked before, because setup.py assumes that
 * an existing copy is complete.
 */
enum anyflash_status af_build_drop_copies(struct af_build *build,
                                          const struct af_build_place *place,
                                          struct anyflash_error *err);

/* build_failure.c */

/*
 * The line of the log that best explains why the build failed: of the first command
 * that failed, from its last attempt. Scrubbed; NULL if there is none.
 */
const char *af_build_first_error(struct af_arena *arena, const char *log);

/* Whether so little is free on the disk of the place that nothing can continue. */
bool af_build_disk_is_full(const struct af_build_place *place);

/* Approximate bytes on disk that an earlier build already occupies. */
int64_t af_build_kept_bytes(struct af_build *build, const struct af_build_place *place);

/*
 * If a build failed because a disk is full (`was_full`: observed; else judged
 * by the error text `said`), a sentence that says how much is needed and how
 * much is free. NULL: that was not the cause, or memory ran out.
 */
const char *af_build_disk_reason(struct af_build *build, const struct af_build_place *place,
                                 bool was_full, const char *said);

#endif
