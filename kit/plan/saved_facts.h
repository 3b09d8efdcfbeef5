/*
 * saved_facts.h: the facts that a plan rests on. Private to this module.
 */
#ifndef AF_KIT_PLAN_SAVED_FACTS_H
#define AF_KIT_PLAN_SAVED_FACTS_H

#include "kit/plan/saved.h"

/*
 * The first fact in which `saved` (of af_plan_facts_json()) and the machine
 * differ, as a sentence in `arena`; NULL: none, or no memory (arena->failed).
 */
const char *af_plan_fact_changed(const json_t *saved, const struct af_machine *machine,
                                 struct af_arena *arena);

#endif
