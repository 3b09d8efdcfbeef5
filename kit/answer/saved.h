/*
 * saved.h: a plan saved as JSON (`plan --json`) and carried out later or
 * elsewhere.
 *
 * The file has the steps and the facts that the decision depends on. Reading
 * compares the facts with the current machine, and makes the steps anew from
 * what the file says to install (wheel, hash, requirements): a command in the
 * file is never run.
 */
#ifndef AF_KIT_ANSWER_SAVED_H
#define AF_KIT_ANSWER_SAVED_H

#include "kit/answer/plan.h"
#include "kit/base/json.h"

#define AF_PLAN_SCHEMA "anyflash-plan/1"
#define AF_PLAN_BYTES_MAX (16u * 1024u * 1024u)

/* New objects, or NULL if memory runs out; docs/reference/json.md describes them. */
json_t *af_plan_facts_json(const struct af_machine *machine);
json_t *af_plan_steps_json(const struct af_plan *plan, struct af_arena *arena);

/*
 * Reads the plan in `json` for `machine`. OK with *changed_out NULL: *plan is
 * made. OK with a sentence in *changed_out (in `arena`): a fact has changed,
 * and there is no plan. Fails with DATA, saying what is wrong, or NO_MEMORY.
 */
enum anyflash_status af_plan_read(const json_t *json, const char *name,
                                  const struct af_machine *machine, struct af_arena *arena,
                                  struct af_plan *plan, const char **changed_out,
                                  struct anyflash_error *err);

#endif
