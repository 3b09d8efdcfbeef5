/*
 * progress.h: how what runs for long tells what it does, and hears that it shall
 * stop. Nothing in this module prints: the command decides where words go.
 */
#ifndef AF_KIT_SYSTEM_PROGRESS_H
#define AF_KIT_SYSTEM_PROGRESS_H

#include "engine/base/base.h"

/* Zero-initialised it is silent. */
struct af_progress {
    void *context;
    /* One finished sentence for people, without newline, scrubbed. */
    void (*message)(void *context, const char *sentence);
    /* `done` of `total` (0: unknown) bytes of `what`, as often as it changes. */
    void (*transfer)(void *context, const char *what, uint64_t done, uint64_t total);
};

void af_progress_message(const struct af_progress *progress, const char *format, ...)
    AF_PRINTF(2, 3);

/*
 * From af_interrupt_catch() on, the first SIGINT, SIGTERM or SIGHUP only makes
 * af_interrupted() true, so that whoever waits can stop in order; a second one
 * kills as usual, which the journal survives. Main thread only.
 */
void af_interrupt_catch(void);
bool af_interrupted(void);

#endif
