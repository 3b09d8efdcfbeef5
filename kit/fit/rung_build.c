/*
 * rung_build.c: the rung of a build: release, platform, torch and GPUs.
 */
#include "kit/fit/rung.h"

#include "kit/base/text.h"
#include "kit/fit/gpu_generation.h"
#include "kit/fit/gpu_targets.h"

#include <string.h>

#define SM_OF_PTX_MIN 80

static bool is_upstream(const struct af_rung_build_target *build)
{
    return build->context->fit->options->upstream_build;
}

/* Whether the build serves the GPU: PTX serves newer ones than flash-attn has targets for. */
static bool serves_gpu(const struct af_rung_build_target *build, int sm)
{
    return is_upstream(build) ? af_sm_generation_of(sm).build_target != 0 : sm >= SM_OF_PTX_MIN;
}

void af_rung_build_row(struct af_rung_build_target *build, const char *name,
                       enum af_answer answer, enum af_reason_id id, const char *evidence)
{
    if (build->rows == NULL || build->row_count == AF_PREREQUISITES_MAX)
        return;
    build->rows[build->row_count++] = (struct af_prerequisite){
        .name = name,
        .answer = answer,
        .evidence = af_arena_text(build->context->arena, evidence == NULL ? "" : evidence),
        .fix = answer == AF_YES ? NULL : af_rung_build_fix(build, id),
        .why = answer == AF_YES ? NULL : af_reasons[id].message};
    if (answer != AF_YES)
        af_rung_add_reason(build->context, id, "%s", evidence == NULL ? "" : evidence);
}

static void add_once(int sms[AF_VIEW_GPUS_MAX], size_t *count, int sm)
{
    for (size_t i = 0; i < *count; i++) {
        if (sms[i] == sm)
            return;
    }
    sms[(*count)++] = sm;
}

static void add_gpu(struct af_rung_build_target *build, int sm)
{
    const int target = af_sm_generation_of(sm).build_target;
    add_once(build->sms, &build->sm_count, target != 0 ? target : sm);
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

static const char *arch_list(const struct af_rung_build_target *build)
{
    return build->sm_count == 0
               ? build->release->archs
               : list_of(build->context->arena, build->sms, build->sm_count, ";");
}

/* Targets that the user named replace the GPUs. */
static bool take_targets(struct af_rung_build_target *build)
{
    const struct af_fit_options *options = build->context->fit->options;
    for (size_t i = 0; i < options->build_target_count && i < AF_VIEW_GPUS_MAX; i++)
        add_gpu(build, options->build_targets[i]);
    if (build->sm_count > 0)
        af_rung_build_row(build, "gpu", AF_YES, AF_REASON_UNKNOWN_GPU,
                          af_arena_format(build->context->arena, "as requested: target%s %s",
                                          build->sm_count > 1 ? "s" : "", arch_list(build)));
    return build->sm_count > 0;
}

/* "NVIDIA GeForce RTX 4090 (sm 8.9), runs code compiled for sm_80"; of several, their names. */
static const char *served_text(const struct af_rung_build_target *build,
                               const bool served[AF_VIEW_GPUS_MAX])
{
    struct af_arena *arena = build->context->arena;
    const char *names = af_view_gpus_text(build->view, served, arena);
    return build->view->gpu_count > 1
               ? names
               : af_arena_format(arena, "%s, runs code compiled for sm_%s", names,
                                 arch_list(build));
}

static void check_gpus(struct af_rung_build_target *build)
{
    if (take_targets(build))
        return;
    const struct af_view *view = build->view;
    bool served[AF_VIEW_GPUS_MAX], left_out[AF_VIEW_GPUS_MAX];
    bool any = false, partly = false;
    for (size_t i = 0; i < view->gpu_count; i++) {
        served[i] = view->gpus[i].sm >= 0 && serves_gpu(build, view->gpus[i].sm) &&
                    !af_view_torch_leaves_out(view, &view->gpus[i]);
        any = any || served[i];
    }
    for (size_t i = 0; i < view->gpu_count; i++) {
        int sm = view->gpus[i].sm;
        const char *evidence = view->gpus[i].text;
        left_out[i] = any && !served[i] && sm >= 0;
        partly = partly || left_out[i];
        if (sm < 0)
            af_rung_build_row(build, "gpu", AF_UNKNOWN, AF_REASON_UNKNOWN_GPU, evidence);
        else if (served[i])
            add_gpu(build, sm);
        else if (!any)
            af_rung_build_row(build, "gpu", AF_NO, AF_REASON_SM_UNSUPPORTED, evidence);
    }
    if (partly)
        af_rung_add_reason(build->context, AF_REASON_GPU_PARTLY, "%s",
                           af_view_gpus_text(view, left_out, build->context->arena));
    if (view->gpu == AF_FACT_ABSENT)
        af_rung_build_row(build, "gpu", AF_NO, AF_REASON_NO_GPU, view->gpu_source);
    else if (view->gpu == AF_FACT_UNKNOWN)
        af_rung_build_row(build, "gpu", AF_UNKNOWN, AF_REASON_UNKNOWN_GPU, view->gpu_source);
    else if (build->sm_count > 0)
        af_rung_build_row(build, "gpu", AF_YES, AF_REASON_UNKNOWN_GPU,
                          served_text(build, served));
}

static void check_platform(struct af_rung_build_target *build)
{
    const struct af_view *view = build->view;
    struct af_version python;
    bool known = view->arch == NULL || strcmp(view->arch, "x86_64") == 0 ||
                 strcmp(view->arch, "aarch64") == 0;
    if (view->os == NULL)
        af_rung_build_row(build, "platform", AF_UNKNOWN, af_view_unknown_platform(view), NULL);
    else if (strcmp(view->os, "linux") != 0 || view->musl || !known)
        af_rung_build_row(build, "platform", AF_NO, AF_REASON_BUILD_PLATFORM,
                          af_arena_format(build->context->arena, "this is %s%s%s", view->os,
                                          view->musl ? " without glibc" : "",
                                          known ? "" : " on another processor"));
    else
        af_rung_build_row(build, "platform", AF_YES, AF_REASON_BUILD_PLATFORM,
                          af_arena_format(build->context->arena, "linux %s",
                                          view->arch == NULL ? "?" : view->arch));
    if (view->python_known && build->release->python_requires != NULL &&
        af_version_parse(view->python_text, strcspn(view->python_text, "td"), &python) &&
        af_specifier_contains(build->release->python_requires, &python) == AF_NO)
        af_rung_build_row(build, "python", AF_NO, AF_REASON_BUILD_PYTHON,
                          af_arena_format(build->context->arena,
                                          "flash-attn %s needs Python %s, this is %s",
                                          build->release->version,
                                          build->release->python_requires, view->python_text));
}

/* The build needs no torch, but the wheel needs one that was compiled for the GPU. */
static void check_torch(struct af_rung_build_target *build)
{
    const struct af_view_torch *torch = &build->view->torch;
    const struct af_view_gpu *without = af_view_torch_lacks_all(build->view);
    const char *need = NULL;
    if (torch->state == AF_FACT_ABSENT)
        af_rung_build_row(build, "torch", AF_NO, AF_REASON_TORCH_MISSING, NULL);
    if (torch->state != AF_FACT_KNOWN)
        return;
    if (torch->cuda_major > 0 &&
        af_driver_serves(build->view, torch->cuda_major, &need) == AF_NO)
        af_rung_build_row(build, "torch", AF_NO, AF_REASON_DRIVER,
                          af_arena_format(build->context->arena, "torch %s needs driver %s",
                                          torch->text, need));
    if (without != NULL)
        af_rung_build_row(build, "torch", AF_NO, AF_REASON_TORCH_SM,
                          af_arena_format(build->context->arena, "torch %s", torch->text));
    if (torch->cuda == AF_FACT_ABSENT && !af_view_uses_rocm(build->view))
        af_rung_build_row(build, "torch", AF_NO, AF_REASON_TORCH_WITHOUT_CUDA, torch->text);
    else if (torch->major == 2 && torch->minor < AF_RUNG_BUILD_TORCH_MINOR)
        af_rung_build_row(build, "torch", AF_NO, AF_REASON_BUILD_TORCH,
                          af_arena_format(build->context->arena, "torch %s", torch->text));
}

/* Copies the options of `anyflash build` that select what to build. */
static void take_words(struct af_rung_build_target *build)
{
    static const char *const usual[] = {"--head-dim", "128", "--dtype", "bf16"};
    const struct af_fit_options *options = build->context->fit->options;
    struct af_rung *rung = build->context->rung;
    bool is_selected = options->build_word_count > 0;
    size_t count = is_selected ? options->build_word_count : AF_COUNT(usual);
    const char **words = af_arena_array(build->context->arena, count, sizeof *words);
    for (size_t i = 0; i < count; i++)
        words[i] = af_arena_text(build->context->arena,
                                 is_selected ? options->build_words[i] : usual[i]);
    rung->build.words = words;
    rung->build.word_count = count;
}

static bool has_gpu(const struct af_view *view, int sm)
{
    for (size_t i = 0; i < view->gpu_count; i++)
        if (view->gpus[i].sm == sm)
            return true;
    return false;
}

/* Whether a wheel that is compiled for one machine is for the other one, too. */
static bool serves(const struct af_view *one, const struct af_view *other)
{
    for (size_t i = 0; i < other->gpu_count; i++)
        if (!has_gpu(one, other->gpus[i].sm))
            return false;
    return af_equal(one->platform, other->platform);
}

/* A build runs on the first machine and makes one wheel. */
static void check_other_machines(struct af_rung_build_target *build)
{
    struct af_rung_context *context = build->context;
    const struct af_view *views = context->fit->views;
    for (size_t i = 1; i < context->fit->view_count; i++) {
        if (serves(build->view, &views[i]))
            continue;
        af_rung_build_row(build, "machines", AF_NO, AF_REASON_MACHINES_DISAGREE,
                          af_arena_format(context->arena, "%s needs another wheel than %s",
                                          views[i].machine->name, build->view->machine->name));
        return;
    }
}

/* A GPU for which nothing can be built, whatever is installed. */
static bool is_of_another_vendor(const struct af_rung_build_target *build)
{
    return build->view->gpu == AF_FACT_ABSENT &&
           build->view->gpu_lack == AF_REASON_GPU_VENDOR &&
           build->context->fit->options->build_target_count == 0;
}

static void refuse_vendor(struct af_rung_build_target *build)
{
    const struct af_view *view = build->view;
    af_rung_build_row(
        build, "gpu", AF_NO, view->amd ? AF_REASON_BUILD_ROCM : AF_REASON_GPU_VENDOR,
        af_arena_format(build->context->arena, "%s is not an NVIDIA GPU", view->gpu_source));
}

/* Whether the driver compiles PTX 7.8, which is that of CUDA 11.8. */
static void check_driver(struct af_rung_build_target *build)
{
    const struct af_view *view = build->view;
    const char *need = NULL;
    enum af_answer answer =
        view->gpu == AF_FACT_KNOWN ? af_driver_compiles(view, 7, 8, NULL, &need) : AF_UNKNOWN;
    if (answer == AF_NO)
        af_rung_build_row(
            build, "driver", AF_NO, AF_REASON_DRIVER,
            af_arena_format(build->context->arena, "%s is installed, 520 or newer is needed",
                            view->driver_text == NULL ? "an older one" : view->driver_text));
    else if (answer == AF_YES)
        af_rung_build_row(build, "driver", AF_YES, AF_REASON_DRIVER,
                          view->driver_text == NULL ? "new enough" : view->driver_text);
}

static void check_needs(struct af_rung_build_target *build)
{
    check_torch(build);
    check_gpus(build);
    if (is_upstream(build))
        af_rung_build_check_tools(build);
    else
        check_driver(build);
    af_rung_build_check_resources(build);
}

static void fit(struct af_rung_build_target *build)
{
    struct af_rung *rung = build->context->rung;
    check_other_machines(build);
    build->context->view = build->view;
    check_platform(build);
    if (is_of_another_vendor(build))
        refuse_vendor(build);
    else
        check_needs(build);
    take_words(build);
    rung->build.prerequisites = build->rows;
    rung->build.prerequisite_count = build->row_count;
    rung->build.arch_list = af_arena_text(build->context->arena, arch_list(build));
    rung->build.flash_attn = af_arena_text(build->context->arena, build->release->version);
    rung->price.download_bytes =
        AF_RUNG_BUILD_SDIST_BYTES + (is_upstream(build) ? 0 : AF_RUNG_BUILD_NVRTC_BYTES);
}

/* The release to build: the one that was asked for, else the newest. */
static const struct af_catalog_flash_release *release_of(const struct af_fit_context *fit)
{
    if (fit->options->version != NULL)
        return af_tables_flash(fit->options->version);
    return af_tables.flash_count == 0 ? NULL : &af_tables.flash[af_tables.flash_count - 1];
}

void af_rung_build(struct af_rung_context *context)
{
    af_rung_start(context, AF_RUNG_BUILD);
    struct af_rung_build_target build = {.context = context,
                                         .view = &context->fit->views[0],
                                         .release = release_of(context->fit)};
    const char *package = context->fit->options->package;
    build.rows = af_arena_array(context->arena, AF_PREREQUISITES_MAX, sizeof *build.rows);
    if (build.release == NULL || (package != NULL && strcmp(package, "flash_attn") != 0))
        af_rung_add_reason(context, AF_REASON_NO_WHEEL_PACKAGE,
                           "only flash_attn 2 can be built");
    else if (strcmp(build.release->version, AF_RUNG_BUILD_FLASH_ATTN) != 0)
        af_rung_add_reason(context, AF_REASON_BUILD_VERSION, "%s, not %s",
                           AF_RUNG_BUILD_FLASH_ATTN, build.release->version);
    else
        fit(&build);
    af_rung_finish(context);
    context->rung->summary = context->rung->answer == AF_NO ? "a build is not possible here"
                                                            : "a wheel of PTX for every torch";
}

enum anyflash_status af_rung_build_alone(const struct af_machine *machine,
                                         const struct af_fit_options *options,
                                         struct af_arena *arena, struct af_rung *rung_out,
                                         struct anyflash_error *err)
{
    const struct af_catalog no_wheels = {0};
    struct af_fit_context fit;
    struct af_decision *decision = af_arena_alloc(arena, sizeof *decision);
    enum anyflash_status status =
        af_fit_context_open(&fit, &no_wheels, &machine, 1, options, arena, err);
    if (status == ANYFLASH_OK) {
        struct af_rung_context context = {.fit = &fit, .decision = decision, .arena = arena};
        af_rung_build(&context);
        *rung_out = decision->rungs[AF_RUNG_BUILD];
    }
    return status;
}
