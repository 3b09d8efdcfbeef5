/*
 * cgroup.h: the control groups of this process, from its own up to the mount's root.
 * For kit/probe and kit/compile/governor.
 */
#ifndef AF_KIT_PROBE_CGROUP_H
#define AF_KIT_PROBE_CGROUP_H

#include "kit/probe/probes.h"

/* A control group of a controller. af_cgroup_up() moves `folder` to the parent. */
struct af_cgroup {
    bool v2;
    const char *mount;  /* "/sys/fs/cgroup" or "/sys/fs/cgroup/memory" */
    const char *folder; /* the current group */
};

/*
 * Finds the group of `controller` ("memory", "cpu"). A v1 hierarchy is tried first, because
 * hosts with both versions also have an empty v2 line. False when there is no group.
 */
bool af_cgroup_find(const struct af_probe *probe, const char *controller,
                    struct af_cgroup *cgroup_out);

/* Goes to the parent; false at the mount's root. */
bool af_cgroup_up(const struct af_probe *probe, struct af_cgroup *cgroup);

/* The text of a file of the group, trimmed, or NULL. */
const char *af_cgroup_text(const struct af_probe *probe, const struct af_cgroup *cgroup,
                           const char *file);

/* A number of the group; false for a missing file, "max", or v1's value for no limit. */
bool af_cgroup_number(const struct af_probe *probe, const struct af_cgroup *cgroup,
                      const char *file, int64_t *number_out);

#endif
