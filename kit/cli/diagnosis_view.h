/*
 * diagnosis_view.h: prints the diagnosis of a log, and the page of a cause, for people.
 */
#ifndef AF_KIT_CLI_DIAGNOSIS_VIEW_H
#define AF_KIT_CLI_DIAGNOSIS_VIEW_H

#include "kit/answer/plan_of_log.h"
#include "kit/cli/screen.h"
#include "kit/doctor/diagnosis.h"

/* What is shown of a log; all of it belongs to the caller. */
struct af_cli_diagnosis {
    const struct af_log_evidence *evidence;
    const struct af_diagnosis *diagnosis;
    const struct af_plan_of_log *plan; /* of another machine */
    const struct af_machine *machine;  /* whose facts are used */
    const char *facts;                 /* says whose */
    bool is_elsewhere;                 /* they are not those of this machine */
};

/* The answer, the next step, the evidence; `all` also describes the other causes. */
void af_cli_diagnosis_view(struct af_screen *screen, const struct af_cli_diagnosis *shown,
                           bool all, struct af_arena *arena);

/* What a cause is, what to do, and what not to do. */
void af_cli_cause_view(struct af_screen *screen, const struct af_cause *cause);

#endif
