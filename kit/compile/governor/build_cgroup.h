/*
 * build_cgroup.h: a control group or systemd scope for the build, so that if memory
 * runs out, only processes of this build are killed, and so that the whole build
 * can be ended at once.
 *
 * First choice is a control group below our own. Version 1: in the memory
 * hierarchy. Version 2: it limits memory only where the memory controller is
 * delegated to us; it can always be killed. Neither needs root where the group is
 * ours (containers, delegated units).
 *
 * Second choice is a systemd scope, for sessions of a desktop or of ssh, whose
 * groups belong to systemd: the build runs as "systemd-run --scope ... COMMAND".
 * Root asks the system manager, which can always limit memory; others ask the
 * user manager, which can only where the memory controller is delegated to it
 * (version 2).
 */
#ifndef AF_KIT_COMPILE_GOVERNOR_BUILD_CGROUP_H
#define AF_KIT_COMPILE_GOVERNOR_BUILD_CGROUP_H

#include <sys/types.h>

#include "engine/base/base.h"
#include "engine/base/mem.h"

#define AF_GOVERN_BUILD_CGROUP_BYTES 512
#define AF_GOVERN_BUILD_CGROUP_REASON_BYTES 200

/* Zero-initialised: the build has no group. */
struct af_govern_build_cgroup {
    char folder[AF_GOVERN_BUILD_CGROUP_BYTES]; /* of the group; "": none, or not known yet */
    bool limits;                               /* memory is limited in it */
    bool scope;                                /* a scope, which systemd removes */
    int reason; /* errno of the attempt to make a group; 0: no such file system */
    char scope_reason[AF_GOVERN_BUILD_CGROUP_REASON_BYTES]; /* why there is no scope; "": not
                                                               asked */
};

/* A command in its scope. All text is the arena's. */
struct af_systemd_scope {
    const char *const *argv; /* systemd-run and the command; NULL: no scope can be made */
    bool limits;             /* memory is really limited in it */
    const char *problem;     /* systemd-run's error message; NULL: it is not installed */
};

/*
 * Makes a control group with this limit (0: none). If the system does not allow it,
 * the reason is set. Removes groups of earlier builds that were killed. `root` is a
 * prefix of /proc and /sys for tests; NULL elsewhere.
 */
void af_govern_build_cgroup_make(const char *root, uint64_t limit_bytes,
                                 struct af_govern_build_cgroup *cgroup_out);

/*
 * Finds how to run `argv` in a scope with this memory limit (0: none). Tries a
 * scope of the same kind first, around a program that reads its limit.
 */
void af_systemd_scope_find(struct af_arena *arena, const char *const *argv,
                           uint64_t limit_bytes, struct af_systemd_scope *out);

/* Uses the scope instead of the group, if there is one and it is better. */
void af_govern_build_cgroup_use_scope(struct af_govern_build_cgroup *cgroup,
                                      const struct af_systemd_scope *scope);

/*
 * The folder of the group that limits process `pid`, arena text; NULL unless it
 * is one of our scopes. `root` as above.
 */
const char *af_systemd_scope_folder(struct af_arena *arena, const char *root, pid_t pid);

/* The result as a sentence. */
void af_govern_build_cgroup_text(const struct af_govern_build_cgroup *cgroup,
                                 uint64_t limit_bytes, char *text, size_t text_bytes);

/* Moves the calling process into the group; safe after fork(). */
void af_govern_build_cgroup_enter(const struct af_govern_build_cgroup *cgroup);

/* Kills every process in the group. */
void af_govern_build_cgroup_kill(const struct af_govern_build_cgroup *cgroup);

/* Kills every process in the group and removes it; systemd removes a scope. */
void af_govern_build_cgroup_remove(struct af_govern_build_cgroup *cgroup);

#endif
