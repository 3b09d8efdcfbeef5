/*
 * step_refusal.h: which steps of a plan are refused before anything is done. Private to
 * install.c.
 */
#ifndef AF_KIT_INSTALL_STEP_REFUSAL_H
#define AF_KIT_INSTALL_STEP_REFUSAL_H

#include "kit/answer/plan.h"
#include "kit/install/install.h"

/* Texts in the run's arena. */
struct af_install_refusal {
    const char *reason; /* NULL: the step is not refused */
    const char *hint;   /* what the user can do about it; or NULL */
};

/* Decides about one step, by its kind and what the user allowed. Changes nothing. */
void af_install_check_step(const struct af_run *run, const struct af_step *step,
                           struct af_install_refusal *out);

#endif
