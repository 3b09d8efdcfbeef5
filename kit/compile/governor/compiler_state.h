/*
 * compiler_state.h: interprets predictions and measurements of a compiler: what
 * it will still need, whether compilers have stalled, and what an exit code
 * means. Pure.
 */
#ifndef AF_KIT_COMPILE_GOVERNOR_COMPILER_STATE_H
#define AF_KIT_COMPILE_GOVERNOR_COMPILER_STATE_H

#include <sys/types.h>

#include "kit/compile/governor/govern.h"

enum af_job_state { AF_JOB_WAITING, AF_JOB_RUNNING, AF_JOB_ENDED };

/* A compiler call, from the start of the build to its end. */
struct af_job {
    const struct af_govern_job *call;
    struct af_prediction prediction; /* corrected by what such calls took */
    enum af_job_state state;
    pid_t group;                /* the compiler, leader of its process group; 0: none */
    int output;                 /* its output while it runs */
    bool alone;                 /* must run alone: it ran out of memory before */
    bool stopped;               /* by us, because compilers stalled */
    bool in_tail;               /* past its peak: see struct af_prediction */
    bool hung;                  /* stopped by us, because it hung */
    bool remarked;              /* a message said that it waits for memory */
    bool warned;                /* a message said that it uses no processor time */
    unsigned memory_kill_count; /* times it was killed or stopped for lack of memory */
    unsigned crash_count;       /* times it crashed or hung */
    unsigned signalled_count;   /* times a signal from outside ended it */
    uint64_t kills_before;      /* the kernel's count of kills when it started */
    double started;             /* af_govern_now() */
    uint64_t resident_bytes;
    uint64_t resident_peak; /* since it started */
    double user_seconds;
    double cpu_seconds;
    double worked; /* when its processor time last increased */
};

/* Whether its peak is over: cicc frees its front end's memory before it continues. */
bool af_demand_has_fallen(const struct af_job *job);

/* Bytes to reserve for it from now on: its peak, or after the peak the rest of the run. */
uint64_t af_demand_bytes(const struct af_job *job);

/*
 * Stall: at the memory limit of a control group processes may neither progress
 * nor be killed, because the kernel keeps discarding pages of program code and
 * reading them again. The sign is little user time while the limit is hit
 * repeatedly.
 */
#define AF_STALL_SECONDS 15.0

struct af_stall {
    double limit_seconds; /* 0: AF_STALL_SECONDS */
    bool still;
    double since; /* when the stall began */
};

/* What was measured since the last sample. */
struct af_stall_sample {
    double now;          /* seconds of a monotonic clock */
    double interval;     /* since the last sample */
    double user_seconds; /* user time of all compilers in it */
    unsigned running;    /* compilers */
    bool at_limit;       /* hardly any memory is left, or the limit was hit */
};

/* True when the build has stalled for limit_seconds; the count then starts again. */
bool af_stall_check(struct af_stall *stall, const struct af_stall_sample *sample);

/*
 * How a compiler ended. A signal from outside (SIGKILL, SIGTERM, SIGINT,
 * SIGHUP) without lack of memory was sent on purpose and is not the file's
 * fault. Lack of memory shows in the kernel's own count of kills. systemd-oomd
 * and earlyoom kill without counting; then the evidence is that the compiler
 * used more than predicted while the limit was reached.
 */
enum af_end_cause {
    AF_END_SUCCESS,
    AF_END_FAILED,    /* the compiler reported an error */
    AF_END_MEMORY,    /* killed or stopped for lack of memory */
    AF_END_SIGNALLED, /* by a signal from outside */
    AF_END_CRASHED,   /* by a signal that it caused itself */
    AF_END_HUNG,      /* stopped, because it used no processor time */
    AF_END_CAUSES
};

struct af_end {
    int code;            /* as a shell reports it: 128 + N after signal N */
    bool stopped;        /* by us, because compilers stalled */
    bool hung;           /* stopped by us, because it hung */
    bool alone;          /* nothing ran beside it */
    bool kernel_killed;  /* the kernel killed something for memory while it ran */
    bool at_limit;       /* hardly any memory was left at the last sample */
    uint64_t need_bytes; /* predicted peak */
    uint64_t peak_bytes; /* measured peak */
};

enum af_end_cause af_end_cause(const struct af_end *end);

/* Whether the peak was clearly above the prediction. */
bool af_end_exceeds_prediction(uint64_t need_bytes, uint64_t peak_bytes);

/* How many times a file may end for this cause before it counts as failed; 0: at once. */
unsigned af_end_retry_limit(enum af_end_cause cause);

#endif
