/*
 * decision_view.h: rungs, wheels and steps for people.
 */
#ifndef AF_KIT_CLI_DECISION_VIEW_H
#define AF_KIT_CLI_DECISION_VIEW_H

#include "kit/cli/build_offers.h"
#include "kit/cli/load.h"
#include "kit/cli/page.h"
#include "kit/plan/plan.h"

/* How much of each rung is shown. */
enum af_cli_rung_detail {
    AF_CLI_RUNG_SHORT, /* a paragraph; a better way that was declined says why */
    AF_CLI_RUNG_FULL,  /* reasons, price, moves and what a build lacks too */
    AF_CLI_RUNG_ALL    /* and what it needs and has */
};

/* All rungs, best first. `offers` of a build: AF_OFFER_BUILD_OFFERS of them, or NULL. */
void af_rungs_view(struct af_page *page, const struct af_decision *decision,
                   enum af_cli_rung_detail detail, const struct af_offer_build_offer *offers,
                   struct af_arena *arena);

/* One reason: message, detail and hint, hanging at `indent`. */
void af_cli_reason_view(struct af_page *page, int indent, const struct af_reason *reason);

/* How many wheels each group of rules left. */
void af_cli_filter_counts_view(struct af_page *page, const struct af_decision *decision);

/* The wheels people try first, with every reason against each. */
void af_cli_near_misses_view(struct af_page *page, const struct af_decision *decision);

/* The first two of them, with one reason each. */
void af_cli_near_misses_short(struct af_page *page, const struct af_decision *decision);

/* Steps with their commands; at most `max` of them. */
void af_cli_steps_view(struct af_page *page, const struct af_plan *plan, size_t max,
                       struct af_arena *arena);

/* "244 MiB download, about 3 min"; in the arena. */
const char *af_cli_rung_cost_text(struct af_arena *arena, const struct af_rung_cost *price);

#endif
