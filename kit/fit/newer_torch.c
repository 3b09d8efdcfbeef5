/*
 * newer_torch.c: whether the installed torch came out after the wheels were listed: the catalog
 * then cannot say that there is no wheel for it.
 */
#include <string.h>

#include "kit/base/text.h"
#include "kit/fit/rung.h"
#include "kit/fit/verdict.h"

static bool is_newer(const struct af_rung_context *context, const struct af_view_torch *torch)
{
    return torch->state == AF_FACT_KNOWN &&
           af_catalog_predates_torch(context->fit->catalog, torch->major, torch->minor);
}

static bool has_newer_torch(const struct af_rung_context *context)
{
    for (size_t i = 0; i < context->fit->view_count; i++)
        if (is_newer(context, &context->fit->views[i].torch))
            return true;
    return false;
}

static const struct af_catalog_wheel *newest_version(const struct af_decision *decision)
{
    const struct af_catalog_wheel *newest = decision->candidates[0].wheel;
    for (size_t i = 1; i < decision->candidate_count; i++)
        if (decision->candidates[i].wheel->version_rank > newest->version_rank)
            newest = decision->candidates[i].wheel;
    return newest;
}

/*
 * Whether a wheel of the newest version that was made for exactly this machine would fit it;
 * an unknown Python, system or processor does not speak against it.
 */
static bool could_fit(const struct af_rung_context *context, const struct af_view *view)
{
    const struct af_catalog_wheel *like = newest_version(context->decision);
    const struct af_view_torch *torch = &view->torch;
    const char *platform = af_tables_platform(view->os == NULL ? "linux" : view->os,
                                              view->arch == NULL ? "x86_64" : view->arch);
    const int minor = view->python_known ? view->interpreter.minor : like->python_minor;
    const char *python = af_arena_format(context->arena, "cp3%d", minor);
    const char *abi = view->interpreter.free_threaded
                          ? af_arena_format(context->arena, "%st", python)
                          : python;
    const struct af_catalog_wheel made = {.filename = "",
                                          .url = "",
                                          .source = "",
                                          .package = like->package,
                                          .version = like->version,
                                          .python = python,
                                          .python_minor = (int16_t)minor,
                                          .abi = abi,
                                          .platform = platform,
                                          .torch = torch->text,
                                          .torch_major = (int16_t)torch->major,
                                          .torch_minor = (int16_t)torch->minor,
                                          .cuda_major = (int16_t)torch->cuda_major,
                                          .glibc_minor = -1,
                                          .cxx11abi = AF_UNKNOWN,
                                          .cxx11abi_effective = AF_UNKNOWN,
                                          .metadata_has_local = AF_UNKNOWN,
                                          .valid_name = true,
                                          .listed = true};
    struct af_fit_wheel_check check = {.fit = context->fit};
    return platform != NULL && af_verdict_answer(af_verdict(&check, view, &made)) != AF_NO;
}

bool af_rung_may_be_unlisted(const struct af_rung_context *context)
{
    bool could = context->decision->candidate_count > 0 && has_newer_torch(context) &&
                 !af_fit_wheel_is_pure(newest_version(context->decision));
    for (size_t i = 0; could && i < context->fit->view_count; i++)
        could = could_fit(context, &context->fit->views[i]);
    return could;
}

/* The source on GitHub with the wheel for the newest torch here that is not in `text` yet. */
static const struct af_catalog_wheel *next_source(const struct af_decision *decision,
                                                  const char *text)
{
    const struct af_catalog_wheel *next = NULL;
    for (size_t i = 0; i < decision->candidate_count; i++) {
        const struct af_candidate *candidate = &decision->candidates[i];
        const struct af_catalog_wheel *wheel = candidate->wheel;
        if (af_verdict_group(candidate->reason_bits) > AF_REASON_GROUP_PLATFORM &&
            af_starts_with(wheel->url, "https://github.com/") &&
            (next == NULL || wheel->torch_minor > next->torch_minor) &&
            strstr(text, wheel->source) == NULL)
            next = wheel;
    }
    return next;
}

/* Names this torch and the release pages to look at. */
void af_rung_say_newer_torch(struct af_rung_context *context)
{
    enum { PAGES = 3 };
    const char *pages = "";
    for (int i = 0; i < PAGES; i++) {
        const struct af_catalog_wheel *wheel = next_source(context->decision, pages);
        if (wheel != NULL)
            pages = af_arena_format(context->arena, "%s%shttps://github.com/%s/releases", pages,
                                    i > 0 ? ", " : "", wheel->source);
    }
    for (size_t i = 0; i < context->fit->view_count; i++) {
        const struct af_view *view = &context->fit->views[i];
        context->view = view;
        if (is_newer(context, &view->torch))
            af_rung_add_reason(context, AF_REASON_TORCH_NEWER,
                               "torch %s, but the catalog is of %s; new wheels appear on %s",
                               view->torch.text, context->fit->catalog->date, pages);
    }
    context->view = NULL;
}
