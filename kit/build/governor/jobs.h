/*
 * jobs.h: the gates that are connected and what they wait for or run. Private
 * to this module.
 */
#ifndef AF_KIT_BUILD_GOVERNOR_JOBS_H
#define AF_KIT_BUILD_GOVERNOR_JOBS_H

#include <sys/types.h>

#include "kit/build/governor/build_cgroup.h"
#include "kit/build/governor/channel.h"
#include "kit/build/governor/costs.h"
#include "kit/build/governor/govern.h"
#include "kit/build/governor/headroom.h"
#include "kit/build/governor/stall.h"

enum af_job_state { AF_JOB_NEW, AF_JOB_WAITING, AF_JOB_RUNNING };

struct af_job {
    int fd;
    enum af_job_state state;
    struct af_prediction prediction;
    pid_t group;                /* of its compiler, once that is told; else 0 */
    bool alone;                 /* killed for memory before */
    bool stopped;               /* by us, for a standstill */
    bool known;                 /* its prediction is what such files really took */
    bool paused;                /* by us, until another is past its peak */
    bool in_tail;               /* past its peak: see struct af_prediction */
    bool hung;                  /* stopped by us, because it hung */
    bool remarked;              /* it was said of it that it stands still */
    unsigned memory_kill_count; /* how often it was killed for memory or stopped for it */
    unsigned crash_count;       /* how often it crashed or hung */
    unsigned signalled_count;   /* how often a signal from outside ended it */
    uint64_t kills_before;      /* of the kernel, when it started */
    double started;
    uint64_t resident_bytes;
    uint64_t resident_peak; /* since it started */
    double user_seconds;
    double cpu_seconds;
    double rise_seconds; /* of these, when its peak was over; else 0 */
    double worked;       /* when its processor time last grew */
};

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
    bool at_limit;       /* hardly anything was left at the last look */
    bool freed;          /* a compiler ended since memory was last measured */
    uint64_t hits_seen;
    struct af_stall stall;
    unsigned cores;         /* that are ours: less than seen where a quota holds */
    unsigned cores_seen;    /* by the affinity mask */
    pid_t build;            /* a child that is no stray */
    double sample_seconds;  /* until they are looked at again */
    double asked;           /* when a gate last asked */
    double asked_first;     /* and the first of those that wait */
    double looked;          /* when memory and jobs were last looked at */
    double memory_freed_at; /* when one was last stopped or killed for memory; 0 never */
    double lost;            /* when a gate last ended without its compiler; 0 never */
    enum af_admit_why why;
    const struct af_prediction *first;
};

/* Reads the memory that is left, in the build's own group if it has one. */
void af_jobs_read_headroom(struct af_governor *governor, struct af_headroom *headroom_out);

/* A new gate; it is turned away when there are too many. */
void af_jobs_add(struct af_governor *governor, int fd);

/* Reads what gate number `at` says. False when it is gone and was removed. */
bool af_jobs_receive(struct af_governor *governor, size_t at);

/* Looks at memory and at what runs; acts on standstill and on compilers that hang (watch.c). */
void af_jobs_watch(struct af_governor *governor);

/* Measures memory again, without judging anything: one has ended, and others wait for that. */
void af_jobs_measure(struct af_governor *governor);

/*
 * Starts all that may start. False when it wants to be called again soon: gates
 * come one after the other, and the first should not decide alone what is best.
 */
bool af_jobs_admit(struct af_governor *governor);

/* Kills all compilers and lets all gates go. */
void af_jobs_end(struct af_governor *governor);

/* Tells a sentence: as an event, and as a line of the build's output. */
void af_jobs_message(struct af_governor *governor, const char *format, ...) AF_PRINTF(2, 3);

/* What all compilers may take together, those that run included. */
uint64_t af_jobs_budget(const struct af_governor *governor);

void af_jobs_report(struct af_governor *governor, enum af_govern_event_kind kind,
                    const struct af_job *job, uint64_t peak_bytes);

#endif
