/*
 * engine_build.h: the functions of a build of libanyflash that are timed: of the one
 * that this program is linked with, or of another one, loaded beside it.
 */
#ifndef AF_BENCH_ENGINE_BUILD_H
#define AF_BENCH_ENGINE_BUILD_H

#include "anyflash/anyflash.h"

struct af_bench_build {
    enum anyflash_status (*context_new)(const struct anyflash_context_args *,
                                        struct anyflash_context **, struct anyflash_error *);
    void (*context_free)(struct anyflash_context *);
    enum anyflash_status (*attend)(struct anyflash_context *,
                                   const struct anyflash_attend_args *,
                                   struct anyflash_error *);
    enum anyflash_status (*attend_backward)(struct anyflash_context *,
                                            const struct anyflash_attend_backward_args *,
                                            struct anyflash_error *);
};

extern const struct af_bench_build af_bench_own_build;

/*
 * Loads the library at `path`, which stays loaded until the process ends. Fails with
 * NOT_FOUND if it cannot be loaded, and with DATA if it lacks a function.
 */
enum anyflash_status af_bench_build_load(const char *path, struct af_bench_build *build_out,
                                         struct anyflash_error *err);

#endif
