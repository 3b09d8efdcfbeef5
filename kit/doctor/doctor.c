/*
 * doctor.c: runs every rule, sorts the findings with the worst first, and
 * chooses the next step. A problem that stops every CUDA program or every
 * install comes first, then the plan. If nothing is wrong with the installed
 * flash-attn, no step is needed.
 */
#include <stdarg.h>
#include <stdio.h>

#include "kit/doctor/doctor.h"
#include "kit/doctor/rules.h"

#define DETAIL_BYTES 1200

typedef void rule_function(struct af_examination *examination);

/* The order of findings with the same severity. */
static rule_function *const rules[] = {
    af_examine_environment,       /* whether there is a Python that can be used */
    af_examine_source_tree,       /* what Python really imports */
    af_examine_damaged_torch,     /* what it cannot be imported without */
    af_examine_shim,              /* whether anyflash replaces it */
    af_examine_double_installs,   /* whether it is the only one */
    af_examine_installed_files,   /* whether it is complete */
    af_examine_installed_torch,   /* whether it fits this torch, judged by its own files */
    af_examine_installed_wheel,   /* whether it fits this machine, judged by the catalog */
    af_examine_other_generations, /* whether it is another FlashAttention */
    af_examine_driver,
    af_examine_devices,
    af_examine_torch,
    af_examine_peers,
    af_examine_variables,
    af_examine_caches,
    af_examine_project,
    af_examine_building,
};

void af_examination_add(struct af_examination *examination, enum af_reason_id cause,
                        const char *format, ...)
{
    char text[DETAIL_BYTES];
    va_list arguments;
    if (examination->count == AF_FINDINGS_MAX)
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    struct af_finding *finding = &examination->findings[examination->count++];
    finding->cause = cause;
    finding->detail = af_arena_text(examination->arena, text);
    finding->hint = af_reason_finding_hint(cause);
}

void af_examination_hint(struct af_examination *examination, const char *hint)
{
    if (examination->count > 0 && hint != NULL)
        examination->findings[examination->count - 1].hint = hint;
}

/* Stable: findings of one severity stay in the order of the rules. */
static void sort_by_severity(struct af_finding *findings, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        struct af_finding moved = findings[i];
        size_t at = i;
        for (; at > 0 &&
               af_reason_severity(findings[at - 1].cause) > af_reason_severity(moved.cause);
             at--)
            findings[at] = findings[at - 1];
        findings[at] = moved;
    }
}

enum anyflash_status af_doctor_examine(const struct af_catalog *catalog,
                                       const struct af_machine *machine,
                                       const struct af_decision *decision,
                                       struct af_arena *arena,
                                       const struct af_finding **findings_out,
                                       size_t *count_out, struct anyflash_error *err)
{
    struct af_examination examination = {
        .catalog = catalog,
        .machine = machine,
        .decision = decision,
        .arena = arena,
        .findings = af_arena_array(arena, AF_FINDINGS_MAX, sizeof(struct af_finding)),
        .err = err,
    };
    if (examination.findings == NULL)
        return af_fail_memory(err);
    for (size_t i = 0; i < AF_COUNT(rules) && examination.status == ANYFLASH_OK; i++)
        rules[i](&examination);
    if (examination.status != ANYFLASH_OK)
        return examination.status;
    if (arena->failed)
        return af_fail_memory(err);
    sort_by_severity(examination.findings, examination.count);
    *findings_out = examination.findings;
    *count_out = examination.count;
    return ANYFLASH_OK;
}

struct af_next af_doctor_next(const struct af_machine *machine,
                              const struct af_decision *decision,
                              const struct af_finding *findings, size_t count)
{
    bool is_installed =
        af_machine_flash_attn(machine) != NULL && machine->torch.version.state == AF_FACT_KNOWN;
    for (size_t i = 0; i < count; i++) {
        if (af_reason_comes_first(findings[i].cause))
            return (struct af_next){AF_NEXT_FINDING, &findings[i]};
        is_installed = is_installed && !af_reason_asks_to_replace(findings[i].cause);
    }
    if (is_installed)
        return (struct af_next){AF_NEXT_NOTHING, NULL};
    return (struct af_next){decision->possible ? AF_NEXT_PLAN : AF_NEXT_NO_WAY, NULL};
}
