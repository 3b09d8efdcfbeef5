/*
 * decision_view.h: prints rungs, near misses and steps for people; and the machine that they
 * are for, which facts_view.c does.
 */
#ifndef AF_KIT_CLI_DECISION_VIEW_H
#define AF_KIT_CLI_DECISION_VIEW_H

#include "kit/answer/plan.h"
#include "kit/cli/command_inputs.h"
#include "kit/cli/screen.h"
#include "kit/compile/offer/offer.h"

/*
 * One line per rung: its answer, and what it is or why not. `others`: without
 * the recommended one. `offer` is that of a build, or NULL.
 */
void af_cli_rungs_table(struct af_screen *screen, const struct af_decision *decision,
                        bool others, const struct af_offer_build_offer *offer,
                        struct af_arena *arena);

/* "Note: ...": GPUs that the recommended option does not support, if it supports others. */
void af_cli_left_out_gpus_view(struct af_screen *screen, const struct af_decision *decision);

/*
 * All rungs with reasons, cost, package changes and what a build needs.
 * `offers` are those of a build: AF_OFFER_BUILD_OFFERS of them, or NULL.
 */
void af_cli_rungs_view(struct af_screen *screen, const struct af_decision *decision,
                       const struct af_offer_build_offer *offers, struct af_arena *arena);

/*
 * Reason `at` of `reasons`: machines that give it, message, detail and hint, with a hanging
 * indent at `indent`. Prints nothing if an earlier reason is the same of another machine.
 */
void af_cli_reason_view(struct af_screen *screen, int indent, const struct af_reason *reasons,
                        size_t count, size_t at);

/* Whether there are any to show: not where no Python was found, which any wheel would need. */
bool af_cli_has_near_misses(const struct af_decision *decision);

/*
 * How many wheels each group of rules left, and the wheels that people try first: `all` of them
 * with every reason against each, else two with one reason each.
 */
void af_cli_near_misses_view(struct af_screen *screen, const struct af_decision *decision,
                             bool all);

/* Steps with their commands; at most `max` of them. */
void af_cli_steps_view(struct af_screen *screen, const struct af_plan *plan, size_t max,
                       struct af_arena *arena);

/*
 * Prints the facts of a machine in about ten lines: the sections "Machine" and "Environment".
 * With `with_sources`, the source of its main fact follows each line.
 */
void af_cli_facts_view(struct af_screen *screen, const struct af_machine *machine,
                       bool with_sources, struct af_arena *arena);

/* The same facts as a new JSON object; null: unknown or absent. */
json_t *af_cli_facts_json(const struct af_machine *machine);

#endif
