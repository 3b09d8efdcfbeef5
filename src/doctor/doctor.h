/*
 * doctor.h: what is wrong with this environment, from facts alone, and the one
 * next step. Logs come later.
 */
#ifndef AF_DOCTOR_DOCTOR_H
#define AF_DOCTOR_DOCTOR_H

#include "fit/fit.h"

enum af_severity { AF_SEVERITY_BROKEN, AF_SEVERITY_RISK, AF_SEVERITY_NOTE };

/* One row of causes.inc: AF_CAUSE(ID, "text-id", SEVERITY, "message", "hint"). */
#define AF_CAUSE(id, text_id, severity, message, hint) AF_CAUSE_##id,
enum af_cause_id {
#include "doctor/causes.inc"
    AF_CAUSE_COUNT
};
#undef AF_CAUSE

struct af_finding {
    enum af_cause_id cause;
    const char *detail; /* the values at hand and where they were read */
};

const char *af_cause_text_id(enum af_cause_id cause);
enum af_severity af_cause_severity(enum af_cause_id cause);
const char *af_cause_message(enum af_cause_id cause);
const char *af_cause_hint(enum af_cause_id cause);

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

#endif
