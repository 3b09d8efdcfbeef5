/*
 * compiler_end.h: what a compiler's end means: whether it is repeated, and how. Pure.
 *
 * A signal from outside (SIGKILL, SIGTERM, SIGINT, SIGHUP) without want of memory
 * was somebody's choice, no fault of the file: it is simply repeated. Want of
 * memory is told by the kernel's own count of kills; programs that kill for
 * memory beside it (systemd-oomd, earlyoom) have no count, so there it is told by
 * a limit that was reached by a compiler that took more than was predicted.
 */
#ifndef AF_KIT_BUILD_GOVERNOR_COMPILER_END_H
#define AF_KIT_BUILD_GOVERNOR_COMPILER_END_H

#include "engine/base/base.h"

enum af_end_cause {
    AF_END_SUCCESS,
    AF_END_FAILED,    /* the compiler's own failure */
    AF_END_MEMORY,    /* killed or stopped for want of memory */
    AF_END_SIGNALLED, /* by a signal from outside */
    AF_END_CRASHED,   /* by a signal of its own fault */
    AF_END_HUNG,      /* stopped, because it used no processor */
    AF_END_CAUSES
};

struct af_end {
    int code;            /* as a shell gives it: 128 + N after signal N */
    bool stopped;        /* by us, for a standstill */
    bool hung;           /* stopped by us for that */
    bool alone;          /* nothing ran beside it */
    bool kernel_killed;  /* for want of memory, something, while it ran */
    bool at_limit;       /* hardly any memory was left when it was last looked at */
    uint64_t need_bytes; /* predicted */
    uint64_t peak_bytes; /* that it took */
};

enum af_end_cause af_end_cause(const struct af_end *end);

/* Whether it took clearly more than was predicted. */
bool af_end_exceeds_prediction(uint64_t need_bytes, uint64_t peak_bytes);

/* How often a file may end so until its failure is reported; 0: at any time. */
unsigned af_end_retry_limit(enum af_end_cause cause);

#endif
