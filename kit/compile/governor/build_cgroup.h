/*
 * build_cgroup.h: a control group or systemd scope for the build, so that if memory
 * runs out, only processes of this build are killed, and so that the whole build
 * can be ended at once.
 *
 * First choice is a control group below our own, for the compilers. Version 1: in the
 * memory hierarchy. Version 2: it limits memory only where the memory controller is
 * delegated to us; it can always be killed. Neither needs root where the group is
 * ours (containers, delegated units).
 *
 * Second choice is a systemd scope, for sessions of a desktop or of ssh, whose
 * groups belong to systemd: this program starts again as "systemd-run --scope ...
 * ANYFLASH BUILD ARGUMENTS". Root asks the system manager, which can always limit
 * memory; others ask the user manager, which can only where the memory controller is
 * delegated to it (version 2).
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
    char folder[AF_GOVERN_BUILD_CGROUP_BYTES]; /* of the group; "": none */
    bool limits;                               /* memory is limited in it, or in the scope */
    bool scope;                                /* this program runs in a scope of ours */
    int reason; /* errno of the attempt to make a group; 0: no such file system */
    char scope_reason[AF_GOVERN_BUILD_CGROUP_REASON_BYTES]; /* why there is no scope; "": not
                                                               asked */
};

/*
 * Makes a control group with this limit (0: none), unless this program runs in a scope. If
 * the system does not allow it, the reason is set. Removes groups of earlier builds that
 * were killed. `root` is a prefix of /proc and /sys for tests; NULL elsewhere.
 */
void af_govern_build_cgroup_make(const char *root, uint64_t limit_bytes,
                                 struct af_govern_build_cgroup *cgroup_out);

/* The result as a sentence. */
void af_govern_build_cgroup_text(const struct af_govern_build_cgroup *cgroup,
                                 uint64_t limit_bytes, char *text, size_t text_bytes);

/* Moves the calling process into the group; safe after fork(). */
void af_govern_build_cgroup_enter(const struct af_govern_build_cgroup *cgroup);

/* Kills every process in the group and removes it. */
void af_govern_build_cgroup_remove(struct af_govern_build_cgroup *cgroup);

#endif
