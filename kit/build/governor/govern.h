/*
 * govern.h: runs a build whose compilers are admitted by the memory they need.
 *
 * The build's own program (ninja under setup.py) starts as many jobs as it
 * likes; each of them is a gate (govern/gate.h) that waits here for its turn.
 * What a file needs is predicted by the caller and corrected by what such files
 * really took, which the state database keeps: those that wait are corrected as
 * soon as the first of their kind is known. Compilers that reach their peak
 * slowly overlap where all can still end in turn; one that grows too early is
 * paused (govern/bank.h). A compiler that the kernel killed for memory is
 * repeated: with nothing beside it if it took more than was predicted, else when
 * there is room for it and alone the second time. One that stands still because
 * memory is short is stopped and repeated later, but never the last: of that it
 * is said why. One that crashed or hung is repeated once, one that a signal from
 * outside ended three times; then its cause stands in the build's output
 * (govern/ends.h).
 *
 * Everything ends with this process, whatever ends it: the build dies with it,
 * gates notice its end and kill their compilers, and orphans become its
 * children.
 */
#ifndef AF_KIT_BUILD_GOVERNOR_GOVERN_H
#define AF_KIT_BUILD_GOVERNOR_GOVERN_H

#include "engine/base/base.h"
#include "engine/base/mem.h"
#include "kit/build/governor/admission.h"
#include "kit/system/state.h"

#define AF_GOVERN_KEY_BYTES 128
#define AF_GOVERN_FILE_BYTES 128
#define AF_GOVERN_TAIL_BYTES 16
#define AF_GOVERN_JOBS_MAX AF_ADMIT_JOBS_MAX

/* What the caller says of a compiler call. */
struct af_prediction {
    char key[AF_GOVERN_KEY_BYTES];   /* of its kind: calls of one key cost alike */
    char file[AF_GOVERN_FILE_BYTES]; /* what it compiles, as it is shown */
    uint64_t bytes;                  /* peak */
    double seconds;
    bool rises; /* to its peak over most of its time, not at once */
    /*
     * What it needs after its peak (0: not known), which is over when a program of
     * this name runs in it ("": none) or, of one that rises, memory fell by half.
     */
    char tail[AF_GOVERN_TAIL_BYTES];
    uint64_t tail_bytes;
};

enum af_govern_event_kind {
    AF_GOVERN_STARTED,
    AF_GOVERN_ENDED,   /* well */
    AF_GOVERN_FAILED,  /* the compiler's own failure */
    AF_GOVERN_KILLED,  /* for memory; it will be repeated */
    AF_GOVERN_STALLED, /* it was stopped, so that the others go on; it will be repeated */
    AF_GOVERN_CRASHED, /* a signal that we did not send ended it; it will be repeated */
    AF_GOVERN_HUNG,    /* it was stopped: no processor time for long; it will be repeated */
    AF_GOVERN_REMARK,  /* a sentence */
    AF_GOVERN_TICK     /* about every second */
};

struct af_govern_row {
    const struct af_prediction *prediction;
    enum af_admit_state state;
    uint64_t resident_bytes;
    double elapsed;     /* since it started */
    double cpu_seconds; /* that it worked since then */
};

struct af_govern_event {
    enum af_govern_event_kind kind;
    const struct af_prediction *file; /* NULL of REMARK and TICK */
    const char *remark;               /* of REMARK, else NULL */
    uint64_t peak_bytes;              /* of those that ended: the largest process */
    double seconds;                   /* of these: since it started */
    double cpu_seconds;               /* of these: that it worked */
    /* The state after it: */
    const struct af_govern_row *rows;
    size_t row_count;
    size_t ended_count;
    enum af_admit_why why; /* what the waiting ones wait for, with: */
    const struct af_prediction *first;
    uint64_t used_bytes;   /* by all compilers now */
    uint64_t budget_bytes; /* for all of them now */
};

struct af_govern_options {
    const char *const *argv;        /* of the build; NULL-terminated */
    const char *folder;             /* where it runs; NULL: here */
    const char *const *environment; /* "NAME=value" added to ours; NULL-terminated, or NULL */
    int output;                     /* descriptor for its stdout and stderr */
    uint64_t memory_bytes;          /* for the whole build; 0: what the machine has */
    unsigned slots;                 /* compilers that work at a time; 0: as cores are free */
    unsigned cores;                 /* that are ours; 0: by the affinity mask */
    double hang_seconds;            /* without processor time until it is stopped; 0: 600 */
    double stall_seconds;           /* until one is stopped for it; 0: 15 */
    const char *root;               /* before /proc and /sys; NULL: none (tests) */
    void (*predict)(void *context, const char *const *argv, struct af_prediction *out);
    void *context;
    void (*event)(void *context, const struct af_govern_event *event); /* or NULL */
    void *event_context;
};

/* Seconds of a clock that only goes on. */
double af_govern_now(void);

struct af_govern_result {
    int exit_code;        /* of the build; 128 + N after signal N */
    int interrupted;      /* the signal that ended all of it, or 0 */
    size_t ended_count;   /* compilers that ended well */
    size_t failed_count;  /* and by their own failure */
    size_t killed_count;  /* for memory; each time counts */
    size_t crashed_count; /* by other signals, or because they hung; each time counts */
};

/*
 * Runs it to its end. `state` may be NULL (nothing is remembered). SIGINT,
 * SIGTERM and SIGHUP end everything; *result_out then says which. Fails with IO
 * or NO_MEMORY when it cannot be started. Not thread-safe: it takes the
 * process's signals and children.
 */
enum anyflash_status af_govern_run(const struct af_govern_options *options,
                                   struct af_state *state, struct af_govern_result *result_out,
                                   struct anyflash_error *err);

#endif
