/*
 * build_cgroup.h: a control group of its own for a build, where the system allows
 * one: memory that runs out ends something of the build and nothing else, and
 * the build can be ended as a whole.
 *
 * Version 1: a group below ours in the memory hierarchy. Version 2: a group
 * below ours; it limits memory only where the memory controller is handed down,
 * else it still serves to kill. Neither needs root where the group is ours
 * (containers, delegated units).
 */
#ifndef AF_KIT_BUILD_GOVERNOR_BUILD_CGROUP_H
#define AF_KIT_BUILD_GOVERNOR_BUILD_CGROUP_H

#include "engine/base/base.h"

#define AF_GOVERN_BUILD_CGROUP_BYTES 512
#define AF_GOVERN_BUILD_CGROUP_REASON_BYTES 200

struct af_systemd_scope;

/* Zero-initialised it confines nothing. */
struct af_govern_build_cgroup {
    char folder[AF_GOVERN_BUILD_CGROUP_BYTES]; /* of the group; "" none, or not known yet */
    bool limits;                               /* memory is limited in it */
    bool scope;                                /* it is systemd's, who also removes it */
    int reason; /* an errno: why there is none; 0: no such file system */
    char scope_reason
        [AF_GOVERN_BUILD_CGROUP_REASON_BYTES]; /* why systemd made none; "" not asked */
};

/*
 * Makes a group with this limit (0: none). When the system does not let us,
 * there is none. Groups of builds that were killed before are removed. `root`
 * stands before /proc and /sys; NULL but in tests.
 */
void af_govern_build_cgroup_make(const char *root, uint64_t limit_bytes,
                                 struct af_govern_build_cgroup *confine_out);

/* Takes the scope, if there is one that is worth more than the group made before. */
void af_govern_build_cgroup_use_scope(struct af_govern_build_cgroup *cgroup,
                                      const struct af_systemd_scope *words);

/* Which it became, as a sentence. */
void af_govern_build_cgroup_text(const struct af_govern_build_cgroup *cgroup,
                                 uint64_t limit_bytes, char *text, size_t text_bytes);

/* Moves the calling process into it; safe after fork(). */
void af_govern_build_cgroup_enter(const struct af_govern_build_cgroup *cgroup);

/* Kills all that is in it. */
void af_govern_build_cgroup_kill(const struct af_govern_build_cgroup *cgroup);

/* Kills all that is in it and removes it; a scope is systemd's to remove. */
void af_govern_build_cgroup_remove(struct af_govern_build_cgroup *cgroup);

#endif
