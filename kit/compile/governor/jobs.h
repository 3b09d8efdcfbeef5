/*
 * jobs.h: the governor's state: its compiler calls, and what they wait for or do.
 * Private to this module.
 */
#ifndef AF_KIT_COMPILE_GOVERNOR_JOBS_H
#define AF_KIT_COMPILE_GOVERNOR_JOBS_H

#include <signal.h>
#include <sys/resource.h>

#include "kit/compile/governor/build_cgroup.h"
#include "kit/compile/governor/compiler_state.h"
#include "kit/compile/governor/govern.h"
#include "kit/compile/governor/headroom.h"

struct af_governor {
    const struct af_govern_options *options;
    struct af_govern_result result;
    struct af_job *jobs;             /* options->job_count */
    struct af_govern_row *rows;      /* for events */
    struct af_admit_job *admit_rows; /* for af_admit() */
    size_t *admit_of;                /* the job of each of them */
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

/* Starts the job's compiler; false with errno if the system cannot. */
bool af_compiler_start(const struct af_governor *governor, struct af_job *job);

/* Kills what an ended compiler left behind. */
void af_compiler_end(const struct af_governor *governor, const struct af_job *job);

/* Appends what it printed to the log; the file is kept if the job `failed`. */
void af_compiler_keep_output(const struct af_governor *governor, struct af_job *job,
                             bool failed);

/* Gives the object its name, once its bytes are on the disk; false with errno. */
bool af_compiler_keep_object(const struct af_job *job);

/* The running job of this process, or NULL. */
struct af_job *af_jobs_find(struct af_governor *governor, pid_t pid);

/* Handles the end of a job: measured, renamed, repeated or failed. */
void af_jobs_end(struct af_governor *governor, struct af_job *job, int status,
                 const struct rusage *usage);

/* Samples memory and compilers; stops them if needed (watch.c). */
void af_jobs_watch(struct af_governor *governor);

/* Measures memory again after a compiler ended, but acts on nothing (watch.c). */
void af_jobs_measure(struct af_governor *governor);

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

#endif
