/*
 * rung.c: collects the reasons of a rung; also the last rung, the engine.
 */
#include "kit/fit/rung.h"

#include <stdarg.h>
#include <stdio.h>

#include "kit/base/text.h"
#include "kit/catalog/publisher.h"

static const char *const rung_names[AF_RUNG_COUNT] = {"wheel", "torch-kernels", "build",
                                                      "torch-change", "engine"};

const char *af_rung_name(enum af_rung_kind kind)
{
    return rung_names[kind];
}

bool af_rung_parse(const char *name, enum af_rung_kind *kind_out)
{
    for (size_t i = 0; i < AF_RUNG_COUNT; i++) {
        if (af_equal(name, rung_names[i])) {
            *kind_out = (enum af_rung_kind)i;
            return true;
        }
    }
    return false;
}

const char *af_rung_cost_text(struct af_arena *arena, const struct af_rung_cost *price)
{
    struct af_text text = {0};
    if (price->download_bytes > 0)
        af_text_format(&text, "%s to download", af_text_bytes(arena, price->download_bytes));
    else
        af_text_add(&text, price->download_bytes == 0 ? "nothing to download"
                                                      : "download of unknown size");
    if (price->minutes >= 120)
        af_text_format(&text, ", about %.1f hours", (double)price->minutes / 60);
    else if (price->minutes > 0)
        af_text_format(&text, ", about %d min", (int)price->minutes);
    if (price->memory_bytes > 0)
        af_text_format(&text, ", %s of memory", af_text_bytes(arena, price->memory_bytes));
    if (price->disk_bytes > 0)
        af_text_format(&text, ", %s of disk", af_text_bytes(arena, price->disk_bytes));
    return af_text_take(&text, arena);
}

#define DETAIL_BYTES 512
#define PACKAGE_TORCH_MINOR 4 /* python/anyflash: its operators need torch 2.4 or newer */

static size_t reasons_max(const struct af_fit_context *fit)
{
    return AF_RUNG_REASONS_MAX * fit->view_count;
}

void af_rung_start(struct af_rung_context *context, enum af_rung_kind kind)
{
    context->rung = &context->decision->rungs[kind];
    *context->rung = (struct af_rung){
        .kind = kind, .answer = AF_UNKNOWN, .summary = "", .price = {-1, -1, -1, -1}};
    context->view = NULL;
    context->reasons =
        af_arena_array(context->arena, reasons_max(context->fit), sizeof context->reasons[0]);
    context->reason_count = 0;
}

bool af_rung_has_reason(const struct af_rung_context *context, enum af_reason_id id)
{
    for (size_t i = 0; i < context->reason_count; i++) {
        if (context->reasons[i].id == id)
            return true;
    }
    return false;
}

/* Whether this machine gave the reason already, or all machines did. */
static bool is_there(const struct af_rung_context *context, enum af_reason_id id,
                     const struct af_machine *machine)
{
    for (size_t i = 0; i < context->reason_count; i++) {
        const struct af_reason *reason = &context->reasons[i];
        if (reason->id == id && (reason->machine == NULL || reason->machine == machine))
            return true;
    }
    return false;
}

void af_rung_take_reason(struct af_rung_context *context, const struct af_reason *reason)
{
    if (context->reasons != NULL && context->reason_count < reasons_max(context->fit) &&
        !is_there(context, reason->id, reason->machine))
        context->reasons[context->reason_count++] = *reason;
}

void af_rung_add_reason(struct af_rung_context *context, enum af_reason_id id,
                        const char *format, ...)
{
    char detail[DETAIL_BYTES] = "";
    if (format != NULL) {
        va_list args;
        va_start(args, format);
        vsnprintf(detail, sizeof detail, format, args);
        va_end(args);
    }
    const struct af_reason reason = {
        .id = id,
        .detail = detail[0] == '\0' ? NULL : af_arena_text(context->arena, detail),
        .machine = af_fit_machine_of(context->fit, context->view)};
    af_rung_take_reason(context, &reason);
}

bool af_rung_python_package_fits(const struct af_rung_context *context)
{
    if (context->fit->options->lacks_package)
        return false;
    for (size_t i = 0; i < context->fit->view_count; i++) {
        const struct af_view *view = &context->fit->views[i];
        const struct af_view_torch *torch = &view->torch;
        bool old =
            torch->state == AF_FACT_KNOWN &&
            (torch->major < 2 || (torch->major == 2 && torch->minor < PACKAGE_TORCH_MINOR));
        bool elsewhere = (view->os != NULL && !af_equal(view->os, "linux")) ||
                         (view->arch != NULL && !af_equal(view->arch, "x86_64") &&
                          !af_equal(view->arch, "aarch64"));
        if (old || elsewhere)
            return false;
    }
    return true;
}

void af_rung_set_wheel(struct af_rung_context *context, const struct af_catalog_wheel *wheel,
                       int cuda_major)
{
    const struct af_catalog_fa4_release *fa4 = af_catalog_fa4(wheel);
    context->rung->wheel = wheel;
    if (fa4 == NULL || fa4->needs.count == 0)
        return;
    const char **needs = af_arena_array(context->arena, fa4->needs.count, sizeof *needs);
    for (size_t i = 0; i < fa4->needs.count; i++)
        needs[i] = af_arena_text(context->arena, fa4->needs.items[i]);
    if (cuda_major >= 13 && fa4->needs_cuda13 != NULL)
        needs[0] = af_arena_text(context->arena, fa4->needs_cuda13);
    context->rung->needs = needs;
    context->rung->need_count = fa4->needs.count;
}

void af_rung_finish(struct af_rung_context *context)
{
    enum af_answer answer = AF_YES;
    for (size_t i = 0; i < context->reason_count; i++) {
        enum af_reason_effect effect = af_reasons[context->reasons[i].id].effect;
        if (effect == AF_REASON_BLOCKS)
            answer = AF_NO;
        else if (effect == AF_REASON_OPEN && answer == AF_YES)
            answer = AF_UNKNOWN;
    }
    context->rung->answer = answer;
    context->rung->reasons = context->reasons;
    context->rung->reason_count = context->reason_count;
}

const char *af_fit_publisher(struct af_arena *arena, const struct af_catalog_wheel *wheel)
{
    return wheel->official
               ? "official"
               : af_arena_text_n(arena, wheel->source, af_publisher_len(wheel->source));
}

/*
 * The last rung: exact attention where no CUDA kernel can be used: CPU tensors,
 * old GPUs, machines without a GPU. It is torch's scaled_dot_product_attention,
 * which on CPUs can be computed by the engine of this project.
 */

static bool served(const struct af_view *view)
{
    bool arch = view->arch != NULL &&
                (af_equal(view->arch, "x86_64") || af_equal(view->arch, "aarch64"));
    return arch && (af_equal(view->os, "linux") || af_equal(view->os, "macos") ||
                    af_equal(view->os, "windows"));
}

void af_rung_engine(struct af_rung_context *context)
{
    af_rung_start(context, AF_RUNG_ENGINE);
    for (size_t i = 0; i < context->fit->view_count; i++) {
        const struct af_view *view = &context->fit->views[i];
        context->view = view;
        if (view->os == NULL || view->arch == NULL)
            af_rung_add_reason(context, af_view_unknown_platform(view), NULL);
        else if (!served(view))
            af_rung_add_reason(context, AF_REASON_ENGINE_PLATFORM, "%s %s", view->os,
                               view->arch);
        if (af_view_torch_lacks_all(view) != NULL)
            af_rung_torch_for_gpu(context, i);
    }
    context->view = NULL;
    if (af_rung_python_package_fits(context))
        af_rung_add_reason(context, AF_REASON_ENGINE_BY_PACKAGE, NULL);
    af_rung_finish(context);
    context->rung->price = (struct af_rung_cost){0, 0, 0, 0};
    context->rung->summary =
        context->rung->answer == AF_NO ? "this platform is not supported"
        : af_rung_python_package_fits(context)
            ? "torch's scaled_dot_product_attention, and on CPUs anyflash's kernels"
            : "torch's scaled_dot_product_attention";
}
