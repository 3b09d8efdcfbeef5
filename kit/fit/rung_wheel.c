/*
 * rung_wheel.c: the first rung: the best published wheel, or which group of rules left none.
 */
#include <stdio.h>
#include <string.h>

#include "kit/base/text.h"
#include "kit/fit/rung.h"
#include "kit/fit/verdict.h"

/*
 * The counts are shown to the reader: 8729 wheels, so many for this platform, of these so many
 * for this Python, ...
 */

static const char *gpu_group_text(const struct af_view *view, struct af_arena *arena)
{
    const struct af_view_gpu *gpu = &view->gpus[0];
    if (view->gpu == AF_FACT_ABSENT)
        return "because no NVIDIA GPU was found";
    if (view->gpu_count != 1 || gpu->sm < 0)
        return "for the GPUs";
    return af_arena_format(arena, "for sm %d.%d", gpu->sm / 10, gpu->sm % 10);
}

/* What the groups ask of a wheel that is for several machines. */
static const char *const groups_of_all[AF_REASON_REJECTING_GROUPS + 1] = {
    [AF_REASON_GROUP_FILE] = "valid and for the kind of GPU",
    [AF_REASON_GROUP_PLATFORM] = "for the platform of each machine",
    [AF_REASON_GROUP_PYTHON] = "for the Python of each",
    [AF_REASON_GROUP_TORCH] = "for the torch of each",
    [AF_REASON_GROUP_CUDA] = "for the CUDA of each torch",
    [AF_REASON_GROUP_ABI] = "for the C++ ABI of each torch",
    [AF_REASON_GROUP_SYSTEM] = "for the C library of each",
    [AF_REASON_GROUP_GPU] = "for the GPUs of each",
    [AF_REASON_GROUP_DRIVER] = "for the driver of each",
    [AF_REASON_GROUP_PEERS] = "that the installed packages of each accept",
};

/* The same of one machine: "for Python 3.12". */
static const char *group_text(const struct af_view *view, enum af_reason_group group,
                              struct af_arena *arena)
{
    const struct af_view_torch *torch = &view->torch;
    switch (group) {
    case AF_REASON_GROUP_FILE:
        return af_view_uses_rocm(view) ? "valid and for AMD GPUs" : "valid and for NVIDIA GPUs";
    case AF_REASON_GROUP_PLATFORM:
        return view->os == NULL ? "for the platform"
                                : af_arena_format(arena, "for %s %s", view->os,
                                                  view->arch == NULL ? "" : view->arch);
    case AF_REASON_GROUP_PYTHON:
        return view->python_text == NULL
                   ? "for the Python"
                   : af_arena_format(arena, "for Python %s", view->python_text);
    case AF_REASON_GROUP_TORCH:
        if (torch->text != NULL)
            return af_arena_format(arena, "for torch %s", torch->text);
        return torch->state == AF_FACT_ABSENT ? "because torch is not installed"
                                              : "for an unknown torch";
    case AF_REASON_GROUP_CUDA:
        if (torch->cuda_major >= 0)
            return af_arena_format(arena, "for CUDA %d", torch->cuda_major);
        return torch->cuda == AF_FACT_ABSENT ? "for a torch without CUDA" : "for torch's CUDA";
    case AF_REASON_GROUP_ABI:
        return "with torch's C++ ABI";
    case AF_REASON_GROUP_SYSTEM:
        return view->glibc.count < 2
                   ? "for the C library"
                   : af_arena_format(arena, "for glibc %d.%d", view->glibc.part[0],
                                     view->glibc.part[1]);
    case AF_REASON_GROUP_GPU:
        return gpu_group_text(view, arena);
    case AF_REASON_GROUP_DRIVER:
        return "for the driver";
    default:
        return "that the installed packages accept";
    }
}

/* The group that leaves none of them; AF_REASON_REJECTING_GROUPS: some are left. */
static enum af_reason_group last_group(const struct af_candidate *candidates, size_t count)
{
    enum af_reason_group last = AF_REASON_GROUP_FILE;
    for (size_t i = 0; i < count; i++) {
        enum af_reason_group group = af_verdict_group(candidates[i].reason_bits);
        last = group > last ? group : last;
    }
    return last;
}

/* The catalog knows nothing of later wheels. */
static const char *listed_text(const struct af_rung_context *context)
{
    const char *date = context->fit->catalog->date;
    return date == NULL ? "published wheels"
                        : af_arena_format(context->arena, "wheels listed by %s", date);
}

/* Fills the counts. */
static void count_filters(struct af_rung_context *context)
{
    struct af_decision *decision = context->decision;
    const struct af_view *view = &context->fit->views[0];
    bool one = context->fit->view_count == 1;
    size_t rejected[AF_REASON_REJECTING_GROUPS + 1] = {0};
    struct af_filter_counts *rows =
        af_arena_array(context->arena, AF_REASON_REJECTING_GROUPS + 1, sizeof *rows);
    for (size_t i = 0; i < decision->candidate_count; i++)
        rejected[af_verdict_group(decision->candidates[i].reason_bits)]++;
    size_t left = decision->candidate_count;
    rows[decision->filter_count++] = (struct af_filter_counts){listed_text(context), left};
    for (int group = 0; group < AF_REASON_REJECTING_GROUPS && left > 0; group++) {
        left -= rejected[group];
        if (rejected[group] > 0)
            rows[decision->filter_count++] = (struct af_filter_counts){
                one ? group_text(view, (enum af_reason_group)group, context->arena)
                    : groups_of_all[group],
                left};
    }
    decision->filter_counts = rows;
}

/* Reasons about the files are useless to the reader if the kind of GPU excludes all of
   them. */
static bool is_said(const struct af_view *view, enum af_reason_group last, enum af_reason_id id)
{
    return af_verdict_group(AF_REASON_BIT(id)) == last &&
           (last != AF_REASON_GROUP_FILE || !af_view_uses_rocm(view) ||
            id == AF_REASON_MACHINE_ROCM);
}

/*
 * Adds the reasons that left `view` no wheel at group `last`, each with the details of one
 * wheel. `candidates` have the verdicts for this view.
 */
static void say_last(struct af_rung_context *context, struct af_view *view,
                     const struct af_candidate *candidates, size_t candidate_count,
                     enum af_reason_group last)
{
    struct af_fit_context alone = *context->fit;
    const char *what = group_text(view, last, context->arena);
    uint64_t told = 0;
    alone.views = view;
    alone.view_count = 1;
    context->view = view;
    for (size_t i = 0; i < candidate_count; i++) {
        const struct af_candidate *candidate = &candidates[i];
        if (af_verdict_group(candidate->reason_bits) != last ||
            (candidate->reason_bits & ~told) == 0)
            continue;
        told |= candidate->reason_bits;
        size_t count;
        const struct af_reason *reasons =
            af_verdict_explain(&alone, candidate->wheel, context->arena, &count);
        for (size_t r = 0; r < count; r++) {
            bool here = is_said(view, last, reasons[r].id);
            enum af_reason_id id = af_reason_if_all(reasons[r].id);
            if (here && id != reasons[r].id)
                af_rung_add_reason(context, id, "%s",
                                   what + (af_starts_with(what, "for ") ? strlen("for ") : 0));
            else if (here)
                af_rung_add_reason(context, id, "%s",
                                   reasons[r].detail == NULL ? "" : reasons[r].detail);
        }
    }
    context->view = NULL;
}

/* The reasons of those of several machines for which there is no wheel at all. */
static void say_each(struct af_rung_context *context)
{
    const struct af_decision *decision = context->decision;
    size_t count = decision->candidate_count;
    struct af_candidate *alone = af_arena_array(context->arena, count, sizeof *alone);
    for (size_t v = 0; v < context->fit->view_count; v++) {
        struct af_fit_wheel_check check = {.fit = context->fit};
        for (size_t i = 0; i < count; i++) {
            alone[i] = decision->candidates[i];
            alone[i].reason_bits = af_verdict(&check, &context->fit->views[v], alone[i].wheel);
        }
        enum af_reason_group last = last_group(alone, count);
        if (last != AF_REASON_REJECTING_GROUPS)
            say_last(context, &context->fit->views[v], alone, count, last);
    }
    if (context->reason_count == 0)
        af_rung_add_reason(context, AF_REASON_MACHINES_DISAGREE, NULL);
}

/* "Dao-AILab, official (pyproject.toml); mjun0812 (--publishers)" */
static const char *publishers_text(const struct af_rung_context *context)
{
    const struct af_fit_options *options = context->fit->options;
    struct af_text text = {0};
    for (size_t i = 0; i < options->publisher_list_count; i++) {
        const struct af_publishers *list = &options->publishers[i];
        for (size_t n = 0; n < list->count; n++)
            af_text_format(&text, "%s%s", n > 0 ? ", " : i > 0 ? "; " : "", list->names[n]);
        af_text_format(&text, " (%s)", list->from);
    }
    return af_text_take(&text, context->arena);
}

static bool has_package(const struct af_rung_context *context)
{
    struct af_fit_options any = *context->fit->options;
    any.publisher_list_count = 0;
    for (size_t i = 0; i < context->fit->catalog->count; i++)
        if (af_fit_wheel_is_asked_for(&any, &context->fit->catalog->wheels[i]))
            return true;
    return false;
}

static void say_no_gpu(struct af_rung_context *context, const struct af_view *view)
{
    context->view = view;
    if (view->gpu == AF_FACT_ABSENT && !af_rung_has_reason(context, AF_REASON_MACHINE_ROCM))
        af_rung_add_reason(context, view->gpu_lack, "%s", view->gpu_source);
    context->view = NULL;
}

static void say_none(struct af_rung_context *context)
{
    const struct af_decision *decision = context->decision;
    const struct af_fit_options *options = context->fit->options;
    count_filters(context);
    if (af_rung_may_be_unlisted(context)) {
        af_rung_say_newer_torch(context);
        context->rung->summary = "no fitting wheel is known";
        return;
    }
    if (decision->candidate_count == 0 && has_package(context))
        af_rung_add_reason(context, AF_REASON_NO_WHEEL_PUBLISHER, "%s",
                           publishers_text(context));
    else if (decision->candidate_count == 0)
        af_rung_add_reason(context, AF_REASON_NO_WHEEL_PACKAGE, "%s%s%s",
                           options->package == NULL ? "flash_attn" : options->package,
                           options->version == NULL ? "" : " ",
                           options->version == NULL ? "" : options->version);
    else if (context->fit->view_count > 1)
        say_each(context);
    else
        say_last(context, &context->fit->views[0], decision->candidates,
                 decision->candidate_count,
                 last_group(decision->candidates, decision->candidate_count));
    for (size_t i = 0; i < context->fit->view_count; i++)
        say_no_gpu(context, &context->fit->views[i]);
    context->rung->summary = "no published wheel fits";
}

/* Whether nothing but its missing address speaks against the wheel. */
static bool lacks_address_only(const struct af_rung_context *context,
                               const struct af_catalog_wheel *wheel)
{
    size_t count;
    struct af_reason *reasons = af_verdict_explain(context->fit, wheel, context->arena, &count);
    count = af_rung_drop_notes(reasons, count);
    for (size_t i = 0; i < count; i++)
        if (reasons[i].id != AF_REASON_NO_ADDRESS)
            return false;
    return count > 0;
}

/*
 * The official wheel that would be better than `best` if its address were known: on PyTorch's
 * own index, whose host the catalog does not name. That of torch's CUDA is preferred.
 */
static void say_official(struct af_rung_context *context, const struct af_catalog_wheel *best)
{
    const struct af_decision *decision = context->decision;
    const struct af_view_torch *torch = &context->fit->views[0].torch;
    const struct af_catalog_wheel *found = NULL;
    char channel[32];
    snprintf(channel, sizeof channel, "cu%d%d", torch->cuda_major, torch->cuda_minor);
    for (size_t i = 0; i < decision->candidate_count && !best->official; i++) {
        const struct af_catalog_wheel *wheel = decision->candidates[i].wheel;
        if (wheel->official && wheel->url == NULL &&
            (found == NULL || af_equal(wheel->release_tag, channel)) &&
            lacks_address_only(context, wheel))
            found = wheel;
    }
    context->rung->official_elsewhere = found;
    if (found != NULL)
        af_rung_add_reason(context, AF_REASON_OFFICIAL_ELSEWHERE, "%s in its channel %s",
                           found->filename, found->release_tag);
}

/* Why the newest version was not taken, if only an installed package speaks against it. */
static void say_newer(struct af_rung_context *context, const struct af_catalog_wheel *best)
{
    const struct af_decision *decision = context->decision;
    const struct af_catalog_wheel *newest = NULL;
    int rank = best->version_rank;
    for (size_t i = 0; i < decision->candidate_count; i++) {
        const struct af_candidate *candidate = &decision->candidates[i];
        if (candidate->answer != AF_NO || candidate->wheel->version_rank <= rank ||
            af_verdict_group(candidate->reason_bits) != AF_REASON_GROUP_PEERS)
            continue;
        newest = candidate->wheel;
        rank = newest->version_rank;
    }
    if (newest == NULL)
        return;
    size_t count;
    struct af_reason *reasons =
        af_verdict_explain(context->fit, newest, context->arena, &count);
    for (size_t i = 0; i < count; i++)
        if (reasons[i].id == AF_REASON_PEER_WINDOW)
            af_rung_add_reason(context, AF_REASON_NEWER_BLOCKED, "%s %s: %s", newest->package,
                               newest->version,
                               reasons[i].detail == NULL ? "" : reasons[i].detail);
}

/* The wheel that would be chosen instead if the glibc were known; it exists, and may fit. */
static void say_glibc(struct af_rung_context *context, const struct af_candidate *best)
{
    const struct af_decision *decision = context->decision;
    const struct af_candidate *other = NULL;
    bool open = best->answer == AF_UNKNOWN;
    for (size_t i = 1; i < decision->candidate_count && other == NULL; i++) {
        struct af_candidate candidate = decision->candidates[i];
        if (open ? candidate.answer != AF_YES : !af_candidate_fits_but_for_facts(&candidate))
            continue;
        candidate.answer = AF_YES;
        if (open || af_rank_compare(context->fit, &candidate, best) < 0)
            other = &decision->candidates[i];
    }
    if (other != NULL &&
        (((open ? best : other)->reason_bits) & AF_REASON_BIT(AF_REASON_UNKNOWN_GLIBC)) != 0)
        af_rung_add_reason(context, AF_REASON_GLIBC_DECIDES, "%s", other->wheel->filename);
}

/*
 * What the kernels of a file built here are for, from a local version such as
 * "any.ptx.hd64.bf16.forward": "head size 64, bf16, forward".
 */
static const char *contents_text(struct af_arena *arena, const char *local)
{
    const char *text = NULL;
    for (const char *at = local; at != NULL; at = strchr(at, '.')) {
        at += *at == '.';
        int len = (int)strcspn(at, ".");
        bool is_head = af_starts_with(at, "hd");
        if (af_starts_with(at, "any") || af_starts_with(at, "ptx"))
            continue;
        if (len == 5 && af_starts_with(at, "plain"))
            continue; /* without window, softcap, ALiBi and dropout */
        if (len == 5 && af_starts_with(at, "split")) {
            text = af_arena_format(arena, "%s%sdecoding", text == NULL ? "has only " : text,
                                   text == NULL ? "" : ", ");
            continue;
        }
        text = af_arena_format(arena, "%s%s%s%.*s", text == NULL ? "has only " : text,
                               text == NULL ? "" : ", ", is_head ? "head size " : "",
                               len - 2 * is_head, at + 2 * is_head);
    }
    return text == NULL ? "complete, as PTX" : text;
}

/* "official", "community build by mjun0812; URL not checked" */
static const char *origin_text(struct af_arena *arena, const struct af_catalog_wheel *wheel)
{
    if (wheel->path != NULL)
        return af_arena_format(arena, "a file on this machine, for every torch; %s",
                               contents_text(arena, wheel->local));
    return af_arena_format(arena, "%s%s%s", wheel->official ? "" : "community build by ",
                           af_fit_publisher(arena, wheel),
                           wheel->listed ? "" : "; URL not checked");
}

static void say_best(struct af_rung_context *context)
{
    const struct af_candidate *best = &context->decision->candidates[0];
    const uint64_t other_torch =
        AF_REASON_BIT(AF_REASON_TORCH_NEIGHBOUR) | AF_REASON_BIT(AF_REASON_WHEEL_TORCH_UNKNOWN);
    if ((best->reason_bits & other_torch) != 0)
        af_rung_say_newer_torch(context);
    size_t count;
    const struct af_reason *reasons =
        af_verdict_explain(context->fit, best->wheel, context->arena, &count);
    for (size_t i = 0; i < count; i++)
        af_rung_take_reason(context, &reasons[i]);
    say_official(context, best->wheel);
    say_newer(context, best->wheel);
    say_glibc(context, best);
    count_filters(context);
    af_rung_set_wheel(context, best->wheel, context->fit->views[0].torch.cuda_major);
    context->rung->prove_first = best->answer == AF_UNKNOWN && af_candidate_is_provable(best);
    context->rung->price.minutes = 1;
    context->rung->price.memory_bytes = 0;
    bool proved = (best->reason_bits & AF_REASON_BIT(AF_REASON_PROVED)) != 0;
    context->rung->summary = af_arena_format(
        context->arena, "%s %s (%s)%s%s%s", best->wheel->package, best->wheel->version,
        origin_text(context->arena, best->wheel), proved ? ", proved to load" : "",
        proved && best->wheel->torch != NULL ? ", made for torch " : "",
        proved && best->wheel->torch != NULL ? best->wheel->torch : "");
}

void af_rung_wheel(struct af_rung_context *context)
{
    const struct af_decision *decision = context->decision;
    af_rung_start(context, AF_RUNG_WHEEL);
    if (decision->fitting_count + decision->unknown_count == 0)
        say_none(context);
    else
        say_best(context);
    if (context->fit->options->publisher_list_count > 0)
        af_rung_add_reason(context, AF_REASON_PUBLISHERS_LIMITED, "%s",
                           publishers_text(context));
    af_rung_finish(context);
    if (context->rung->answer != AF_YES)
        af_rung_find_near_misses(context);
}
