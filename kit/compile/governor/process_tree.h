/*
 * process_tree.h: measures and kills the processes of a compiler. A compiler
 * and everything that it starts are one process group.
 */
#ifndef AF_KIT_COMPILE_GOVERNOR_PROCESS_TREE_H
#define AF_KIT_COMPILE_GOVERNOR_PROCESS_TREE_H

#include <sys/types.h>

#include "engine/base/base.h"

struct af_tree {
    pid_t group;
    const char *tail;        /* name of a program, or NULL */
    bool tail_runs;          /* a process of that name is in the group */
    uint64_t resident_bytes; /* of all together, without shared pages of files */
    double user_seconds;     /* of living processes and of their ended children */
    double system_seconds;
    unsigned count;
};

/* Fills all but `group` and `tail` of each, in one pass over /proc. */
void af_tree_sample(struct af_tree *trees, size_t count);

/* Kills every process of the group (SIGKILL). Ignores 0 and negative numbers. */
void af_tree_kill(pid_t group);

/*
 * The variable that marks the processes of one compiler by their environment, also those
 * that leave its process group: "ANYFLASH_JOB=GOVERNOR.NUMBER.". Returns `mark`.
 */
#define AF_TREE_MARK_BYTES 64
char *af_tree_mark(char mark[AF_TREE_MARK_BYTES], pid_t governor, size_t number);

/* The start of all marks of a governor. */
char *af_tree_mark_all(char mark[AF_TREE_MARK_BYTES], pid_t governor);

/* Kills every process whose mark starts like this, until there is none. */
void af_tree_kill_marked(const char *mark);

#endif
