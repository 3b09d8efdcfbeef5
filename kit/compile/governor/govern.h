/*
 * govern.h: runs a build and starts, pauses and repeats its compilers according
 * to the memory they need.
 *
 * The build program (ninja under setup.py) starts as many commands as it likes; in
 * each the compiler is replaced by a wrapper (compiler_wrapper.h) that waits here
 * until it may start. The caller predicts what a file needs; what such files really
 * took is kept in the state database and corrects the prediction, also for files
 * that already wait.
 *
 *   who may start                             admission.h
 *   pausing compilers whose peaks overlap     deadlock.h
 *   what is repeated after a failure          compiler_state.h, jobs.c
 *   stalls and hangs                          watch.c
 *
 * Nothing outlives this process, however it ends: the build dies with it, wrappers
 * notice its end and kill their compilers, and orphans become its children.
 */
#ifndef AF_KIT_COMPILE_GOVERNOR_GOVERN_H
#define AF_KIT_COMPILE_GOVERNOR_GOVERN_H

#include "engine/base/base.h"
#include "engine/base/mem.h"
#include "kit/compile/governor/admission.h"
#include "kit/system/state.h"

#define AF_GOVERN_KEY_BYTES 128
#define AF_GOVERN_FILE_BYTES 128
#define AF_GOVERN_TAIL_BYTES 16
#define AF_GOVERN_JOBS_MAX AF_ADMIT_JOBS_MAX

/* What the caller predicts for a compiler call. */
struct af_prediction {
    char key[AF_GOVERN_KEY_BYTES];   /* kind of file: calls with one key cost the same */
    char file[AF_GOVERN_FILE_BYTES]; /* the source file, as shown to people */
    uint64_t bytes;                  /* peak */
    double seconds;
    bool rises; /* memory grows to the peak during most of its time, not at once */
    /*
     * Memory it needs after the peak; 0: not known. The peak is over once a program
     * named `tail` runs ("": there is none) or, if `rises`, once the memory has fallen
     * by half.
     */
    char tail[AF_GOVERN_TAIL_BYTES];
    uint64_t tail_bytes;
};

enum af_govern_event_kind {
    AF_GOVERN_STARTED,
    AF_GOVERN_ENDED,   /* successfully */
    AF_GOVERN_FAILED,  /* the compiler reported an error */
    AF_GOVERN_KILLED,  /* for lack of memory; it will be repeated */
    AF_GOVERN_STALLED, /* stopped so that the others make progress; it will be repeated */
    AF_GOVERN_CRASHED, /* ended by a signal that we did not send; it will be repeated */
    AF_GOVERN_HUNG,    /* stopped, no processor time for long; it will be repeated */
    AF_GOVERN_REMARK,  /* a message */
    AF_GOVERN_TICK     /* about every second */
};

struct af_govern_row {
    const struct af_prediction *prediction;
    enum af_admit_state state;
    uint64_t resident_bytes;
    double elapsed;     /* seconds since it started */
    double cpu_seconds; /* used since then */
};

struct af_govern_event {
    enum af_govern_event_kind kind;
    const struct af_prediction *file; /* NULL for REMARK and TICK */
    const char *remark;               /* REMARK only, else NULL */
    uint64_t peak_bytes;              /* of a compiler that ended: its largest process */
    double seconds;                   /* the same: since it started */
    double cpu_seconds;               /* the same: processor time */
    /* The state after the event: */
    const struct af_govern_row *rows;
    size_t row_count;
    size_t ended_count;
    enum af_admit_why why; /* why the others wait */
    const struct af_prediction *first;
    uint64_t used_bytes;   /* by all compilers now */
    uint64_t budget_bytes; /* for all of them now */
};

struct af_govern_options {
    const char *const *argv;        /* of the build; NULL-terminated */
    const char *folder;             /* where it runs; NULL: the current one */
    const char *const *environment; /* "NAME=value" added to ours; NULL-terminated, or NULL */
    int output;                     /* descriptor for its stdout and stderr */
    uint64_t memory_bytes;          /* for the whole build; 0: what the machine has */
    unsigned slots;                 /* compilers that work at a time; 0: one per free core */
    unsigned cores;                 /* that we may use; 0: by the affinity mask */
    double hang_seconds;            /* without processor time until it is stopped; 0: 600 */
    double stall_seconds;           /* of a stall until one is stopped; 0: 15 */
    const char *root;               /* prefix of /proc and /sys; NULL: none (tests) */
    void (*predict)(void *context, const char *const *argv, struct af_prediction *out);
    void *context;
    void (*event)(void *context, const struct af_govern_event *event); /* or NULL */
    void *event_context;
};

/* Seconds of a monotonic clock. */
double af_govern_now(void);

struct af_govern_result {
    int exit_code;        /* of the build; 128 + N after signal N */
    int interrupted;      /* the signal that ended everything, or 0 */
    size_t ended_count;   /* compilers that succeeded */
    size_t failed_count;  /* that reported an error */
    size_t killed_count;  /* kills for lack of memory */
    size_t crashed_count; /* ends by other signals, and hangs */
};

/*
 * Runs the build to its end. `state` may be NULL (no costs are stored). SIGINT,
 * SIGTERM and SIGHUP end everything; result_out->interrupted is the signal.
 * Fails with IO or NO_MEMORY if the build cannot be started. Not thread-safe:
 * it takes over the signals and children of the process.
 */
enum anyflash_status af_govern_run(const struct af_govern_options *options,
                                   struct af_state *state, struct af_govern_result *result_out,
                                   struct anyflash_error *err);

#endif
