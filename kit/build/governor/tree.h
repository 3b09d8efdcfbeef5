/*
 * tree.h: what the processes of a compiler take, and their end. A compiler and
 * all that it starts are one process group.
 */
#ifndef AF_KIT_BUILD_GOVERNOR_TREE_H
#define AF_KIT_BUILD_GOVERNOR_TREE_H

#include <sys/types.h>

#include "engine/base/base.h"

struct af_tree {
    pid_t group;
    const char *tail;        /* a program's name, or NULL */
    bool tail_runs;          /* one of that name is among them */
    uint64_t resident_bytes; /* of all together, without shared pages of files */
    double user_seconds;     /* of those that live, and of their ended children */
    double system_seconds;
    unsigned count;
};

/* Fills all but `group` and `tail` of each, in one pass over /proc. */
void af_tree_sample(struct af_tree *trees, size_t count);

/* Kills every process of the group at once (SIGKILL). 0 and below are refused. */
void af_tree_kill(pid_t group);

/*
 * Kills the groups of processes that were handed to this one because their
 * parent died (PR_SET_CHILD_SUBREAPER), but for `own` and, of its group, all but
 * the process itself; and reaps what ended.
 */
void af_tree_kill_orphans(pid_t own);

#endif
