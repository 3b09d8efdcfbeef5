/*
 * rules_gpu.c: the rule whether the wheel can compute on the visible GPUs: which GPUs its own
 * code accepts, and which GPU code it contains. Wheels of flash-attn 2 contain no PTX, so a GPU
 * needs a cubin that runs on it. With several GPUs, one that works is enough, if torch was
 * compiled for it, too. The others are named.
 */
#include <stdio.h>
#include <string.h>

#include "kit/base/text.h"
#include "kit/fit/gpu_targets.h"
#include "kit/fit/verdict.h"

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

static void say_fa4_limits(struct af_fit_wheel_check *check, const struct af_view_gpu *gpu)
{
    const struct af_catalog_fa4_release *release = af_catalog_fa4(check->wheel);
    if (release == NULL)
        return;
    if (!af_catalog_has_major(release->backward, gpu->sm))
        af_fit_wheel_check_add_reason(check, AF_REASON_FA4_FORWARD, "%s", gpu->text);
    else if (!af_catalog_has_major(release->paged, gpu->sm))
        af_fit_wheel_check_add_reason(check, AF_REASON_FA4_NO_PAGES, "%s", gpu->text);
}

static enum served serve(const struct af_fit_wheel_check *check, int gpu)
{
    const struct af_catalog_wheel *wheel = check->wheel;
    if (gpu < 0)
        return UNKNOWN_SM;
    const struct af_catalog_fa4_release *fa4 = af_catalog_fa4(wheel);
    if (fa4 != NULL)
        return af_catalog_has_major(fa4->forward, gpu) ? SERVED : REFUSED;
    if (af_starts_with(wheel->package, "flash_attn_3"))
        return gpu / 10 == 8 || gpu == 90
                   ? code_for(wheel->sm == NULL ? "8.0 9.0" : wheel->sm, gpu)
                   : REFUSED;
    bool first = af_starts_with(wheel->version, "0.") || af_starts_with(wheel->version, "1.");
    if (gpu < (first ? 75 : 80))
        return REFUSED;
    if (af_catalog_is_torch_free(wheel))
        return SERVED;
    enum served code = code_for(wheel->sm, gpu);
    return gpu > 90 && gpu > sm_max(check) ? REFUSED : code;
}

static enum af_reason_id refusal(const struct af_catalog_wheel *wheel)
{
    if (af_starts_with(wheel->package, "flash_attn_3"))
        return AF_REASON_FA3_HOPPER;
    if (af_catalog_is_fa4(wheel))
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
        af_fit_wheel_check_add_reason(check, AF_REASON_WHEEL_SM_UNKNOWN, "%s", gpu->text);
    else if (served == UNKNOWN_SM)
        af_fit_wheel_check_add_reason(check, AF_REASON_UNKNOWN_GPU, "compute capability of %s",
                                      gpu->name);
}

static void say_blocked(struct af_fit_wheel_check *check, enum served served,
                        const struct af_view_gpu *gpu)
{
    enum af_reason_id id =
        served == REFUSED ? refusal(check->wheel) : AF_REASON_SM_NOT_IN_WHEEL;
    bool codes = served != REFUSED && check->wheel->sm != NULL;
    if (codes)
        af_fit_wheel_check_add_reason(check, id, "%s, its code is for sm %s", gpu->text,
                                      check->wheel->sm);
    else
        af_fit_wheel_check_add_reason(check, id, "%s", gpu->text);
}

static void serve_all(struct af_fit_wheel_check *check)
{
    const struct af_view *view = check->view;
    const struct af_view_gpu *lacking = af_view_torch_lacks_all(view);
    enum served served[AF_VIEW_GPUS_MAX];
    bool blocked[AF_VIEW_GPUS_MAX];
    size_t blocked_count = 0, no_code_count = 0, served_count = 0;
    for (size_t i = 0; i < view->gpu_count; i++) {
        served[i] = serve(check, view->gpus[i].sm);
        blocked[i] = served[i] == REFUSED || served[i] == NO_CODE ||
                     af_view_torch_leaves_out(view, &view->gpus[i]);
        blocked_count += blocked[i];
        no_code_count += served[i] == NO_CODE;
        served_count += served[i] == SERVED && !blocked[i];
    }
    bool partly = blocked_count > 0 && blocked_count < view->gpu_count;
    if (lacking != NULL)
        af_fit_wheel_check_add_reason(check, AF_REASON_TORCH_SM, "%s", lacking->text);
    if (partly)
        af_fit_wheel_check_add_reason(
            check, AF_REASON_GPU_PARTLY, "%s",
            check->arena == NULL ? "" : af_view_gpus_text(view, blocked, check->arena));
    for (size_t i = 0; i < view->gpu_count; i++) {
        if (!blocked[i] && served_count == 0)
            say_open(check, served[i], &view->gpus[i]);
        else if (blocked[i] && !partly && served[i] == (no_code_count > 0 ? NO_CODE : REFUSED))
            say_blocked(check, served[i], &view->gpus[i]);
        if (!blocked[i] && served[i] == SERVED)
            say_fa4_limits(check, &view->gpus[i]);
    }
}

/* Whether the list has the target; "gfx90a:sramecc+:xnack-" is gfx90a. */
static bool has_target(const char *list, const char *gfx)
{
    const size_t len = strcspn(gfx, ":");
    for (const char *at = list; *at != '\0'; at += strspn(at, " ")) {
        size_t own = strcspn(at, " ");
        if (own == len && strncmp(at, gfx, len) == 0)
            return true;
        at += own;
    }
    return false;
}

/*
 * Code for an AMD GPU runs on its own target only: gfx1030 cannot run that of gfx1100. With
 * several GPUs it is enough that one works.
 */
static void serve_amd(struct af_fit_wheel_check *check)
{
    const struct af_gpu_rows *gpus = &check->view->machine->gpus;
    const char *list = check->wheel->sm, *lacking = NULL;
    for (size_t i = 0; i < gpus->count; i++) {
        const char *gfx = af_fact_text_or(&gpus->rows[i].sm, NULL);
        if (!af_fact_is(&gpus->rows[i].vendor, "amd") ||
            af_fact_truth(&gpus->rows[i].visible) == AF_NO)
            continue;
        if (gfx == NULL || list == NULL) {
            af_fit_wheel_check_add_reason(
                check, gfx == NULL ? AF_REASON_UNKNOWN_GPU : AF_REASON_WHEEL_SM_UNKNOWN, "%s",
                gfx == NULL ? af_fact_text_or(&gpus->rows[i].name, "the AMD GPU") : gfx);
            return;
        }
        if (has_target(list, gfx))
            return;
        lacking = gfx;
    }
    if (lacking != NULL)
        af_fit_wheel_check_add_reason(check, AF_REASON_SM_NOT_IN_WHEEL,
                                      "%s, its code is for %s", lacking, list);
}

/* The first two numbers behind "rocm", or of a version of HIP; false: there are none. */
static bool read_rocm(const char *text, int numbers[2])
{
    const char *at = text == NULL ? NULL : strstr(text, "rocm");
    return text != NULL &&
           sscanf(at == NULL ? text : at + 4, "%d.%d", &numbers[0], &numbers[1]) == 2;
}

/* A wheel works with the ROCm that torch brings or was built for. */
static void check_rocm(struct af_fit_wheel_check *check)
{
    const struct af_torch *torch = &check->view->machine->torch;
    const char *version = af_fact_text_or(&torch->version, "");
    int own[2], here[2];
    if (!read_rocm(check->wheel->local, own))
        return;
    if (!read_rocm(strstr(version, "+rocm"), here) &&
        !read_rocm(af_fact_text_or(&torch->hip, NULL), here))
        af_fit_wheel_check_add_reason(check, AF_REASON_UNKNOWN_ROCM, "the wheel is for %d.%d",
                                      own[0], own[1]);
    else if (own[0] != here[0] || own[1] != here[1])
        af_fit_wheel_check_add_reason(check, AF_REASON_ROCM_VERSION,
                                      "ROCm %d.%d, torch has ROCm %d.%d", own[0], own[1],
                                      here[0], here[1]);
}

void af_rule_gpu(struct af_fit_wheel_check *check)
{
    const struct af_view *view = check->view;
    bool is_told = (check->bits & AF_REASON_BIT(AF_REASON_MACHINE_ROCM)) != 0;
    if (view->gpu == AF_FACT_ABSENT && !check->wheel->rocm && !is_told)
        af_fit_wheel_check_add_reason(check, view->gpu_lack, "%s", view->gpu_source);
    else if (view->gpu == AF_FACT_UNKNOWN)
        af_fit_wheel_check_add_reason(check, AF_REASON_UNKNOWN_GPU, "%s", view->gpu_source);
    else if (!check->wheel->rocm)
        serve_all(check);
    else
        serve_amd(check);
    if (check->wheel->rocm && !is_told)
        check_rocm(check);
}
