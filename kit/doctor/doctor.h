/*
 * doctor.h: finds what is wrong with an environment, from facts alone, and the
 * next step.
 */
#ifndef AF_KIT_DOCTOR_DOCTOR_H
#define AF_KIT_DOCTOR_DOCTOR_H

#include "kit/fit/fit.h"
#include "kit/formats/version.h"

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

/*
 * Below: the rules, shared by the files of this room only. A rule looks at facts and reports
 * what it can prove from known ones; an unknown fact is never a finding.
 */

#define AF_FINDINGS_MAX 64

struct af_examination {
    const struct af_catalog *catalog;
    const struct af_machine *machine;
    const struct af_decision *decision;
    struct af_arena *arena;
    struct af_finding *findings; /* AF_FINDINGS_MAX of them */
    size_t count;
    enum anyflash_status status; /* from functions that a rule called; OK if none failed */
    struct anyflash_error *err;
};

/* Adds a finding with the cause's own hint; beyond the maximum it is dropped. */
void af_examination_add(struct af_examination *examination, enum af_reason_id cause,
                        const char *format, ...) AF_PRINTF(3, 4);

/* Replaces the hint of the last finding. */
void af_examination_hint(struct af_examination *examination, const char *hint);

/* The version that the fact states; false if it is unknown. */
bool af_examination_version(const struct af_fact *fact, struct af_version *version_out);

/* The number at `place` of a known version's release, or -1. */
int af_examination_number(const struct af_fact *fact, int place);

/* installed.c: the flash-attn of the environment, from its own files and its wheel */
void af_examine_source_tree(struct af_examination *examination);
void af_examine_shim(struct af_examination *examination);
void af_examine_installed_files(struct af_examination *examination);
void af_examine_damaged_torch(struct af_examination *examination);
void af_examine_installed_torch(struct af_examination *examination);
void af_examine_other_generations(struct af_examination *examination);
void af_examine_installed_wheel(struct af_examination *examination);

/* doctor_environment.c */
void af_examine_peers(struct af_examination *examination);
void af_examine_double_installs(struct af_examination *examination);
void af_examine_torch(struct af_examination *examination);
void af_examine_driver(struct af_examination *examination);
void af_examine_devices(struct af_examination *examination);
void af_examine_building(struct af_examination *examination);

#endif
