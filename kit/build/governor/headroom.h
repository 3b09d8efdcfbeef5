/*
 * headroom.h: how much memory and processor there is for compilers right now.
 *
 * The tightest counts: what the system has available, and what the control
 * groups (v1 or v2, at every level) leave. Page cache is not counted as used:
 * the kernel gives it back.
 */
#ifndef AF_KIT_BUILD_GOVERNOR_HEADROOM_H
#define AF_KIT_BUILD_GOVERNOR_HEADROOM_H

#include "engine/base/base.h"

#define AF_HEADROOM_UNLIMITED UINT64_MAX

struct af_headroom {
    uint64_t left_bytes; /* the least of what any level leaves; AF_HEADROOM_UNLIMITED unknown */
    uint64_t limit_bytes; /* of that level */
    uint64_t limit_hits;  /* how often a group came to its limit (v1 failcnt, v2 max, high) */
    bool waits;           /* a group is at its limit and the kernel may not kill (v1) */
    uint64_t kills;       /* how often the kernel killed for memory, there and at all */
    double stalled;      /* share of the last 10 s in which all waited for memory; -1 unknown */
    double others_cores; /* of ours, that are used without being nice; since the last reading */
};

/* What the next reading is compared with; zero-initialised at first. */
struct af_headroom_previous {
    unsigned files;       /* of groups that were read; fewer later: at a limit nothing opens */
    uint64_t limit_bytes; /* with all of them */
    uint64_t busy_ticks;
    double seconds;
};

/*
 * `group` is the folder of the group to begin at; NULL: that of this process.
 * `root` stands before /proc and /sys; NULL but in tests.
 */
void af_headroom_read(const char *root, const char *group, struct af_headroom_previous *before,
                      struct af_headroom *headroom_out);

#endif
