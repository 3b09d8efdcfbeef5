/*
 * build.h: builds a wheel of flash-attn 2 from its published sources: all of
 * it, or the part that a model needs (offer/kernel_selection.h).
 *
 * The kernels need nothing of torch. They are compiled with our own glue (engine/cuda)
 * into one library with a C interface, and the wheel's module calls it through Python's
 * ctypes. So one wheel works with every torch and every Python.
 *
 * A build has a folder in the cache. Its name is a hash of everything that objects depend
 * on: sources, glue, toolkit, host compiler, options, targets and macros. It does not
 * depend on which kernels are selected, so adding kernels compiles only the new ones, and
 * an interrupted build continues where it stopped. The CUDA compiler comes from the system
 * if the driver runs what it makes; else it is installed from PyPI into the cache. The
 * user's environment is only read.
 *
 * Compilers run under the governor (governor/govern.h).
 */
#ifndef AF_KIT_COMPILE_BUILD_H
#define AF_KIT_COMPILE_BUILD_H

#include "kit/compile/governor/govern.h"
#include "kit/compile/offer/kernel_selection.h"
#include "kit/fit/fit.h"
#include "kit/machine/machine.h"
#include "kit/system/progress.h"

struct af_build {
    const struct af_machine *machine;
    struct af_progress progress;
    struct af_arena *arena;           /* for all results */
    struct af_selection selection;    /* what is built, with its targets */
    const char *version;              /* of flash-attn, such as "2.8.3.post2" */
    enum af_fit_toolkit_from toolkit; /* where the CUDA toolkit may come from */
    bool offline;                     /* use only what is in the cache */
    uint64_t memory_bytes;            /* 0: the machine's memory */
    unsigned slots;                   /* compilers at a time; 0: one per core */
    void (*event)(void *context, const struct af_govern_event *event);
    void *context;
};

/* The folders and files of a build. */
struct af_build_place {
    const char *folder;  /* of this build; all others but `tools` are in it */
    const char *sources; /* unpacked */
    const char *glue;    /* ours */
    const char *objects;
    const char *library;   /* that is linked from them */
    const char *temporary; /* for compilers; removed afterwards */
    const char *log;
    const char *output; /* folder of the finished wheels */
    const char *tools;  /* the package index's toolkit, shared by builds; NULL: not used */
    const char *host;   /* the C++ compiler */
    const char *nvcc;
    const char *cuda_home;
    const char *cuda_version; /* of the toolkit, "13.0" */
    bool cuda_from_index;
};

/* The folder of all builds, in the cache folder; NULL without a home folder. */
const char *af_build_root(struct af_arena *arena);

/*
 * Chooses the toolkit and names the place; writes nothing. Fails with UNSUPPORTED, saying
 * what is missing.
 */
enum anyflash_status af_build_find_place(const struct af_build *build,
                                         struct af_build_place *place_out,
                                         struct anyflash_error *err);

/* The cost of a build, as far as it is known before the start. */
struct af_build_estimate {
    size_t call_count; /* compiler calls that are still needed */
    size_t done_count; /* that an earlier build has finished */
    double cpu_seconds;
    double wall_seconds; /* 0: not even one compiler fits into the memory */
    uint64_t peak_bytes; /* of the largest single compiler */
};

/*
 * Estimates the rest of a build that runs at most `cores` compilers at a time and uses at most
 * `memory_bytes`. Objects that are finished do not count: their files are looked up.
 */
enum anyflash_status af_build_find_estimate(struct af_build *build,
                                            const struct af_build_place *place, int cores,
                                            uint64_t memory_bytes,
                                            struct af_build_estimate *estimate_out,
                                            struct anyflash_error *err);

/*
 * Predicts when a running build ends. The remaining work is the predicted work,
 * scaled by how the files so far differed from their predictions. It
 * continues at the compilers' pace so far, which is lower when other programs
 * use the cores. Zero-initialised.
 */
struct af_build_end_time {
    double predicted; /* CPU seconds predicted for the finished files */
    double worked;    /* CPU seconds that they took */
    double elapsed;   /* seconds that they ran */
};

/* Adds a file that was compiled successfully. */
void af_build_end_time_add(struct af_build_end_time *end_time,
                           const struct af_govern_event *event);

/* Seconds until the end, with the jobs of `event` and as many at a time as now. */
double af_build_end_time_left(const struct af_build_end_time *end_time,
                              const struct af_govern_event *event);

#define AF_BUILD_CHECKS_MAX 32

/* Whether a build can start here. */
struct af_build_check {
    struct af_prerequisite rows[AF_BUILD_CHECKS_MAX];
    size_t row_count;
    size_t missing_count; /* rows with the answer "no" */
    bool can_start;       /* missing_count is 0 */
    /* The first "no" that makes a build impossible: not memory, temporary-folder, torch. */
    const struct af_prerequisite *obstacle;
};

/* The needs of the selection, for the rows on memory and disk; 0: those of a slim build. */
struct af_build_resources {
    int64_t peak_bytes;
    int64_t disk_bytes;
};

/*
 * Checks the prerequisites (kit/fit/rung.h), and what can only be found out
 * on this machine: whether programs run, and what is in the cache. A program
 * that does not respond is a "no". Targets of the selection replace the
 * machine's GPUs. Changes nothing. Texts are in build->arena. Fails with
 * NO_MEMORY or INTERNAL.
 */
enum anyflash_status af_build_check(struct af_build *build, struct af_build_resources resources,
                                    struct af_build_check *check_out,
                                    struct anyflash_error *err);

struct af_build_result {
    const char *wheel;  /* path; NULL if it failed */
    const char *reason; /* why it failed: the first compiler error */
    struct af_govern_result governed;
    double seconds;
};

/*
 * Builds the wheel. If flash-attn does not compile, that is a result with a reason.
 * Fails with IO (also if the disk is full), NOT_FOUND, TIMEOUT, DATA (a wrong hash),
 * UNSUPPORTED or NO_MEMORY. Compiled objects are kept in any case.
 */
enum anyflash_status af_build_run(struct af_build *build, const struct af_build_place *place,
                                  struct af_build_result *result_out,
                                  struct anyflash_error *err);

/* A build or the tools of builds in the cache. */
struct af_build_kept {
    const char *path;
    const char *title; /* "flash-attn 2.8.3.post2, CUDA 13.0, SM 9.0" */
    uint64_t bytes;
};

/* Lists everything below af_build_root(). */
enum anyflash_status af_build_list(struct af_arena *arena, struct af_build_kept **rows_out,
                                   size_t *count_out, struct anyflash_error *err);

/* Removes one of them, unless a build is using it (IO). */
enum anyflash_status af_build_remove(const struct af_build_kept *kept,
                                     struct anyflash_error *err);

#endif
