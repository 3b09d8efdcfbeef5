/*
 * stall.c: little work at the limit, for a while.
 */
#include "kit/build/governor/stall.h"

#define WORKING 0.3 /* share of a core that a compiler uses at least when it goes on */

bool af_stall_check(struct af_stall *stall, const struct af_stall_sample *look)
{
    bool still = look->running > 0 && look->at_limit && look->interval > 0 &&
                 look->user_seconds < WORKING * look->interval;
    if (still && !stall->still)
        stall->since = look->now - look->interval;
    stall->still = still;
    double limit = stall->limit_seconds > 0 ? stall->limit_seconds : AF_STALL_SECONDS;
    if (!still || look->now - stall->since < limit)
        return false;
    stall->still = false;
    return true;
}
