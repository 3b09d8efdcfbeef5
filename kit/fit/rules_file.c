/*
 * rules_file.c: rules about the file itself: can it be had and installed at
 * all, is it for this kind of GPU, and what a reader should know about it.
 */
#include "kit/base/text.h"
#include "kit/fit/verdict.h"

#include <string.h>

void af_rule_file(struct af_fit_wheel_check *check)
{
    const struct af_catalog_wheel *wheel = check->wheel;
    const struct af_view *view = check->view;
    if (!wheel->valid_name)
        af_fit_wheel_check_add_reason(check, AF_REASON_INVALID_NAME, "rename it first");
    if (wheel->url == NULL)
        af_fit_wheel_check_add_reason(check, AF_REASON_NO_ADDRESS, "%s", wheel->source);
    if (check->fit->options->version == NULL && wheel->version[1] == '.' &&
        wheel->version[0] < '2')
        af_fit_wheel_check_add_reason(check, AF_REASON_FLASH_ATTN_OLD, "wheel: %s",
                                      wheel->version);
    bool rocm_here = view->amd || view->torch.rocm;
    if (wheel->rocm && !rocm_here)
        af_fit_wheel_check_add_reason(check, AF_REASON_MACHINE_ROCM, "made for ROCm");
    if (!wheel->rocm && rocm_here && !af_fit_wheel_is_pure(wheel))
        af_fit_wheel_check_add_reason(
            check, AF_REASON_MACHINE_ROCM, "%s; the wheel is made for CUDA",
            view->torch.rocm ? view->torch.text : "the GPU here is AMD's");
}

static void note_installed(struct af_fit_wheel_check *check)
{
    const struct af_package *own = af_view_package(check->view, "flash-attn");
    const char *origin = own == NULL ? NULL : af_fact_text_or(&own->origin, NULL);
    if (check->wheel->url != NULL && af_equal(origin, check->wheel->url))
        af_fit_wheel_check_add_reason(check, AF_REASON_ALREADY_INSTALLED, "%s",
                                      own->origin.source);
    if (strcmp(check->wheel->package, "flash_attn") == 0 &&
        af_view_package(check->view, "flash-attn-4") != NULL)
        af_fit_wheel_check_add_reason(check, AF_REASON_FA4_NAMESPACE, "%s", "");
}

/* Which note a trap stands for; AF_REASON_COUNT: another rule speaks for it. */
static enum af_reason_id note_of(const struct af_trap *trap)
{
    enum af_reason_id id;
    if (trap->effect != AF_TRAP_NOTE && trap->effect != AF_TRAP_ABI)
        return AF_REASON_COUNT;
    if (strcmp(trap->reason, "mislabelled-wheel") == 0)
        return AF_REASON_LABEL_UNTRUE;
    if (!af_reason_parse(trap->reason, &id) || af_reason_effect(id) != AF_REASON_NOTE)
        return AF_REASON_COUNT;
    return id;
}

void af_rule_traps(struct af_fit_wheel_check *check)
{
    const struct af_tables *tables = check->fit->tables;
    note_installed(check);
    if (!check->wheel->listed)
        af_fit_wheel_check_add_reason(check, AF_REASON_DERIVED, "%s", check->wheel->source);
    if (check->arena == NULL)
        return; /* notes do not change the answer */
    for (size_t i = 0; i < tables->trap_count; i++) {
        enum af_reason_id id = note_of(&tables->traps[i]);
        bool spoken = id == AF_REASON_METADATA || id == AF_REASON_LOCAL_ORDER; /* its message */
        if (id != AF_REASON_COUNT && af_trap_matches(&tables->traps[i], check->wheel))
            af_fit_wheel_check_add_reason(check, id, "%s",
                                          spoken ? "" : tables->traps[i].detail);
    }
}
