/*
 * doctor.h: what is wrong with this environment, from facts alone, and the one
 * next step. Logs come later.
 */
#ifndef AF_KIT_DOCTOR_DOCTOR_H
#define AF_KIT_DOCTOR_DOCTOR_H

#include "kit/fit/fit.h"

enum af_severity { AF_SEVERITY_BROKEN, AF_SEVERITY_RISK, AF_SEVERITY_NOTE };

/* One row of causes.inc: AF_CAUSE(ID, "text-id", SEVERITY, "message", "hint"). */
#define AF_CAUSE(id, text_id, severity, message, hint) AF_CAUSE_##id,
enum af_cause_id {
#include "kit/doctor/causes.inc"
    AF_CAUSE_COUNT
};
#undef AF_CAUSE

struct af_finding {
    enum af_cause_id cause;
    const char *detail; /* the values at hand and where they were read */
    const char *hint;   /* one action; NULL: nothing to do about it */
};

const char *af_cause_text_id(enum af_cause_id cause);
enum af_severity af_cause_severity(enum af_cause_id cause);
const char *af_cause_message(enum af_cause_id cause);
const char *af_cause_hint(enum af_cause_id cause); /* or NULL */

/* The cause called `text_id`, or false. */
bool af_cause_parse(const char *text_id, enum af_cause_id *cause_out);

/* "broken", "risk" or "note". */
const char *af_severity_text(enum af_severity severity);

/*
 * Findings for one machine, worst first, in `arena`: first about the installed
 * flash-attn (does it belong to this torch, is it complete, do peers accept
 * it), then about variables and files in force that lead installs astray.
 */
enum anyflash_status af_doctor_examine(const struct af_catalog *catalog,
                                       const struct af_machine *machine,
                                       const struct af_decision *decision,
                                       struct af_arena *arena,
                                       const struct af_finding **findings_out,
                                       size_t *count_out, struct anyflash_error *err);

/* What to do next. */
enum af_next_kind {
    AF_NEXT_NOTHING, /* an installed flash-attn, and nothing speaks against it */
    AF_NEXT_FINDING, /* put this finding right first: until then no install helps */
    AF_NEXT_PLAN,    /* the first step of the plan */
    AF_NEXT_NO_WAY   /* no way is possible: the reasons say what would have to change */
};

struct af_next {
    enum af_next_kind kind;
    const struct af_finding *finding; /* of AF_NEXT_FINDING; borrowed */
};

/* The one next step, from what was found and decided. */
struct af_next af_doctor_next(const struct af_machine *machine,
                              const struct af_decision *decision,
                              const struct af_finding *findings, size_t count);

#endif
