/*
 * whole_command.h: runs a whole command of the program with each allocation
 * failing in turn, and with all from there on.
 */
#ifndef AF_TEST_WHOLE_COMMAND_H
#define AF_TEST_WHOLE_COMMAND_H

#include "engine/base/mem.h"
#include "kit/cli/cli.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define WORDS_MAX 12
/* The program; another one's tests define it before. */
#ifndef PROGRAM_MAIN
#define PROGRAM_MAIN af_cli_main
#endif

/* Runs the program's main with `words` (NULL-terminated), its output thrown away. */
static inline int run_command(const char *const *words)
{
    static char copies[WORDS_MAX][512];
    char *argv[WORDS_MAX + 1] = {0};
    int argc = 0;
    for (; words[argc] != NULL; argc++) {
        snprintf(copies[argc], sizeof copies[argc], "%s", words[argc]);
        argv[argc] = copies[argc];
    }
    return PROGRAM_MAIN(argc, argv);
}

/* Sends standard output and error to /dev/null; gives back what they were. */
static inline void silence(int saved[2])
{
    fflush(NULL);
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    for (int fd = 1; fd <= 2; fd++) {
        saved[fd - 1] = dup(fd);
        dup2(nowhere, fd);
    }
    close(nowhere);
}

static inline void speak(const int saved[2])
{
    fflush(NULL);
    for (int fd = 1; fd <= 2; fd++) {
        dup2(saved[fd - 1], fd);
        close(saved[fd - 1]);
    }
}

/*
 * `after`, where there is one, looks at what a run that failed left behind.
 */
static inline void fail_everywhere(const char *const *words, bool all_after,
                                   void (*after)(void))
{
    for (size_t nth = 1;; nth++) {
        int saved[2];
        silence(saved);
        af_mem_fail_nth(nth, all_after);
        int code = run_command(words);
        bool reached = af_mem_request_count() >= nth;
        af_mem_fail_nth(0, false);
        speak(saved);
        if (!reached) {
            assert_true(code == AF_EXIT_YES || code == AF_EXIT_NO);
            assert_true(nth > 1);
            return;
        }
        if (code != AF_EXIT_WORLD)
            fail_msg("'%s': request %zu: exit code %d", words[1], nth, code);
        if (after != NULL)
            after();
    }
}

#endif
