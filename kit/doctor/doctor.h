/*
 * doctor.h: finds what is wrong with an environment, from facts alone, and the
 * next step.
 */
#ifndef AF_KIT_DOCTOR_DOCTOR_H
#define AF_KIT_DOCTOR_DOCTOR_H

#include "kit/fit/fit.h"

struct af_finding {
    enum af_reason_id cause;
    const char *detail; /* the values that were compared, and where they were read */
    const char *hint;   /* what to do; NULL: nothing can be done */
};

/*
 * Findings for one machine, worst first, in `arena`: first about the installed
 * flash-attn (whether it fits this torch, is complete, and is accepted by other
 * packages), then about variables and files that make installers do the wrong
 * thing.
 */
enum anyflash_status af_doctor_examine(const struct af_catalog *catalog,
                                       const struct af_machine *machine,
                                       const struct af_decision *decision,
                                       struct af_arena *arena,
                                       const struct af_finding **findings_out,
                                       size_t *count_out, struct anyflash_error *err);

/* Whether an installed flash-attn was built without torch: another torch cannot break it. */
bool af_doctor_fits_every_torch(const struct af_package *package);

/* What to do next. */
enum af_next_kind {
    AF_NEXT_NOTHING, /* flash-attn is installed, and nothing is wrong with it */
    AF_NEXT_FINDING, /* fix this finding first: until then no install helps */
    AF_NEXT_PLAN,    /* the first step of the plan */
    AF_NEXT_NO_WAY   /* no rung is possible: the reasons say what would have to change */
};

struct af_next {
    enum af_next_kind kind;
    const struct af_finding *finding; /* for AF_NEXT_FINDING; borrowed */
};

/* The next step, from the findings and the decision. */
struct af_next af_doctor_next(const struct af_machine *machine,
                              const struct af_decision *decision,
                              const struct af_finding *findings, size_t count);

#endif
