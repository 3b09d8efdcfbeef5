/*
 * build.h: builds a wheel of flash-attn 2 from its published sources: all of it,
 * or the part that a model needs (plan/slim.h).
 *
 * Everything lies in a folder of the cache whose name is a hash of all that the
 * objects depend on: sources, Python, torch, toolkit, host compiler, targets and
 * macros; not which kernels are kept, so that a build that grows compiles only
 * what is new. An interrupted build goes on where it stopped. The compiler comes
 * from the system where that fits torch, else from the Python package index into
 * an environment of our own; the user's environment is only read.
 *
 * flash-attn's own setup.py runs, unchanged, under a driver (driver.py) that
 * narrows its list of sources. Its compilers are governed (govern/govern.h).
 */
#ifndef AF_KIT_BUILD_BUILD_H
#define AF_KIT_BUILD_BUILD_H

#include "kit/build/governor/govern.h"
#include "kit/build/offer/slim.h"
#include "kit/machine/machine.h"
#include "kit/system/progress.h"

enum af_build_toolkit {
    AF_BUILD_TOOLKIT_AUTO,   /* the system's where torch takes it, else the index's */
    AF_BUILD_TOOLKIT_SYSTEM, /* only the system's */
    AF_BUILD_TOOLKIT_INDEX   /* only the index's */
};

struct af_build {
    struct af_state *state; /* may be NULL: nothing is learned */
    const struct af_machine *machine;
    struct af_progress progress;
    struct af_arena *arena; /* for all results */
    struct af_slim slim;    /* with its targets */
    const char *version;    /* of flash-attn, as "2.8.3.post2" */
    enum af_build_toolkit toolkit;
    bool offline;          /* only what is kept already */
    uint64_t memory_bytes; /* 0: what the machine has */
    unsigned slots;        /* 0: as many as cores */
    void (*event)(void *context, const struct af_govern_event *event);
    void *context;
};

/* Where a build lies. */
struct af_build_place {
    const char *folder;      /* of this build */
    const char *sources;     /* unpacked */
    const char *environment; /* shared by builds of one Python and one toolkit */
    const char *python;      /* its interpreter */
    const char *cuda_home;
    const char *cuda_version; /* of the toolkit, "13.0" */
    bool cuda_from_index;
    const char *temporary; /* for compilers; empty afterwards */
    const char *log;
    const char *output; /* folder of the wheels made */
};

/* The folder that holds all builds, below the cache folder; NULL without one. */
const char *af_build_root(struct af_arena *arena);

/*
 * Chooses the toolkit and names the place; nothing is made. Fails with
 * UNSUPPORTED, naming the fact that is missing or does not fit.
 */
enum anyflash_status af_build_find_place(const struct af_build *build,
                                         struct af_build_place *place_out,
                                         struct anyflash_error *err);

/* What it will take, as far as is known before it starts. */
struct af_build_estimate {
    size_t call_count; /* of compilers, without what an earlier build has finished */
    size_t done_count;
    double cpu_seconds;
    double wall_seconds; /* 0: not even one compiler fits into the memory */
    uint64_t peak_bytes; /* of the largest single compiler */
};

/*
 * With `cores` compilers at a time within `memory_bytes`; build->state may be
 * NULL. Reads which objects are there; nothing is made.
 */
enum anyflash_status af_build_find_estimate(struct af_build *build,
                                            const struct af_build_place *place, int cores,
                                            uint64_t memory_bytes,
                                            struct af_build_estimate *estimate_out,
                                            struct anyflash_error *err);

/* What came of it. */
struct af_build_result {
    const char *wheel;  /* path; NULL when it failed */
    const char *reason; /* of a failure: the first error of a compiler, and where the log is */
    struct af_govern_result governed;
    double seconds;
};

/*
 * Makes the wheel. That flash-attn does not compile is an answer, in `reason`;
 * else fails as the world does: IO (also a full disk), NOT_FOUND, TIMEOUT, DATA
 * (a wrong hash), UNSUPPORTED, NO_MEMORY. What was compiled is kept in any case.
 */
enum anyflash_status af_build_run(struct af_build *build, const struct af_build_place *place,
                                  struct af_build_result *result_out,
                                  struct anyflash_error *err);

/* A kept build or environment, for --clean. */
struct af_build_kept {
    const char *path;
    const char *title; /* "flash-attn 2.8.3.post2, torch 2.11.0+cu130, Python 3.12" */
    uint64_t bytes;
};

/* All that is kept below af_build_root(). */
enum anyflash_status af_build_list(struct af_arena *arena, struct af_build_kept **rows_out,
                                   size_t *count_out, struct anyflash_error *err);

/* Removes one of them, unless a build works in it (IO). */
enum anyflash_status af_build_remove(const struct af_build_kept *kept,
                                     struct anyflash_error *err);

#endif
