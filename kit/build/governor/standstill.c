/*
 * standstill.c: little work at the limit, for a while.
 */
#include "kit/build/governor/standstill.h"

#define WORKING 0.3 /* share of a core that a compiler uses at least when it goes on */

bool af_standstill_look(struct af_standstill *standstill, const struct af_standstill_look *look)
{
    bool still = look->running > 0 && look->at_limit && look->interval > 0 &&
                 look->user_seconds < WORKING * look->interval;
    if (still && !standstill->still)
        standstill->since = look->now - look->interval;
    standstill->still = still;
    double limit =
        standstill->limit_seconds > 0 ? standstill->limit_seconds : AF_STANDSTILL_SECONDS;
    if (!still || look->now - standstill->since < limit)
        return false;
    standstill->still = false;
    return true;
}
