/*
 * plan_of_log.h: what the machine that wrote a log can do: the plan for the facts of the log,
 * as `plan --machine LOG` decides it, or the fact that is missing for it.
 */
#ifndef AF_KIT_ANSWER_PLAN_OF_LOG_H
#define AF_KIT_ANSWER_PLAN_OF_LOG_H

#include "kit/answer/plan_answer.h"

struct af_plan_of_log {
    struct af_plan_request request;
    const struct af_machine *machine;
    struct af_plan_answer answer;
    bool has_answer;     /* it has to be released */
    const char *missing; /* "versions of torch and Python": then there is no plan; or NULL */
    const char *command; /* shows what is missing */
};

/* Whether the command leaves the choice of a wheel or of another way to the plan. */
bool af_plan_of_log_serves(const char *command);

/*
 * Assumes what is usual of `machine`, and decides. `is_installed`: some flash-attn is there.
 * The machine and the catalog must outlive the plan. Fails with NO_MEMORY.
 */
enum anyflash_status af_plan_of_log_make(struct af_plan_of_log *plan,
                                         const struct af_catalog *catalog,
                                         struct af_machine *machine, bool is_installed,
                                         struct af_arena *arena, struct anyflash_error *err);
void af_plan_of_log_release(struct af_plan_of_log *plan);

/* Whether it has steps, or says that nothing has to be installed. */
bool af_plan_of_log_decides(const struct af_plan_of_log *plan);

/*
 * Adds "plan" to a diagnosis in JSON, which it takes: an object, or null if there is neither a
 * plan nor a question. Returns the diagnosis; NULL when memory runs out.
 */
json_t *af_plan_of_log_add(struct af_plan_of_log *plan, json_t *diagnosis);

#endif
