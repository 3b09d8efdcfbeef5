/*
 * rules_gpu.c: whether the wheel can compute on the visible GPUs: which GPUs
 * its own code accepts, and which GPU code it contains.
 *
 * Wheels of flash-attn 2 contain no PTX, so a GPU needs a cubin that runs on
 * it. With several GPUs it is enough that one works; the others are named.
 */
#include "kit/base/text.h"
#include "kit/fit/gpu_targets.h"
#include "kit/fit/verdict.h"

#include <stdio.h>
#include <string.h>

/* Whether a wheel works on one GPU, or why not. */
enum served { SERVED, REFUSED, NO_CODE, UNSETTLED, UNKNOWN_CODE, UNKNOWN_SM };

static enum served code_for(const char *list, int gpu)
{
    enum served best = NO_CODE;
    if (list == NULL)
        return UNKNOWN_CODE;
    for (const char *at = list; *at != '\0' && best != SERVED;) {
        enum af_answer runs = af_sm_runs(af_sm_parse(at), gpu);
        best = runs == AF_YES ? SERVED : runs == AF_UNKNOWN ? UNSETTLED : best;
        at += strcspn(at, " ");
        at += strspn(at, " ");
    }
    return best;
}

/* The highest SM that the wheel's own check accepts; a large number: any. */
static int sm_max(const struct af_fit_wheel_check *check)
{
    for (size_t i = 0; i < af_tables.traps_count; i++) {
        const struct af_trap *trap = &af_tables.traps[i];
        if (trap->effect == AF_TRAP_SM_MAX && af_trap_matches(trap, check->wheel))
            return af_sm_parse(trap->value);
    }
    return 9999;
}

static bool is_package(const struct af_catalog_wheel *wheel, const char *start)
{
    return af_starts_with(wheel->package, start);
}

static bool has_major(struct af_words majors, int sm)
{
    char text[16];
    snprintf(text, sizeof text, "%d", sm / 10);
    return af_words_have(majors, text);
}

static void say_fa4_limits(struct af_fit_wheel_check *check, const struct af_view_gpu *gpu)
{
    const struct af_catalog_fa4_release *release = af_fit_fa4(check->wheel);
    if (release == NULL)
        return;
    if (!has_major(release->backward, gpu->sm))
        af_fit_wheel_check_add_reason(check, AF_REASON_FA4_FORWARD, "%s (sm %d.%d)", gpu->name,
                                      gpu->sm / 10, gpu->sm % 10);
    else if (!has_major(release->paged, gpu->sm))
        af_fit_wheel_check_add_reason(check, AF_REASON_FA4_NO_PAGES, "%s (sm %d.%d)", gpu->name,
                                      gpu->sm / 10, gpu->sm % 10);
}

static enum served serve(const struct af_fit_wheel_check *check, int gpu)
{
    const struct af_catalog_wheel *wheel = check->wheel;
    if (gpu < 0)
        return UNKNOWN_SM;
    const struct af_catalog_fa4_release *fa4 = af_fit_fa4(wheel);
    if (fa4 != NULL)
        return has_major(fa4->forward, gpu) ? SERVED : REFUSED;
    if (is_package(wheel, "flash_attn_3"))
        return gpu / 10 == 8 || gpu == 90
                   ? code_for(wheel->sm == NULL ? "8.0 9.0" : wheel->sm, gpu)
                   : REFUSED;
    bool first = af_starts_with(wheel->version, "0.") || af_starts_with(wheel->version, "1.");
    if (gpu < (first ? 75 : 80))
        return REFUSED;
    enum served code = code_for(wheel->sm, gpu);
    return gpu > 90 && gpu > sm_max(check) ? REFUSED : code;
}

static enum af_reason_id refusal(const struct af_catalog_wheel *wheel)
{
    if (is_package(wheel, "flash_attn_3"))
        return AF_REASON_FA3_HOPPER;
    if (af_fit_wheel_is_fa4(wheel))
        return AF_REASON_FA4_ARCH;
    return AF_REASON_SM_UNSUPPORTED;
}

static void say_open(struct af_fit_wheel_check *check, enum served served,
                     const struct af_view_gpu *gpu)
{
    const char *code = check->wheel->sm;
    if (served == UNSETTLED)
        af_fit_wheel_check_add_reason(check, AF_REASON_SM_NOT_SETTLED,
                                      "its code is for sm %s, but %s is sm %d.%d", code,
                                      gpu->name, gpu->sm / 10, gpu->sm % 10);
    else if (served == UNKNOWN_CODE)
        af_fit_wheel_check_add_reason(check, AF_REASON_WHEEL_SM_UNKNOWN, "%s (sm %d.%d)",
                                      gpu->name, gpu->sm / 10, gpu->sm % 10);
    else if (served == UNKNOWN_SM)
        af_fit_wheel_check_add_reason(check, AF_REASON_UNKNOWN_GPU, "compute capability of %s",
                                      gpu->name);
}

static void say_blocked(struct af_fit_wheel_check *check, enum served served,
                        const struct af_view_gpu *gpu, bool partly)
{
    enum af_reason_id id =
        served == REFUSED ? refusal(check->wheel) : AF_REASON_SM_NOT_IN_WHEEL;
    bool codes = served != REFUSED && check->wheel->sm != NULL;
    if (partly)
        id = AF_REASON_GPU_PARTLY;
    if (codes)
        af_fit_wheel_check_add_reason(check, id, "%s (sm %d.%d), its code is for sm %s",
                                      gpu->name, gpu->sm / 10, gpu->sm % 10, check->wheel->sm);
    else
        af_fit_wheel_check_add_reason(check, id, "%s (sm %d.%d)", gpu->name, gpu->sm / 10,
                                      gpu->sm % 10);
}

static void serve_all(struct af_fit_wheel_check *check)
{
    const struct af_view *view = check->view;
    enum served served[AF_VIEW_GPUS_MAX];
    bool any = false;
    for (size_t i = 0; i < view->gpu_count; i++) {
        served[i] = serve(check, view->gpus[i].sm);
        any = any || (served[i] != REFUSED && served[i] != NO_CODE);
    }
    for (size_t i = 0; i < view->gpu_count; i++) {
        if (served[i] == REFUSED || served[i] == NO_CODE)
            say_blocked(check, served[i], &view->gpus[i], any);
        else
            say_open(check, served[i], &view->gpus[i]);
        if (served[i] == SERVED)
            say_fa4_limits(check, &view->gpus[i]);
    }
}

void af_rule_gpu(struct af_fit_wheel_check *check)
{
    const struct af_view *view = check->view;
    bool is_told = (check->bits & AF_REASON_BIT(AF_REASON_MACHINE_ROCM)) != 0;
    if (view->gpu == AF_FACT_ABSENT && !check->wheel->rocm && !is_told)
        af_fit_wheel_check_add_reason(check, view->gpu_lack, "%s",
                                      view->gpu_source == NULL ? "" : view->gpu_source);
    else if (view->gpu == AF_FACT_UNKNOWN)
        af_fit_wheel_check_add_reason(check, AF_REASON_UNKNOWN_GPU, "%s",
                                      view->gpu_source == NULL ? "" : view->gpu_source);
    else if (!check->wheel->rocm)
        serve_all(check);
}
