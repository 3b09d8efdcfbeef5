/*
 * parts.h: the steps of a build. Private to this module.
 */
#ifndef AF_KIT_BUILD_PARTS_H
#define AF_KIT_BUILD_PARTS_H

#include "kit/build/build.h"

/* Texts of the module's Python files, embedded. */
extern const char af_build_driver_py[];
extern const char af_build_unpack_py[];

/* Writes a small file whole or not at all, unless it has this text already. */
enum anyflash_status af_build_write_file(struct af_arena *arena, const char *path,
                                         const char *text, int mode,
                                         struct anyflash_error *err);

/* Removes a folder and all in it; links are removed, not followed. */
enum anyflash_status af_build_remove_folder(const char *path, struct anyflash_error *err);

/*
 * Runs a program that must succeed, its words ended by NULL. What it said goes
 * to the end of the log (NULL: nowhere). A failure names `what` and
 * what the program said of its cause. *output_out (may be NULL) is what it printed.
 */
enum anyflash_status af_build_call(struct af_build *build, const char *log, const char *what,
                                   const char *const *argv, const char *const *environment,
                                   struct af_span *output_out, struct anyflash_error *err);

/*
 * The line of the log that tells best why the build failed: of the first command
 * that did, what its last attempt said. Scrubbed; NULL without one.
 */
const char *af_build_first_error(struct af_arena *arena, const char *log);

/* Bytes free on the disk of the place; UINT64_MAX when that cannot be known. */
uint64_t af_build_disk_free(const struct af_build_place *place);

/* Whether so little is free that nothing can go on. */
bool af_build_disk_is_full(const struct af_build_place *place);

/* What of the disk's need an earlier build has taken already, about. */
int64_t af_build_kept_bytes(struct af_build *build, const struct af_build_place *place);

/*
 * Of a build that ended with the words `said`: where the disk was full (as it
 * was seen, or as they tell), a sentence that says so, what is needed and what
 * is free. NULL: that was not it, or memory fails.
 */
const char *af_build_disk_reason(struct af_build *build, const struct af_build_place *place,
                                 bool was_full, const char *said);

/* The objects' folder "temp.linux-x86_64-cpython-312/csrc/flash_attn"; NULL without one. */
const char *af_build_object_folder(const struct af_build *build,
                                   const struct af_build_place *place);

/* uv, as a path, from PATH or the environment of our own; NULL: there is none. */
const char *af_build_uv(const struct af_build *build, const struct af_build_place *place);

enum af_build_lock_mode {
    AF_BUILD_SHARED, /* by those who use the folder */
    AF_BUILD_ALONE   /* by the one who makes or removes it */
};

/*
 * Locks a kept folder, which need not be there. Waits for others, and says so;
 * fails with TIMEOUT when it is interrupted meanwhile, IO or NO_MEMORY. *fd is -1
 * or a lock on the same folder, which is changed; in any case closed by the caller.
 */
enum anyflash_status af_build_lock(struct af_build *build, const char *folder,
                                   enum af_build_lock_mode hold, int *fd,
                                   struct anyflash_error *err);

/*
 * Takes this lock file alone unless another one holds it (false). *fd_out is -1
 * where none can be made, which keeps nobody from removing the folder.
 */
bool af_build_try_lock(const char *path, int *fd_out);

/*
 * The build's environment, its tools and the toolkit (environment.c). *lock (-1
 * before) is closed by the caller when the build has ended: builds share it.
 */
enum anyflash_status af_build_prepare_environment(struct af_build *build,
                                                  const struct af_build_place *place, int *lock,
                                                  struct anyflash_error *err);

/* The sources, hashed and unpacked (sources.c). */
enum anyflash_status af_build_prepare_sources(struct af_build *build,
                                              const struct af_build_place *place,
                                              struct anyflash_error *err);

/* What the driver and the compilers are told, as files in the place (selection.c). */
enum anyflash_status af_build_write_selection(struct af_build *build,
                                              const struct af_build_place *place,
                                              struct anyflash_error *err);

/* The local part of the wheel's version: torch, CUDA, ABI, and what is in it. */
const char *af_build_local_version(const struct af_build *build);

/* A compiler call of this build as the governor sees it; context: struct af_build. */
void af_build_predict(void *context, const char *const *argv, struct af_prediction *out);

/*
 * Removes what setup.py copied and linked before: of a copy that was cut short it
 * would believe that it is there.
 */
enum anyflash_status af_build_drop_copies(struct af_build *build,
                                          const struct af_build_place *place,
                                          struct anyflash_error *err);

/* The wheel that setup.py left, with the platform tag that its bytes need (wheel.c). */
enum anyflash_status af_build_take_wheel(struct af_build *build,
                                         const struct af_build_place *place,
                                         const char **wheel_out, struct anyflash_error *err);

#endif
