/*
 * shell.h: formats a command so that it can be pasted into a shell.
 */
#ifndef AF_KIT_BASE_SHELL_H
#define AF_KIT_BASE_SHELL_H

#include "kit/base/memory.h"

enum af_shell {
    AF_SHELL_POSIX,
    /*
     * A double quote inside a word reaches the program from PowerShell 7.3 on;
     * older releases drop it.
     */
    AF_SHELL_POWERSHELL,
    /* At the prompt. In a batch file every '%' would have to be doubled. */
    AF_SHELL_CMD
};

/*
 * Joins `environment` ("NAME=value" words) and `argv` with blanks and quotes
 * each word that needs it. The result is in the arena; "" when memory runs
 * out, and then arena->failed is set.
 */
const char *af_shell_command(enum af_shell shell, const char *const *environment,
                             size_t environment_count, const char *const *argv, size_t argc,
                             struct af_arena *arena);

#endif
