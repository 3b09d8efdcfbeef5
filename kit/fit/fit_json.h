/*
 * fit_json.h: JSON parts that the answers of several commands share: verdicts,
 * and the facts behind them. Each function returns a new value, or NULL when
 * memory runs out. docs/reference/json.md describes the members.
 */
#ifndef AF_KIT_FIT_FIT_JSON_H
#define AF_KIT_FIT_FIT_JSON_H

#include "kit/base/json.h"
#include "kit/fit/fit.h"

json_t *af_fit_json_catalog(const struct af_catalog *catalog); /* name, date, count */
json_t *af_fit_json_machine(const struct af_machine *machine); /* name and remark */
json_t *af_fit_json_publishers(const struct af_fit_options *options);
json_t *af_fit_json_wheel(const struct af_catalog_wheel *wheel);

/* The wheel with "verdict" and "reasons" (ids); both null where `candidate` is NULL. */
json_t *af_fit_json_candidate(const struct af_catalog_wheel *wheel,
                              const struct af_candidate *candidate);

json_t *af_fit_json_reasons(const struct af_reason *reasons, size_t count);
json_t *af_fit_json_rungs(const struct af_decision *decision);

/* The name of the recommended rung, or null if none is possible. */
json_t *af_fit_json_decision(const struct af_decision *decision);

json_t *af_fit_json_near_misses(const struct af_decision *decision);
json_t *af_fit_json_filter_counts(const struct af_decision *decision); /* after each group */
json_t *af_fit_json_candidate_counts(const struct af_decision *decision);

#endif
