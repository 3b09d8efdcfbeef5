/*
 * compiler_end.c: causes of a compiler's end, told apart.
 */
#include "kit/build/governor/compiler_end.h"

#include <signal.h>

#define SURPRISE_SHARE 16 /* more than 1/16 above what was predicted is a surprise */

bool af_end_exceeds_prediction(uint64_t need_bytes, uint64_t peak_bytes)
{
    return peak_bytes > need_bytes + need_bytes / SURPRISE_SHARE;
}

/* Whether a compiler's exit code tells of a signal, to itself or to what it started. */
static bool is_signal(int code)
{
    return code > 128 && code <= 128 + SIGSYS;
}

static bool is_from_outside(int code)
{
    return code == 128 + SIGKILL || code == 128 + SIGTERM || code == 128 + SIGINT ||
           code == 128 + SIGHUP;
}

static bool is_for_memory(const struct af_end *end)
{
    if (end->stopped)
        return true;
    if (end->code != 128 + SIGKILL) /* g++ and ptxas hide it; once, as it may be another's */
        return end->kernel_killed && !end->alone;
    return end->kernel_killed ||
           (end->at_limit && af_end_exceeds_prediction(end->need_bytes, end->peak_bytes));
}

enum af_end_cause af_end_cause(const struct af_end *end)
{
    if (end->code == 0)
        return AF_END_SUCCESS;
    if (end->hung)
        return is_signal(end->code) ? AF_END_HUNG : AF_END_FAILED;
    if (is_for_memory(end))
        return AF_END_MEMORY;
    if (is_from_outside(end->code))
        return AF_END_SIGNALLED;
    return is_signal(end->code) ? AF_END_CRASHED : AF_END_FAILED;
}

unsigned af_end_retry_limit(enum af_end_cause cause)
{
    static const unsigned most[AF_END_CAUSES] = {
        [AF_END_MEMORY] = 4, [AF_END_SIGNALLED] = 4, [AF_END_CRASHED] = 2, [AF_END_HUNG] = 2};
    return most[cause];
}
