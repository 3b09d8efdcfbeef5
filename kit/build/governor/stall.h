/*
 * stall.h: whether compilers stand still for want of memory. Pure.
 *
 * At its limit a group of processes may neither end nor be killed: the kernel
 * throws away pages of programs and reads them again, for ever. It shows as
 * little user time, at a limit that is met again and again.
 */
#ifndef AF_KIT_BUILD_GOVERNOR_STALL_H
#define AF_KIT_BUILD_GOVERNOR_STALL_H

#include "engine/base/base.h"

#define AF_STALL_SECONDS 15.0

struct af_stall {
    double limit_seconds; /* 0: AF_STALL_SECONDS */
    bool still;
    double since; /* when it began to look so */
};

/* What was seen since the last look. */
struct af_stall_sample {
    double now;          /* seconds, of any clock that only goes on */
    double interval;     /* since the last look */
    double user_seconds; /* that the compilers worked in it */
    unsigned running;    /* compilers */
    bool at_limit;       /* hardly anything is left, or the limit was met in it */
};

/* True when they have stood still for that long; it then begins anew. */
bool af_stall_check(struct af_stall *stall, const struct af_stall_sample *look);

#endif
