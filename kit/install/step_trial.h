/*
 * step_trial.h: a trial import after the files of a plan are in place. Private to install.c.
 */
#ifndef AF_KIT_INSTALL_STEP_TRIAL_H
#define AF_KIT_INSTALL_STEP_TRIAL_H

#include "kit/answer/plan.h"
#include "kit/install/install.h"

/*
 * Runs a step of kind TRY. Fails with UNSUPPORTED when its program fails: `what` ("the wheel")
 * does not load, and *refusal_out, else unchanged, says so in the run's arena. Fails with
 * TIMEOUT when no answer comes, or as af_program_run().
 */
enum anyflash_status af_install_try_step(const struct af_run *run, const struct af_step *step,
                                         const char *what, const char **refusal_out,
                                         struct anyflash_error *err);

#endif
