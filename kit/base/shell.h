/*
 * shell.h: a command as one can type it in a POSIX shell.
 */
#ifndef AF_KIT_BASE_SHELL_H
#define AF_KIT_BASE_SHELL_H

#include "engine/base/mem.h"

/*
 * `environment` ("NAME=value" words), then `argv`, separated by blanks, quoted
 * where a word needs it. In the arena; NULL when memory fails, and then
 * arena->failed is set.
 */
const char *af_shell_command(const char *const *environment, size_t environment_count,
                             const char *const *argv, size_t argc, struct af_arena *arena);

#endif
