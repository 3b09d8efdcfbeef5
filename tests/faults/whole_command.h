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
#include <sys/mman.h>
#include <unistd.h>

#define WORDS_MAX 12
/*
 * The program's main, and whether it prints before it knows that nothing fails.
 * Tests of another program define them before.
 */
#ifndef PROGRAM_MAIN
#define PROGRAM_MAIN af_cli_main
#define PRINTS_EARLY false
#endif

struct command {
    const char *words[WORDS_MAX + 1]; /* as in a shell, NULL-terminated */
    int code;                         /* the exit code if no allocation fails */
};

/* Runs the program's main with `words`. */
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

/* Sends standard output to memory and standard error to /dev/null; saves the old ones. */
static inline void silence(int saved[2])
{
    fflush(NULL);
    int instead[2] = {memfd_create("output", MFD_CLOEXEC),
                      open("/dev/null", O_WRONLY | O_CLOEXEC)};
    for (int fd = 1; fd <= 2; fd++) {
        saved[fd - 1] = dup(fd);
        dup2(instead[fd - 1], fd);
        close(instead[fd - 1]);
    }
}

/* Undoes silence(); returns how many bytes went to standard output. */
static inline off_t speak(const int saved[2])
{
    fflush(NULL);
    off_t printed = lseek(STDOUT_FILENO, 0, SEEK_END);
    for (int fd = 1; fd <= 2; fd++) {
        dup2(saved[fd - 1], fd);
        close(saved[fd - 1]);
    }
    return printed;
}

/* A failed command prints nothing. */
static inline void fail_each(struct every_allocation each, const struct command *command)
{
    while (every_allocation_next(&each)) {
        int saved[2];
        silence(saved);
        every_allocation_begin(&each);
        int code = run_command(command->words);
        every_allocation_end(&each);
        off_t printed = speak(saved);
        if (code != (each.failed ? AF_EXIT_WORLD : command->code) ||
            (each.failed && printed != 0 && !PRINTS_EARLY))
            fail_msg("'%s %s': allocation %zu %s: exit code %d, %ld bytes of output",
                     command->words[1], command->words[2] != NULL ? command->words[2] : "",
                     each.nth, each.failed ? "failed" : "did not fail", code, (long)printed);
    }
}

static inline void fail_everywhere(const struct command *command, bool all_after)
{
    fail_each((struct every_allocation){.all_after = all_after}, command);
}

#endif
