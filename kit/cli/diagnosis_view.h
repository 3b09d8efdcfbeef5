/*
 * diagnosis_view.h: a diagnosis as text.
 */
#ifndef AF_KIT_CLI_DIAGNOSIS_VIEW_H
#define AF_KIT_CLI_DIAGNOSIS_VIEW_H

#include "kit/cli/page.h"
#include "kit/doctor/diagnosis.h"

#define AF_CLI_DIAGNOSIS_COLUMNS 80

/* The answer, the next step, the evidence; `all` also describes the other causes. */
void af_cli_diagnosis_view(struct af_page *page, const struct af_diagnosis *diagnosis,
                           const struct af_log_evidence *evidence, const char *facts, bool all);

/* The page of a cause. */
void af_cli_cause_view(struct af_page *page, const struct af_cause *cause);

#endif
