/*
 * decide.h: makes a decision from a machine and the catalog. Pure: reads only
 * its arguments and the data embedded in the program.
 */
#ifndef AF_KIT_PLAN_DECIDE_H
#define AF_KIT_PLAN_DECIDE_H

#include "kit/fit/fit.h"

/*
 * Checks the catalog for all `machines` at once (a wheel fits if it fits each
 * of them) and evaluates the rungs. On success *decision is initialised and the
 * caller releases it.
 */
enum anyflash_status af_plan_decide(const struct af_catalog *catalog,
                                    const struct af_machine *const *machines,
                                    size_t machine_count, const struct af_fit_options *options,
                                    struct af_decision *decision, struct anyflash_error *err);

#endif
