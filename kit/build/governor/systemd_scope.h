/*
 * systemd_scope.h: a scope of systemd's for a build, where no control group of our own
 * may limit it: sessions of a desktop or of ssh, whose groups belong to systemd.
 *
 * The build then runs as "systemd-run --scope ... COMMAND": the scope is made
 * around the same process, which becomes the command. Root asks the manager of
 * the system, which limits everywhere; all others ask that of their services,
 * which limits only where the memory controller is handed down to it (control
 * groups of version 2).
 */
#ifndef AF_KIT_BUILD_GOVERNOR_SYSTEMD_SCOPE_H
#define AF_KIT_BUILD_GOVERNOR_SYSTEMD_SCOPE_H

#include <sys/types.h>

#include "engine/base/base.h"
#include "engine/base/mem.h"

/* All text is the arena's. */
struct af_systemd_scope {
    const char *const *argv; /* of the command in its scope; NULL: there is none */
    bool limits;             /* memory is really limited in it */
    const char *problem;     /* systemd-run's words why there is none; NULL: it is not here */
};

/*
 * `argv` in a scope whose memory is limited (0: it is not). A scope like it is
 * tried first, around a program that reads its limit.
 */
void af_systemd_scope(struct af_arena *arena, const char *const *argv, uint64_t limit_bytes,
                      struct af_systemd_scope *out);

/*
 * The folder of the group that limits process `pid`, arena text; NULL unless it
 * is a scope of ours. `root` stands before /proc and /sys; NULL but in tests.
 */
const char *af_systemd_scope_folder(struct af_arena *arena, const char *root, pid_t pid);

#endif
