/*
 * step_hook.h: where tests kill the process. Private to this module.
 */
#ifndef AF_KIT_INSTALL_STEP_HOOK_H
#define AF_KIT_INSTALL_STEP_HOOK_H

/*
 * Called after every write to the journal and every rename. In builds with
 * AF_TEST_HOOKS the ANYFLASH_KILL_AT-th call (1 = the first) kills the process
 * with SIGKILL; in others it does nothing.
 */
void af_install_step_hook(void);

#endif
