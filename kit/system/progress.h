/*
 * progress.h: how a long operation reports what it is doing, and learns that the user asked the
 * program to stop (Ctrl-C, SIGTERM, SIGHUP): long loops and waits call af_interrupted() and
 * then end cleanly. Nothing here prints: the caller's functions decide where messages go.
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

/*
 * From this call on, the first SIGINT, SIGTERM or SIGHUP only makes af_interrupted() true, and
 * waiting system calls return. A second one kills the process as usual; an interrupted
 * installation is then recovered from the journal. A signal that is ignored, as under nohup, is
 * still ignored. Call it from the main thread.
 */
void af_interrupt_catch(void);

/* Whether one of these signals has arrived since af_interrupt_catch(). Safe from any thread. */
bool af_interrupted(void);

#endif
