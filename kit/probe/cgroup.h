/*
 * cgroup.h: the control groups of this process, from its own up to the mount's root.
 * For kit/probe and kit/build/governor.
 */
#ifndef AF_KIT_PROBE_CGROUP_H
#define AF_KIT_PROBE_CGROUP_H

#include "kit/probe/probes.h"

/* Where a controller's groups are. `folder` moves up; see af_cgroup_up(). */
struct af_cgroup {
    bool v2;
    const char *mount;  /* "/sys/fs/cgroup" or "/sys/fs/cgroup/memory" */
    const char *folder; /* of the group looked at now */
};

/*
 * Finds the group of `controller` ("memory", "cpu"). A v1 hierarchy is looked
 * for first: mixed hosts have an empty v2 line too. False when there is none.
 */
bool af_cgroup_find(const struct af_probe *probe, const char *controller,
                    struct af_cgroup *cgroup_out);

/* Goes to the parent; false at the mount's root. */
bool af_cgroup_up(const struct af_probe *probe, struct af_cgroup *cgroup);

/* The text of a file of the group, trimmed, or NULL. */
const char *af_cgroup_text(const struct af_probe *probe, const struct af_cgroup *cgroup,
                           const char *file);

/* A number of the group; false for "max", no file, or what v1 says for none. */
bool af_cgroup_number(const struct af_probe *probe, const struct af_cgroup *cgroup,
                      const char *file, int64_t *number_out);

#endif
