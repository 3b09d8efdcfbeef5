/*
 * interrupt.h: whether the user asked the program to stop (Ctrl-C, SIGTERM, SIGHUP). Long loops
 * and waits call af_interrupted() and then end cleanly.
 */
#ifndef AF_KIT_SYSTEM_INTERRUPT_H
#define AF_KIT_SYSTEM_INTERRUPT_H

#include "engine/base/base.h"

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
