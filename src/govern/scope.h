/*
 * scope.h: a scope of systemd's for a build, where no control group of our own
 * may limit it: sessions of a desktop, whose groups belong to systemd.
 *
 * The build then runs as "systemd-run --user --scope ... COMMAND": the scope is
 * made around the same process, which becomes the command.
 */
#ifndef AF_GOVERN_SCOPE_H
#define AF_GOVERN_SCOPE_H

#include <sys/types.h>

#include "base/base.h"
#include "base/mem.h"

/*
 * `argv` in a scope whose memory is limited (0: it is not), as arena words; NULL
 * when there is no manager of the user's services or it refuses, which is tried
 * on a program that does nothing.
 */
const char *const *af_scope_words(struct af_arena *arena, const char *const *argv,
                                  uint64_t limit_bytes);

/*
 * The folder of the group that process `pid` stands in, arena text; NULL unless
 * it is a scope of ours. `root` stands before /proc and /sys; NULL but in tests.
 */
const char *af_scope_folder(struct af_arena *arena, const char *root, pid_t pid);

#endif
