/*
 * progress.h: how a long operation reports what it is doing. Nothing in this
 * module prints: the caller's functions decide where messages go.
 */
#ifndef AF_KIT_SYSTEM_PROGRESS_H
#define AF_KIT_SYSTEM_PROGRESS_H

#include "engine/base/base.h"

/* The functions that receive reports; zero-initialised: none. Called in the working thread. */
struct af_progress {
    void *context; /* passed to both functions */
    /* One finished sentence for people, without newline, scrubbed. */
    void (*message)(void *context, const char *sentence);
    /*
     * Reports that `done` of `total` (0: unknown) bytes of `what` are transferred; called
     * whenever this changes.
     */
    void (*transfer)(void *context, const char *what, uint64_t done, uint64_t total);
};

/*
 * Formats one sentence and passes it to progress->message, if set. A sentence of more than 1023
 * bytes is truncated.
 */
void af_progress_message(const struct af_progress *progress, const char *format, ...)
    AF_PRINTF(2, 3);

#endif
