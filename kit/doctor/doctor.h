/*
 * doctor.h: what is wrong with this environment, from facts alone, and the one
 * next step.
 */
#ifndef AF_KIT_DOCTOR_DOCTOR_H
#define AF_KIT_DOCTOR_DOCTOR_H

#include "kit/fit/fit.h"

struct af_finding {
    enum af_reason_id cause;
    const char *detail; /* the values at hand and where they were read */
    const char *hint;   /* one action; NULL: nothing to do about it */
};

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
