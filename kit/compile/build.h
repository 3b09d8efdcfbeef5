/*
 * build.h: makes a wheel of flash-attn 2 for every torch, Python and GPU: flash-attn's own
 * Python files, libanyflash_cuda in the place of its extension, and the kernels as PTX. The
 * kernels come from a pack that `make kernels` made, or are compiled here, all of them or the
 * part that a model needs (offer/kernel_selection.h).
 *
 * Scripts that this program carries do it, in the environment's own Python, because a program
 * that is linked statically cannot load NVRTC: packaging/kernels/make_pack.py compiles
 * flash-attn's published sources with the NVRTC that torch brought along, or else one from the
 * package index; packaging/flash_attn_wheel.py packs. They keep PTX in the cache, so an
 * interrupted build goes on where it stopped, and one with more head sizes compiles only the
 * new kernels. The user's environment is only read.
 */
#ifndef AF_KIT_COMPILE_BUILD_H
#define AF_KIT_COMPILE_BUILD_H

#include "kit/compile/offer/kernel_selection.h"
#include "kit/fit/fit.h"
#include "kit/machine/machine.h"
#include "kit/system/progress.h"

struct af_build {
    const struct af_machine *machine;
    struct af_progress progress;
    struct af_arena *arena;        /* for all results */
    struct af_selection selection; /* what is compiled; not used with `pack` */
    const char *pack;              /* path or URL of a pack; NULL: compile */
    const char *version;           /* of flash-attn, such as "2.8.3.post2" */
    bool offline;                  /* use only what is in the cache */
    bool allow_http;               /* `pack` may be an http:// URL */
    unsigned jobs;                 /* compilers at a time; 0: what memory and cores allow */
};

/* The folders and files of a build. */
struct af_build_place {
    const char *folder;  /* of this build; all others but `tools` are in it */
    const char *scripts; /* with what they need, as in the sources of this program */
    const char *sources; /* of flash-attn, unpacked */
    const char *work;    /* PTX */
    const char *packs;
    const char *log;
    const char *output; /* folder of the finished wheels */
    const char *tools;  /* the package index's NVRTC, shared by builds; not in `folder` */
    const char *cccl;   /* its headers of CCCL alone, likewise */
};

/* The folder of all builds, in the cache folder; NULL without a home folder. */
const char *af_build_root(struct af_arena *arena);

/* Names the place; writes nothing. Fails with UNSUPPORTED or IO, saying what is wrong. */
enum anyflash_status af_build_find_place(const struct af_build *build,
                                         struct af_build_place *place_out,
                                         struct anyflash_error *err);

#define AF_BUILD_CHECKS_MAX 32

/* Whether a build can start here. */
struct af_build_check {
    struct af_prerequisite rows[AF_BUILD_CHECKS_MAX];
    size_t row_count;
    size_t missing_count;  /* rows with the answer "no", but GPU, driver and torch */
    bool can_start;        /* missing_count is 0 */
    int jobs;              /* compilers at a time that the memory allows; 0: unknown, or none */
    const char *arch_list; /* FLASH_ATTN_CUDA_ARCHS for `targets`, "80;90" */
    /* The first "no" that makes a build impossible, which memory is not. */
    const struct af_prerequisite *obstacle;
};

/*
 * Checks the prerequisites (kit/fit/rung.h), and what can only be found out on this machine:
 * whether programs run, and what is in the cache. A program that does not respond is a "no".
 * With `upstream`, those of flash-attn's own source build for the GPUs `targets`, 80, 90, ...;
 * none: the machine's. Changes nothing. Texts are in build->arena. Fails with INTERNAL.
 */
enum anyflash_status af_build_check(struct af_build *build, bool upstream, const int *targets,
                                    size_t target_count, struct af_build_check *check_out,
                                    struct anyflash_error *err);

struct af_build_result {
    const char *wheel;  /* path; NULL if it failed */
    const char *reason; /* why it failed */
    double seconds;
};

/*
 * Makes the wheel, with a line on stderr for each compiler that ends. If the kernels do not
 * compile, that is a result with a reason. Fails with IO (also if the disk is full), NOT_FOUND,
 * TIMEOUT, DATA (a wrong hash) or UNSUPPORTED. PTX is kept in any case.
 */
enum anyflash_status af_build_run(struct af_build *build, const struct af_build_place *place,
                                  struct af_build_result *result_out,
                                  struct anyflash_error *err);

/* A build or the tools of builds in the cache. */
struct af_build_kept {
    const char *path;
    const char *title; /* "flash-attn 2.8.3.post2" */
    uint64_t bytes;
};

/* Lists everything below af_build_root(). */
enum anyflash_status af_build_list(struct af_arena *arena, struct af_build_kept **rows_out,
                                   size_t *count_out, struct anyflash_error *err);

/* Removes one of them, unless a build is using it (IO). */
enum anyflash_status af_build_remove(const struct af_build_kept *kept,
                                     struct anyflash_error *err);

#endif
