/*
 * jobs.h: the governor's state: its compiler calls, and what they wait for or do; decisions
 * about them, their processes, and the build's control group. Private to this room.
 */
#ifndef AF_KIT_COMPILE_GOVERNOR_JOBS_H
#define AF_KIT_COMPILE_GOVERNOR_JOBS_H

#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "kit/compile/governor/govern.h"
#include "kit/compile/governor/headroom.h"

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

/* ---- compiler_state.c: arithmetic, without a look at the system ---- */

/* Whether its peak is over: cicc frees its front end's memory before it continues. */
bool af_demand_has_fallen(const struct af_job *job);

struct af_admit_answer {
    enum af_admit_why why;
    size_t job; /* NOW: which may start; else the first in line; NOTHING: SIZE_MAX */
};

/*
 * Which waiting compiler may start now: the longest that fits beside the running ones, because
 * long ones that start late leave cores idle at the end. A compiler counts with what it will
 * still need, or with what it uses if that is more; all together get `budget_bytes`. At most
 * `slots` run at a time, and at least one, however large, because otherwise the build could not
 * continue.
 */
struct af_admit_answer af_admit(const struct af_job *jobs, size_t count, uint64_t budget_bytes,
                                unsigned slots);

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

/* ---- build_cgroup.c ---- */

/* The control group of a build. Zero-initialised: the build has none. */
struct af_govern_build_cgroup {
    char folder[512];       /* of the group; "": none */
    bool limits;            /* memory is limited in it, or in the scope */
    bool scope;             /* this program runs in a scope of ours */
    int reason;             /* errno of the attempt to make a group; 0: no such file system */
    char scope_reason[200]; /* why there is no scope; "": not asked */
};

/*
 * Makes a control group with this limit (0: none), unless this program runs in a scope. If
 * the system does not allow it, the reason is set. Removes groups of earlier builds that
 * were killed. `root` is a prefix of /proc and /sys for tests; NULL elsewhere.
 */
void af_govern_build_cgroup_make(const char *root, uint64_t limit_bytes,
                                 struct af_govern_build_cgroup *cgroup_out);

/* The result as a sentence. */
void af_govern_build_cgroup_text(const struct af_govern_build_cgroup *cgroup,
                                 uint64_t limit_bytes, char *text, size_t text_bytes);

/* Moves the calling process into the group; safe after fork(). */
void af_govern_build_cgroup_enter(const struct af_govern_build_cgroup *cgroup);

/* Kills every process in the group and removes it. */
void af_govern_build_cgroup_remove(struct af_govern_build_cgroup *cgroup);

/* Writes to a file of /proc or /sys that exists; safe after fork(). */
bool af_govern_write(const char *path, const char *text);

/* ---- jobs.c ---- */

struct af_governor {
    const struct af_govern_options *options;
    struct af_govern_result result;
    struct af_job *jobs;        /* options->job_count */
    struct af_govern_row *rows; /* for events */
    struct af_govern_build_cgroup cgroup;
    struct af_headroom headroom;
    struct af_headroom_previous headroom_previous;
    double others_cores; /* smoothed */
    bool at_limit;       /* hardly any memory was left at the last sample */
    bool freed;          /* a compiler ended since memory was last measured */
    uint64_t hits_seen;
    struct af_stall stall;
    unsigned cores;         /* that we may use: fewer than seen under a quota */
    unsigned cores_seen;    /* by the affinity mask */
    double sampled_at;      /* memory and jobs */
    double memory_freed_at; /* the last stop or kill for lack of memory; 0: never */
    enum af_admit_why why;
    sigset_t before; /* the mask of signals for compilers */
};

/* Reads how much memory is left, in the build's own group if it has one. */
void af_jobs_read_headroom(struct af_governor *governor, struct af_headroom *headroom_out);

/* The running job of this process, or NULL. */
struct af_job *af_jobs_find(struct af_governor *governor, pid_t pid);

/* Handles the end of a job: measured, renamed, repeated or failed. */
void af_jobs_end(struct af_governor *governor, struct af_job *job, int status,
                 const struct rusage *usage);

/* Samples memory and compilers; stops them if needed. */
void af_jobs_watch(struct af_governor *governor);

/* Starts all that may start. */
void af_jobs_admit(struct af_governor *governor);

/* Whether a job is in this state. */
bool af_jobs_any(const struct af_governor *governor, enum af_job_state state);

/* Kills all running compilers. */
void af_jobs_kill(struct af_governor *governor);

/* Sends a message: as an event, and as a line of the log. */
void af_jobs_message(struct af_governor *governor, const char *format, ...) AF_PRINTF(2, 3);

void af_jobs_report(struct af_governor *governor, enum af_govern_event_kind kind,
                    const struct af_job *job, uint64_t peak_bytes);

/* ---- compiler_process.c ---- */

/* Starts the job's compiler; false with errno if the system cannot. */
bool af_compiler_start(const struct af_governor *governor, struct af_job *job);

/* Kills what an ended compiler left behind. */
void af_compiler_end(const struct af_governor *governor, const struct af_job *job);

/* Appends what it printed to the log; the file is kept if the job `failed`. */
void af_compiler_keep_output(const struct af_governor *governor, struct af_job *job,
                             bool failed);

/* Gives the object its name, once its bytes are on the disk; false with errno. */
bool af_compiler_keep_object(const struct af_job *job);

/* A compiler and everything that it started. */
struct af_tree {
    pid_t group;
    const char *tail;        /* name of a program, or NULL */
    bool tail_runs;          /* a process of that name is in the group */
    uint64_t resident_bytes; /* of all together, without shared pages of files */
    double user_seconds;     /* of living processes and of their ended children */
    double system_seconds;
    unsigned count;
};

/* Fills all but `group` and `tail` of each, in one pass over /proc. */
void af_tree_sample(struct af_tree *trees, size_t count);

/* Kills every process of the group (SIGKILL). Ignores 0 and negative numbers. */
void af_tree_kill(pid_t group);

/*
 * Kills every process that compilers of this governor started, also those that left their
 * process group, until there is none.
 */
void af_tree_kill_all(pid_t governor);

#endif
