/*
 * jobs.h: the governor's state: the connected wrappers, and what their
 * compilers wait for or do. Private to this module.
 */
#ifndef AF_KIT_COMPILE_GOVERNOR_JOBS_H
#define AF_KIT_COMPILE_GOVERNOR_JOBS_H

#include "kit/compile/governor/build_cgroup.h"
#include "kit/compile/governor/channel.h"
#include "kit/compile/governor/compiler_state.h"
#include "kit/compile/governor/costs.h"
#include "kit/compile/governor/govern.h"
#include "kit/compile/governor/headroom.h"

struct af_governor {
    const struct af_govern_options *options;
    struct af_costs costs;
    struct af_govern_result result;
    struct af_job jobs[AF_GOVERN_JOBS_MAX];
    size_t job_count;
    struct af_govern_row rows[AF_GOVERN_JOBS_MAX]; /* for events */
    struct af_message message;                     /* for sending and receiving */
    struct af_govern_build_cgroup cgroup;
    struct af_headroom headroom;
    struct af_headroom_previous headroom_previous;
    double others_cores; /* smoothed */
    bool at_limit;       /* hardly any memory was left at the last sample */
    bool freed;          /* a compiler ended since memory was last measured */
    uint64_t hits_seen;
    struct af_stall stall;
    unsigned cores;            /* that we may use: fewer than seen under a quota */
    unsigned cores_seen;       /* by the affinity mask */
    pid_t build;               /* our child that runs the build */
    double sample_seconds;     /* between two samples */
    double requested_at;       /* the last request of a wrapper */
    double first_requested_at; /* the first request of those that wait */
    double sampled_at;         /* memory and jobs */
    double memory_freed_at;    /* the last stop or kill for lack of memory; 0: never */
    double wrapper_lost_at;    /* a wrapper ended without its compiler; 0: never */
    enum af_admit_why why;
    const struct af_prediction *first;
};

/* Reads how much memory is left, in the build's own group if it has one. */
void af_jobs_read_headroom(struct af_governor *governor, struct af_headroom *headroom_out);

/* A new connection; closed at once if there are too many. */
void af_jobs_add(struct af_governor *governor, int fd);

/* Handles a message of the wrapper at `at`. False if it is gone and was removed. */
bool af_jobs_receive(struct af_governor *governor, size_t at);

/* Samples memory and compilers; pauses, resumes and stops them as needed (watch.c). */
void af_jobs_watch(struct af_governor *governor);

/* Measures memory again after a compiler ended, but acts on nothing (watch.c). */
void af_jobs_measure(struct af_governor *governor);

/*
 * Starts all that may start. False if it should be called again soon: wrappers
 * connect one after the other, and most of them must be known for a good
 * choice.
 */
bool af_jobs_admit(struct af_governor *governor);

/* Kills all compilers and disconnects all wrappers. */
void af_jobs_end(struct af_governor *governor);

/* Sends a message: as an event, and as a line of the build's output. */
void af_jobs_message(struct af_governor *governor, const char *format, ...) AF_PRINTF(2, 3);

/* Bytes that all compilers may use together, the running ones included. */
uint64_t af_jobs_budget(const struct af_governor *governor);

void af_jobs_report(struct af_governor *governor, enum af_govern_event_kind kind,
                    const struct af_job *job, uint64_t peak_bytes);

#endif
