/*
 * headroom.h: how much memory and how many cores are free for compilers right now.
 *
 * The tightest limit counts: the system's available memory, or what a control
 * group (v1 or v2, at every level above us) leaves. Page cache does not count as
 * used, because the kernel frees it when memory is needed.
 */
#ifndef AF_KIT_COMPILE_GOVERNOR_HEADROOM_H
#define AF_KIT_COMPILE_GOVERNOR_HEADROOM_H

#include "engine/base/base.h"

#define AF_HEADROOM_UNLIMITED UINT64_MAX

struct af_headroom {
    uint64_t left_bytes;  /* at the tightest level; AF_HEADROOM_UNLIMITED: unknown */
    uint64_t limit_bytes; /* of that level */
    uint64_t limit_hits;  /* times a group hit its limit (v1 failcnt; v2 max, high) */
    bool waits;           /* a group is at its limit and the kernel may not kill (v1) */
    uint64_t kills;       /* times the kernel killed for memory, in the groups and anywhere */
    double stalled; /* share of the last 10 s in which all waited for memory; -1: unknown */
    double others_cores; /* of our cores, used by processes that are not nice, on average
                             since the last reading */
};

/* The previous reading, to compare with; zero-initialised at first. */
struct af_headroom_previous {
    unsigned files;       /* groups that could be read; at a limit fewer can be opened */
    uint64_t limit_bytes; /* when all could be read */
    uint64_t busy_ticks;
    double seconds;
};

/*
 * `group` is the folder of the group to begin with; NULL: that of this process.
 * `root` is a prefix of /proc and /sys for tests; NULL elsewhere.
 */
void af_headroom_read(const char *root, const char *group, struct af_headroom_previous *before,
                      struct af_headroom *headroom_out);

#endif
