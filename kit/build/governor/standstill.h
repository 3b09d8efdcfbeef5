/*
 * standstill.h: whether compilers stand still for want of memory. Pure.
 *
 * At its limit a group of processes may neither end nor be killed: the kernel
 * throws away pages of programs and reads them again, for ever. It shows as
 * little user time, at a limit that is met again and again.
 */
#ifndef AF_KIT_BUILD_GOVERNOR_STANDSTILL_H
#define AF_KIT_BUILD_GOVERNOR_STANDSTILL_H

#include "engine/base/base.h"

#define AF_STANDSTILL_SECONDS 15.0

struct af_standstill {
    double limit_seconds; /* 0: AF_STANDSTILL_SECONDS */
    bool still;
    double since; /* when it began to look so */
};

/* What was seen since the last look. */
struct af_standstill_look {
    double now;          /* seconds, of any clock that only goes on */
    double interval;     /* since the last look */
    double user_seconds; /* that the compilers worked in it */
    unsigned running;    /* compilers */
    bool at_limit;       /* hardly anything is left, or the limit was met in it */
};

/* True when they have stood still for that long; it then begins anew. */
bool af_standstill_look(struct af_standstill *standstill,
                        const struct af_standstill_look *look);

#endif
