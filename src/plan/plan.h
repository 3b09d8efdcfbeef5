/*
 * plan.h: a decision as steps. Nothing is done here; what is printed is what a
 * later run would do.
 */
#ifndef AF_PLAN_PLAN_H
#define AF_PLAN_PLAN_H

#include "fit/fit.h"

/* One command, or advice without one (argc 0). Texts in the plan's arena. */
struct af_step {
    const char *title;
    const char *const *argv; /* not NULL-terminated by contract: use argc */
    size_t argc;
    const char *const *environment; /* "MAX_JOBS=2" words set for it */
    size_t environment_count;
};

struct af_plan {
    struct af_arena arena;
    enum af_rung_kind rung;
    const struct af_step *steps;
    size_t step_count;
};

/*
 * The steps of the decision's recommended rung on the first machine, with the
 * installer that is there (uv before pip). The decision must outlive the plan;
 * the caller releases it.
 */
enum anyflash_status af_plan_make(const struct af_decision *decision,
                                  const struct af_machine *const *machines,
                                  size_t machine_count, struct af_plan *plan,
                                  struct anyflash_error *err);
void af_plan_release(struct af_plan *plan);

/* The command as one could type it in a POSIX shell, quoted where needed. */
/* NULL when memory fails; then arena->failed too. */
const char *af_step_command(const struct af_step *step, struct af_arena *arena);

#endif
