/*
 * compiler_wrapper.h: what stands where a build expects its compiler: it asks the governor,
 * waits, runs the compiler in a process group of its own, and reports.
 */
#ifndef AF_KIT_BUILD_GOVERNOR_COMPILER_WRAPPER_H
#define AF_KIT_BUILD_GOVERNOR_COMPILER_WRAPPER_H

#include "engine/base/base.h"

#define AF_WRAPPER_EXIT_NO_GOVERNOR 75 /* EX_TEMPFAIL: no governor */

/* What a gate adds to its compiler's words where that was started more than once. */
#define AF_WRAPPER_RESTARTED "anyflash: this compiler is started again"
#define AF_WRAPPER_SUCCEEDED "anyflash: this compiler ended well after all"

/*
 * Runs `argv` (argv[0] is the compiler's path, NULL-terminated) once the
 * governor of $ANYFLASH_GOVERNOR lets it, again if it says so, and returns the exit
 * code for this process: the compiler's, 128 + N after signal N, 127 when it
 * cannot be started, AF_WRAPPER_EXIT_NO_GOVERNOR when there is no governor or it ended:
 * nothing ever runs ungoverned. SIGINT, SIGTERM and SIGHUP end the compiler and
 * all that it started.
 */
int af_wrapper_run(const char *const *argv);

#endif
