/*
 * compiler_wrapper.h: the program that runs in place of the compiler in a
 * build. It asks the governor, waits, runs the compiler in a process group of
 * its own, and reports how it ended.
 */
#ifndef AF_KIT_COMPILE_GOVERNOR_COMPILER_WRAPPER_H
#define AF_KIT_COMPILE_GOVERNOR_COMPILER_WRAPPER_H

#include "engine/base/base.h"

#define AF_WRAPPER_EXIT_NO_GOVERNOR 75 /* EX_TEMPFAIL */

/* Lines that a wrapper adds to the output of a compiler that was started more than once. */
#define AF_WRAPPER_RESTARTED "anyflash: this compiler is started again"
#define AF_WRAPPER_SUCCEEDED "anyflash: this compiler succeeded after a restart"

/*
 * Runs `argv` (argv[0] is the compiler's path; NULL-terminated) once the governor
 * of $ANYFLASH_GOVERNOR allows it, again if the governor says so, and returns the
 * exit code for this process: the compiler's; 128 + N after signal N; 127 if it
 * cannot be started; AF_WRAPPER_EXIT_NO_GOVERNOR if there is no governor or it
 * died, because nothing may run ungoverned. SIGINT, SIGTERM and SIGHUP kill the
 * compiler and every process that it started.
 */
int af_wrapper_run(const char *const *argv);

#endif
