/*
 * plan_of_log.h: the plan for the machine that wrote a log, as `plan --machine LOG` makes it,
 * or the facts that it lacks.
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

/* Whether a cause's command is one that the plan replaces: it would choose a wheel or a
   build. */
bool af_plan_of_log_serves(const char *command);

/*
 * Sets the unknown facts of `machine` to what is usual, and decides. `is_installed`: a flash-
 * attn is installed. The machine and the catalog must outlive the plan.
 */
enum anyflash_status af_plan_of_log_make(struct af_plan_of_log *plan,
                                         const struct af_catalog *catalog,
                                         struct af_machine *machine, bool is_installed,
                                         struct af_arena *arena, struct anyflash_error *err);
void af_plan_of_log_release(struct af_plan_of_log *plan);

/* Whether no fact is missing: the plan has steps, or says that none are needed. */
bool af_plan_of_log_decides(const struct af_plan_of_log *plan);

/*
 * Adds the member "plan" to the diagnosis (JSON), and takes over its reference. The member is
 * null if there is nothing to do and no fact to ask for. Returns the diagnosis.
 */
json_t *af_plan_of_log_add(struct af_plan_of_log *plan, json_t *diagnosis);

#endif
