/*
 * govern.h: runs the compilers of a build and repeats them, according to the memory
 * they need.
 *
 * All calls are known before the start. The caller predicts what each needs; a call that
 * took more raises the predictions of its kind, also of calls that already wait.
 *
 *   who may start, what an end means          compiler_state.c
 *   what is repeated after a failure, stalls  jobs.c
 *
 * Nothing outlives this process, however it ends: a second process watches it and
 * kills every process that a compiler started.
 */
#ifndef AF_KIT_COMPILE_GOVERNOR_GOVERN_H
#define AF_KIT_COMPILE_GOVERNOR_GOVERN_H

#include "engine/base/base.h"
#include "engine/base/mem.h"

#define AF_GOVERN_KEY_BYTES 128
#define AF_GOVERN_FILE_BYTES 128
#define AF_GOVERN_TAIL_BYTES 16
#define AF_GOVERN_REASON_BYTES 400
#define AF_GOVERN_JOBS_MAX 512  /* calls that may run at a time */
#define AF_GOVERN_NEW ".new"    /* the end of an object's name while it is written */
#define AF_GOVERN_OUTPUT ".out" /* of the file with what its compiler printed */

/* What the caller predicts for a compiler call. */
struct af_prediction {
    char key[AF_GOVERN_KEY_BYTES];   /* kind of file: calls with one key need the same */
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

/* A compiler call. */
struct af_govern_job {
    const char *const *argv; /* writes to `object` + AF_GOVERN_NEW; NULL-terminated */
    const char *object;      /* renamed to this when the compiler has succeeded */
    struct af_prediction prediction;
};

enum af_job_state { AF_JOB_WAITING, AF_JOB_RUNNING, AF_JOB_ENDED };

enum af_admit_why {
    AF_ADMIT_NOW,        /* one may start */
    AF_ADMIT_NOTHING,    /* none waits */
    AF_ADMIT_SLOTS,      /* as many as allowed are running */
    AF_ADMIT_MEMORY,     /* none fits beside the running ones */
    AF_ADMIT_ALONE_RUNS, /* a compiler runs that must be alone */
    AF_ADMIT_FOR_ALONE   /* the next must be alone, and others still run */
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
    enum af_job_state state; /* waiting or running */
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
    uint64_t used_bytes;   /* by all compilers now */
    uint64_t budget_bytes; /* for all of them now */
};

struct af_govern_options {
    const struct af_govern_job *jobs;
    size_t job_count;
    const char *const *environment; /* "NAME=value" added to ours; NULL-terminated, or NULL */
    int output;                     /* descriptor of the log */
    uint64_t memory_bytes;          /* for the whole build; 0: what the machine has */
    unsigned slots;                 /* compilers at a time; 0: one per free core */
    unsigned cores;                 /* that we may use; 0: by the affinity mask */
    double hang_seconds;            /* without processor time until it is stopped; 0: 600 */
    double stall_seconds;           /* of a stall until one is stopped; 0: 15 */
    const char *root;               /* prefix of /proc and /sys; NULL: none (tests) */
    void (*event)(void *context, const struct af_govern_event *event); /* or NULL */
    void *event_context;
};

/* Seconds of a monotonic clock. */
double af_govern_now(void);

struct af_govern_result {
    int interrupted;                     /* the signal that ended everything, or 0 */
    size_t ended_count;                  /* compilers that succeeded */
    size_t failed_count;                 /* that reported an error, or failed too often */
    size_t killed_count;                 /* kills for lack of memory */
    size_t crashed_count;                /* ends by other signals, and hangs */
    const struct af_govern_job *failed;  /* the first that failed; its output file is kept */
    char reason[AF_GOVERN_REASON_BYTES]; /* why, if its output does not say so; else "" */
};

/*
 * Where no control group can limit this build's memory but systemd can, starts this program
 * again with the same arguments in a systemd scope and does not return. Call it before
 * anything is opened. Returns at once in the scope.
 */
void af_govern_enter_scope(uint64_t memory_bytes, const char *root);

/*
 * Runs the calls until all have succeeded, or one has failed and those that run have
 * ended. SIGINT, SIGTERM and SIGHUP end everything; result_out->interrupted is the signal.
 * Fails with IO or NO_MEMORY if it cannot start. Not thread-safe: it takes over the signals
 * and children of the process.
 */
enum anyflash_status af_govern_run(const struct af_govern_options *options,
                                   struct af_govern_result *result_out,
                                   struct anyflash_error *err);

#endif
