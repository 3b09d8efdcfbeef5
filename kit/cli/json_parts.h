/*
 * json_parts.h: parts of JSON answers, under the names that commands use.
 */
#ifndef AF_KIT_CLI_JSON_PARTS_H
#define AF_KIT_CLI_JSON_PARTS_H

#include "kit/fit/fit_json.h"
#include "kit/plan/plan_answer.h"

#define af_cli_json_append af_json_append
#define af_cli_json_text af_json_text
#define af_cli_json_count af_json_count
#define af_cli_json_answer af_json_answer
#define af_cli_json_catalog af_fit_json_catalog
#define af_cli_build_needs_json af_plan_build_needs_json

#endif
