/*
 * plan_json.h: a plan as JSON, as `plan --json` prints it. New objects, or NULL if memory runs
 * out; docs/reference/json.md describes them.
 */
#ifndef AF_KIT_ANSWER_PLAN_JSON_H
#define AF_KIT_ANSWER_PLAN_JSON_H

#include "kit/answer/plan.h"
#include "kit/base/json.h"

/* The facts that the decision depends on. */
json_t *af_plan_facts_json(const struct af_machine *machine);
json_t *af_plan_steps_json(const struct af_plan *plan, struct af_arena *arena);

#endif
