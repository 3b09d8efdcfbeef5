/*
 * json_parts.h: pieces that several JSON answers share. Each returns a new
 * object, or NULL without memory; docs/reference/json.md is their manual.
 */
#ifndef AF_KIT_CLI_JSON_PARTS_H
#define AF_KIT_CLI_JSON_PARTS_H

#include "kit/base/json.h"
#include "kit/fit/fit.h"
#include "kit/plan/plan.h"

/*
 * Takes over both and returns the list with the item at its end; NULL when
 * either is NULL or memory lacks, so that a loop fails as a whole.
 */
json_t *af_cli_json_append(json_t *list, json_t *item);

/* A text, or null. */
json_t *af_cli_json_text(const char *text);

/* A number, or null for what is negative (unknown). */
json_t *af_cli_json_count(int64_t number);

/* "yes", "no" or "unknown". */
json_t *af_cli_json_answer(enum af_answer answer);

json_t *af_cli_json_catalog(const struct af_catalog *catalog);
json_t *af_cli_json_wheel(const struct af_catalog_wheel *wheel);
json_t *af_cli_json_reasons(const struct af_reason *reasons, size_t count);
/* The name of the recommended rung, or null when none is possible. */
json_t *af_cli_json_decision(const struct af_decision *decision);
json_t *af_cli_json_rung(const struct af_rung *rung);

/* Name and remark of a machine. */
json_t *af_cli_json_machine_name(const struct af_machine *machine);

#endif
