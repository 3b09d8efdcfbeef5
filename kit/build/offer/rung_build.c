/*
 * rung_build.c: a source build of the newest flash-attn for the GPUs that are
 * here: what it needs, one by one with evidence, and what it costs.
 *
 * setup.py knows targets 80, 90, 100, 110 and 120 only; a GPU of 8.6 or 8.9 is
 * served by 80. Without a visible GPU the target must be stated.
 */
#include "kit/build/offer/rung_build.h"

#include "kit/base/text.h"
#include "kit/build/offer/build_cost.h"

#include <stdio.h>
#include <string.h>

void af_offer_build_row(struct af_offer_build_target *build, const char *name,
                        enum af_answer answer, enum af_reason_id id, const char *evidence)
{
    if (build->rows == NULL || build->row_count == AF_PREREQUISITES_MAX)
        return;
    build->rows[build->row_count++] = (struct af_prerequisite){
        .name = name,
        .answer = answer,
        .evidence = af_arena_text(build->context->arena, evidence == NULL ? "" : evidence),
        .fix = answer == AF_YES ? NULL : af_offer_build_fix(build, id),
        .why = answer == AF_YES ? NULL : af_reason_message(id)};
    if (answer != AF_YES)
        af_rung_add_reason(build->context, id, "%s", evidence == NULL ? "" : evidence);
}

/* The target of setup.py that serves `sm`, 0 when there is none. */
static int target_of(int sm)
{
    int major = sm / 10;
    return major == 8 ? 80 : major == 9 ? 90 : major == 10 ? 100 : major == 12 ? 120 : 0;
}

static void add_once(int sms[AF_VIEW_GPUS_MAX], size_t *count, int sm)
{
    for (size_t i = 0; i < *count; i++) {
        if (sms[i] == sm)
            return;
    }
    sms[(*count)++] = sm;
}

static void add_gpu(struct af_offer_build_target *build, int sm)
{
    add_once(build->sms, &build->sm_count, target_of(sm));
    add_once(build->gpus, &build->gpu_count, sm);
}

/* "80;90"; NULL of none. */
static const char *list_of(struct af_arena *arena, const int *sms, size_t count,
                           const char *separator)
{
    const char *list = NULL;
    for (size_t i = 0; i < count; i++)
        list = list == NULL ? af_arena_format(arena, "%d", sms[i])
                            : af_arena_format(arena, "%s%s%d", list, separator, sms[i]);
    return list;
}

static const char *arch_list(const struct af_offer_build_target *build)
{
    return build->sm_count == 0
               ? build->release->archs
               : list_of(build->context->arena, build->sms, build->sm_count, ";");
}

/* Targets that were said stand in place of the GPUs. */
static bool take_targets(struct af_offer_build_target *build)
{
    const struct af_fit_options *options = build->context->fit->options;
    for (size_t i = 0; i < options->build_target_count && i < AF_VIEW_GPUS_MAX; i++)
        add_gpu(build, options->build_targets[i]);
    if (build->sm_count > 0)
        af_offer_build_row(build, "gpu", AF_YES, AF_REASON_UNKNOWN_GPU,
                           af_arena_format(build->context->arena,
                                           "as said, for the target%s %s",
                                           build->sm_count > 1 ? "s" : "", arch_list(build)));
    return build->sm_count > 0;
}

/* "NVIDIA GeForce RTX 4090: SM 8.9, served by the target 80" */
static const char *served_text(const struct af_offer_build_target *build)
{
    const struct af_view_gpu *gpu = &build->view->gpus[0];
    if (build->view->gpu_count > 1 || gpu->sm < 0)
        return gpu->name;
    return af_arena_format(build->context->arena, "%s: SM %d.%d, served by the target %s",
                           gpu->name, gpu->sm / 10, gpu->sm % 10, arch_list(build));
}

static void check_gpus(struct af_offer_build_target *build)
{
    if (take_targets(build))
        return;
    const struct af_view *view = build->view;
    struct af_arena *arena = build->context->arena;
    bool any = false;
    for (size_t i = 0; i < view->gpu_count; i++)
        any = any || (view->gpus[i].sm >= 0 && target_of(view->gpus[i].sm) != 0);
    for (size_t i = 0; i < view->gpu_count; i++) {
        int sm = view->gpus[i].sm;
        const char *evidence = sm < 0 ? view->gpus[i].name
                                      : af_arena_format(arena, "%s: SM %d.%d",
                                                        view->gpus[i].name, sm / 10, sm % 10);
        if (sm < 0)
            af_offer_build_row(build, "gpu", AF_UNKNOWN, AF_REASON_UNKNOWN_GPU, evidence);
        else if (target_of(sm) == 0 && any)
            af_rung_add_reason(build->context, AF_REASON_GPU_PARTLY, "%s",
                               evidence == NULL ? "" : evidence);
        else if (target_of(sm) == 0)
            af_offer_build_row(build, "gpu", AF_NO, AF_REASON_SM_UNSUPPORTED, evidence);
        else
            add_gpu(build, sm);
    }
    if (view->gpu == AF_FACT_ABSENT && !view->amd)
        af_offer_build_row(build, "gpu", AF_NO, AF_REASON_NO_GPU,
                           af_arena_format(arena, "none seen (%s)",
                                           view->gpu_source == NULL ? "" : view->gpu_source));
    else if (view->amd)
        af_offer_build_row(build, "gpu", AF_NO, AF_REASON_BUILD_ROCM, "an AMD GPU");
    else if (view->gpu == AF_FACT_UNKNOWN)
        af_offer_build_row(build, "gpu", AF_UNKNOWN, AF_REASON_UNKNOWN_GPU, view->gpu_source);
    else if (build->sm_count > 0)
        af_offer_build_row(build, "gpu", AF_YES, AF_REASON_UNKNOWN_GPU, served_text(build));
}

static void check_platform(struct af_offer_build_target *build)
{
    const struct af_view *view = build->view;
    struct af_version python;
    if (view->os == NULL)
        af_offer_build_row(build, "platform", AF_UNKNOWN, AF_REASON_UNKNOWN_PLATFORM, NULL);
    else if (strcmp(view->os, "linux") != 0)
        af_offer_build_row(build, "platform", AF_NO, AF_REASON_BUILD_PLATFORM, view->os);
    else
        af_offer_build_row(build, "platform", AF_YES, AF_REASON_BUILD_PLATFORM,
                           af_arena_format(build->context->arena, "linux %s",
                                           view->arch == NULL ? "?" : view->arch));
    if (!view->python_known)
        af_offer_build_row(build, "python", AF_UNKNOWN, AF_REASON_UNKNOWN_PYTHON, NULL);
    else if (build->release->python_requires != NULL &&
             af_version_parse(view->python_text, strcspn(view->python_text, "td"), &python) &&
             af_specifier_contains(build->release->python_requires, &python) == AF_NO)
        af_offer_build_row(build, "python", AF_NO, AF_REASON_BUILD_PYTHON,
                           af_arena_format(build->context->arena,
                                           "flash-attn %s wants Python %s, here: %s",
                                           build->release->version,
                                           build->release->python_requires, view->python_text));
    else
        af_offer_build_row(build, "python", AF_YES, AF_REASON_BUILD_PYTHON, view->python_text);
}

static void check_torch(struct af_offer_build_target *build)
{
    const struct af_view_torch *torch = &build->view->torch;
    if (torch->state == AF_FACT_ABSENT)
        af_offer_build_row(build, "torch", AF_NO, AF_REASON_TORCH_MISSING, NULL);
    else if (torch->state == AF_FACT_UNKNOWN)
        af_offer_build_row(build, "torch", AF_UNKNOWN, AF_REASON_UNKNOWN_TORCH, NULL);
    else if (torch->cuda == AF_FACT_ABSENT && !torch->rocm)
        af_offer_build_row(build, "torch", AF_NO, AF_REASON_TORCH_WITHOUT_CUDA, torch->text);
    else if (torch->cuda == AF_FACT_UNKNOWN)
        af_offer_build_row(build, "torch", AF_UNKNOWN, AF_REASON_UNKNOWN_TORCH_CUDA,
                           torch->text);
    else
        af_offer_build_row(build, "torch", AF_YES, AF_REASON_UNKNOWN_TORCH, torch->text);
}

/* What is to be built, as words of `anyflash build`; copied. */
static void take_words(struct af_offer_build_target *build)
{
    static const char *const usual[] = {"--head-dim", "128", "--dtype", "bf16"};
    const struct af_fit_options *options = build->context->fit->options;
    struct af_rung *rung = build->context->rung;
    bool said = options->build_word_count > 0;
    size_t count = said ? options->build_word_count : AF_COUNT(usual);
    const char **words = af_arena_array(build->context->arena, count, sizeof *words);
    for (size_t i = 0; words != NULL && i < count; i++)
        words[i] =
            af_arena_text(build->context->arena, said ? options->build_words[i] : usual[i]);
    rung->build_words = words;
    rung->build_word_count = words == NULL ? 0 : count;
}

static void fit(struct af_offer_build_target *build)
{
    struct af_rung *rung = build->context->rung;
    check_platform(build);
    check_torch(build);
    check_gpus(build);
    af_offer_rung_build_check_tools(build);
    af_offer_rung_build_check_resources(build);
    take_words(build);
    rung->prerequisites = build->rows;
    rung->prerequisite_count = build->row_count;
    rung->arch_list = af_arena_text(build->context->arena, arch_list(build));
    rung->gpu_list = list_of(build->context->arena, build->gpus, build->gpu_count, ",");
    rung->flash_attn = af_arena_text(build->context->arena, build->release->version);
    rung->price.download_bytes = AF_OFFER_BUILD_SDIST_BYTES + AF_OFFER_BUILD_TOOLS_BYTES +
                                 (rung->toolkit_from_index ? AF_OFFER_BUILD_TOOLKIT_BYTES : 0);
}

/* The release to build: the one that is asked for, else the newest. */
static const struct af_catalog_flash_release *release_of(const struct af_fit_context *fit)
{
    const struct af_tables *tables = fit->tables;
    if (fit->options->version != NULL)
        return af_tables_flash(tables, fit->options->version);
    return tables->flash_count == 0 ? NULL : &tables->flash[tables->flash_count - 1];
}

void af_offer_rung_build(struct af_rung_context *context)
{
    af_rung_start(context, AF_RUNG_BUILD);
    struct af_offer_build_target build = {.context = context,
                                          .view = &context->fit->views[0],
                                          .release = release_of(context->fit)};
    const char *package = context->fit->options->package;
    build.rows = af_arena_array(context->arena, AF_PREREQUISITES_MAX, sizeof *build.rows);
    if (build.release == NULL || (package != NULL && strcmp(package, "flash_attn") != 0))
        af_rung_add_reason(context, AF_REASON_NO_WHEEL_PACKAGE, "only flash_attn 2 is built");
    else if (strcmp(build.release->version, AF_OFFER_BUILD_FLASH_ATTN) != 0)
        af_rung_add_reason(context, AF_REASON_BUILD_VERSION, "%s, not %s",
                           AF_OFFER_BUILD_FLASH_ATTN, build.release->version);
    else
        fit(&build);
    af_rung_finish(context);
    context->rung->summary =
        context->rung->answer == AF_NO
            ? "a source build is not possible as things are"
            : af_arena_format(context->arena, "flash-attn %s compiled here for the target%s %s",
                              context->rung->flash_attn, build.sm_count == 1 ? "" : "s",
                              context->rung->arch_list);
}

enum anyflash_status af_offer_build_rung(const struct af_machine *machine,
                                         const struct af_fit_options *options,
                                         struct af_arena *arena, struct af_rung *rung_out,
                                         struct anyflash_error *err)
{
    struct af_tables tables;
    struct af_fit_context fit;
    struct af_decision *decision = af_arena_alloc(arena, sizeof *decision);
    if (decision == NULL)
        return af_fail_memory(err);
    enum anyflash_status status =
        af_fit_context_open(&fit, &tables, NULL, &machine, 1, options, arena, err);
    if (status != ANYFLASH_OK)
        return status;
    struct af_rung_context context = {.fit = &fit, .decision = decision, .arena = arena};
    af_offer_rung_build(&context);
    af_tables_release(&tables);
    if (arena->failed)
        return af_fail_memory(err);
    *rung_out = decision->rungs[AF_RUNG_BUILD];
    return ANYFLASH_OK;
}
