/*
 * shell.h: formats a command so that it can be pasted into a POSIX shell.
 */
#ifndef AF_KIT_BASE_SHELL_H
#define AF_KIT_BASE_SHELL_H

#include "engine/base/mem.h"

/*
 * Joins `environment` ("NAME=value" words) and `argv` with blanks and quotes
 * each word that needs it. The result is in the arena; NULL when memory runs
 * out, and then arena->failed is set.
 */
const char *af_shell_command(const char *const *environment, size_t environment_count,
                             const char *const *argv, size_t argc, struct af_arena *arena);

#endif
