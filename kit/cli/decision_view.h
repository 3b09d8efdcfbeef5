/*
 * decision_view.h: prints rungs, wheels and steps for people.
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

/* How many wheels each group of rules left. */
void af_cli_filter_counts_view(struct af_screen *screen, const struct af_decision *decision);

/* The wheels that people try first, with every reason against each. */
void af_cli_near_misses_view(struct af_screen *screen, const struct af_decision *decision);

/* What stands above the wheels that almost fit. */
const char *af_cli_near_misses_title(const struct af_decision *decision);

/* The first two of them, with one reason each. */
void af_cli_near_misses_short(struct af_screen *screen, const struct af_decision *decision);

/* Steps with their commands; at most `max` of them. */
void af_cli_steps_view(struct af_screen *screen, const struct af_plan *plan, size_t max,
                       struct af_arena *arena);

#endif
