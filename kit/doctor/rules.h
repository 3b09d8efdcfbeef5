/*
 * rules.h: the rules of the doctor, and their input. Private to this module.
 *
 * A rule looks at facts and reports what it can prove from known ones; an
 * unknown fact is never a finding. If memory runs out, arena->failed is set.
 */
#ifndef AF_KIT_DOCTOR_RULES_H
#define AF_KIT_DOCTOR_RULES_H

#include "kit/doctor/doctor.h"

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

/*
 * installed.c: the flash-attn of the environment, from its own files and its
 * wheel
 */
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

/* doctor_settings.c; building is in doctor_environment.c */
void af_examine_variables(struct af_examination *examination);
void af_examine_project(struct af_examination *examination);
void af_examine_caches(struct af_examination *examination);
void af_examine_environment(struct af_examination *examination);
void af_examine_building(struct af_examination *examination);

#endif
