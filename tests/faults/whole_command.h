/*
 * whole_command.h: runs a whole command of the program with the n-th allocation
 * failing, and with all from the n-th on failing, for each n.
 */
#ifndef AF_TEST_WHOLE_COMMAND_H
#define AF_TEST_WHOLE_COMMAND_H

#include "kit/cli/cli.h"
#include "tests/unit/every_allocation.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define WORDS_MAX 12
/* The program's main; tests of another program define it before. */
#ifndef PROGRAM_MAIN
#define PROGRAM_MAIN af_cli_main
#endif

/* Runs the program's main with `words` (NULL-terminated), and discards its output. */
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

/* Sends standard output and error to /dev/null; returns the old ones. */
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

/* `after`, unless NULL, checks what a failed run left behind. */
static inline void fail_each(struct every_allocation each, const char *const *words,
                             void (*after)(void))
{
    while (every_allocation_next(&each)) {
        int saved[2];
        silence(saved);
        every_allocation_begin(&each);
        int code = run_command(words);
        every_allocation_end(&each);
        speak(saved);
        if (!each.failed)
            assert_true(code == AF_EXIT_YES || code == AF_EXIT_NO);
        else if (code != AF_EXIT_WORLD)
            fail_msg("'%s': allocation %zu failed: exit code %d", words[1], each.nth, code);
        if (each.failed && after != NULL)
            after();
    }
}

static inline void fail_everywhere(const char *const *words, bool all_after,
                                   void (*after)(void))
{
    fail_each((struct every_allocation){.all_after = all_after}, words, after);
}

#endif
