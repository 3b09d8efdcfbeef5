/*
 * step_hook.c: the kill switch of tests; empty in builds for users.
 */
#include "kit/install/step_hook.h"

#ifdef AF_TEST_HOOKS

#include <signal.h>
#include <stdlib.h>

#include "kit/base/text.h"

void af_install_step_hook(void)
{
    static int64_t count; /* counts steps for tests only */
    int64_t at = 0;
    count++;
    if (af_parse_i64(getenv("ANYFLASH_KILL_AT"), 1, INT32_MAX, &at) && at == count)
        raise(SIGKILL);
}

#else

void af_install_step_hook(void)
{
}

#endif
