/*
 * build_steps.h: the steps of a build, and the helpers that they share. Private to
 * this room.
 */
#ifndef AF_KIT_COMPILE_BUILD_STEPS_H
#define AF_KIT_COMPILE_BUILD_STEPS_H

#include "kit/compile/build.h"

/*
 * The scripts and the files that they need, by their paths in the sources of this program;
 * embedded. The last has no name.
 */
struct af_build_file {
    const char *name;
    const char *bytes;
    size_t size;
};
extern const struct af_build_file af_build_files[];

/* libanyflash_cuda of this build; its size is 0 where there is none (macOS). */
extern const struct af_build_file af_build_library;

/* What is installed from the package index where torch brings no NVRTC; else CCCL alone. */
#define AF_BUILD_NVRTC "nvidia-cuda-nvrtc==13.0.88"
#define AF_BUILD_RUNTIME "nvidia-cuda-runtime==13.0.96" /* headers of it and of the next */
#define AF_BUILD_CCCL "nvidia-cuda-cccl-cu12==12.9.27"  /* serves NVRTC 12.1 to 13 */

/* build_files.c */

/* Writes a file atomically, unless it has these bytes, and nobody else may write it. */
enum anyflash_status af_build_write_file(struct af_arena *arena, const char *path,
                                         struct af_span bytes, struct anyflash_error *err);

/*
 * Runs a program that must succeed; argv is NULL-terminated. Its output is appended to the
 * log (NULL: nowhere); *output_out (NULL: not wanted) is what it wrote to stdout. A failure
 * names `what` and the cause that the program printed.
 */
enum anyflash_status af_build_call(struct af_build *build, const char *log, const char *what,
                                   const char *const *argv, struct af_span *output_out,
                                   struct anyflash_error *err);

enum af_build_lock_mode {
    AF_BUILD_SHARED, /* held by users of the folder */
    AF_BUILD_ALONE   /* held by the process that makes or removes it */
};

/*
 * Locks a folder of the cache, which need not exist. Waits for other builds, with a
 * message; fails with TIMEOUT if it is interrupted meanwhile, or IO. *fd is
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

/* build_tools.c */

/* The path of uv, from PATH or the cache; NULL if there is none. */
const char *af_build_uv(const struct af_build *build);

/* The same; installs uv into the cache if there is none. */
enum anyflash_status af_build_prepare_uv(struct af_build *build,
                                         const struct af_build_place *place,
                                         const char **uv_out, struct anyflash_error *err);

/*
 * Gets NVRTC and NVIDIA's headers of the package index, or CCCL's headers alone; *folder_out
 * has them as site-packages has. *lock (-1 before) is shared with other builds; the caller
 * closes it when the build has ended.
 */
enum anyflash_status af_build_prepare_nvrtc(struct af_build *build,
                                            const struct af_build_place *place, bool only_cccl,
                                            int *lock, const char **folder_out,
                                            struct anyflash_error *err);

/* build_downloads.c */

/* Gets the pack that the user named: *path_out is a file. */
enum anyflash_status af_build_prepare_pack(struct af_build *build,
                                           const struct af_build_place *place,
                                           const char **path_out, struct anyflash_error *err);

/* Downloads the sources, checks their hash and unpacks what is needed. */
enum anyflash_status af_build_prepare_sources(struct af_build *build,
                                              const struct af_build_place *place,
                                              struct anyflash_error *err);

#endif
