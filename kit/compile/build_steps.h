/*
 * build_steps.h: the steps of a build, and the helpers that they share. Private to
 * this room.
 */
#ifndef AF_KIT_COMPILE_BUILD_STEPS_H
#define AF_KIT_COMPILE_BUILD_STEPS_H

#include "kit/compile/build.h"

/*
 * A file of engine/cuda, with its path there, or of include/anyflash as "include/anyflash/...",
 * or "LICENSE"; embedded. The last has no name.
 */
struct af_build_glue {
    const char *name;
    const char *text;
};
extern const struct af_build_glue af_build_glue[];

/* place.c: approximate bytes on disk that an earlier build already occupies. */
int64_t af_build_kept_bytes(struct af_build *build, const struct af_build_place *place);

/* build_files.c */

/* Writes a small file atomically, unless it has this text already. */
enum anyflash_status af_build_write_file(struct af_arena *arena, const char *path,
                                         const char *text, int mode,
                                         struct anyflash_error *err);

/*
 * Runs a program that must succeed; argv is NULL-terminated. Its output is appended
 * to the log (NULL: nowhere). A failure names `what` and the cause that the program
 * printed.
 */
enum anyflash_status af_build_call(struct af_build *build, const char *log, const char *what,
                                   const char *const *argv, const char *const *environment,
                                   struct anyflash_error *err);

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

/* build_downloads.c */

/* The path of uv, from PATH or the cache; NULL if there is none. */
const char *af_build_uv(const struct af_build *build);

/*
 * Gets the toolkit of the package index, if the build uses it. *lock (-1 before) is shared
 * with other builds; the caller closes it when the build has ended.
 */
enum anyflash_status af_build_prepare_toolkit(struct af_build *build,
                                              const struct af_build_place *place, int *lock,
                                              struct anyflash_error *err);

/* Downloads the sources, checks their hash and unpacks what is needed. */
enum anyflash_status af_build_prepare_sources(struct af_build *build,
                                              const struct af_build_place *place,
                                              struct anyflash_error *err);

/* compile_jobs.c */

/* A file of flash-attn with its conditions on the GPU settled, in the arena. */
const char *af_build_settle(const struct af_selection *selection, const char *text,
                            struct af_arena *arena);

struct af_build_jobs {
    struct af_govern_job *rows;
    size_t count;
};

/* The options of both compilers that do not depend on the build, as one text. */
const char *af_build_flags(struct af_arena *arena);

/* The compiler calls of the build, the longest first. Writes nothing. */
enum anyflash_status af_build_list_jobs(struct af_build *build,
                                        const struct af_build_place *place,
                                        struct af_build_jobs *jobs_out,
                                        struct anyflash_error *err);

/* Writes what they compile: copies of flash-attn's files, and our glue. */
enum anyflash_status af_build_write_sources(struct af_build *build,
                                            const struct af_build_place *place,
                                            struct anyflash_error *err);

/* wheel.c */

/* Links and checks the library; *glibc_out: the glibc 2.x that it needs. */
enum anyflash_status af_build_link(struct af_build *build, const struct af_build_place *place,
                                   const struct af_build_jobs *jobs, int *glibc_out,
                                   struct anyflash_error *err);

/* Packs the library, our module and flash-attn's Python files. */
enum anyflash_status af_build_pack(struct af_build *build, const struct af_build_place *place,
                                   int glibc, const char **wheel_out,
                                   struct anyflash_error *err);

/* build.c */

/* The line that best explains why a compiler failed, from what it printed; or NULL. */
const char *af_build_first_error(struct af_arena *arena, const char *output);

#endif
