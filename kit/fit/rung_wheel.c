/*
 * rung_wheel.c: the best published wheel; if none fits, the reasons, and the
 * wheels that people would try first.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/base/text.h"
#include "kit/fit/rank.h"
#include "kit/fit/rung.h"

/*
 * The wheels that people try first, and why each does not fit: the one that
 * flash-attn's setup.py would download, the closest official one and the
 * closest community one.
 *
 * Source of the guessed name: setup.py of flash-attn 2.8.3.post1 and newer:
 * torch's major.minor, torch's CUDA major, its C++ ABI, cpXY, linux_<machine>.
 */

static const char *guess_name(const struct af_rung_context *context)
{
    const struct af_view *view = &context->fit->views[0];
    const struct af_tables *tables = context->fit->tables;
    const struct af_view_torch *torch = &view->torch;
    if (view->platform == NULL || !af_starts_with(view->platform, "linux_") ||
        !view->python_known || torch->state != AF_FACT_KNOWN || torch->cuda_major < 0 ||
        torch->abi == AF_UNKNOWN || tables->flash_count == 0)
        return NULL;
    int minor = view->interpreter.minor;
    int cuda = torch->cuda_major > 13 ? 13 : torch->cuda_major;
    return af_arena_format(
        context->arena, "flash_attn-%s+cu%dtorch%d.%dcxx11abi%s-cp3%d-cp3%d-%s.whl",
        tables->flash[tables->flash_count - 1].version, cuda, torch->major, torch->minor,
        torch->abi == AF_YES ? "TRUE" : "FALSE", minor, minor, view->platform);
}

static const struct af_catalog_wheel *find(const struct af_catalog *catalog,
                                           const char *filename)
{
    for (size_t i = 0; i < catalog->count; i++) {
        if (strcmp(catalog->wheels[i].filename, filename) == 0)
            return &catalog->wheels[i];
    }
    return NULL;
}

/* Removes the notes, so that only the reasons against the wheel are left. */
static size_t drop_notes(struct af_reason *reasons, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (af_reason_effect(reasons[i].id) != AF_REASON_NOTE)
            reasons[kept++] = reasons[i];
    }
    return kept;
}

static void add(struct af_rung_context *context, const char *what,
                const struct af_catalog_wheel *wheel)
{
    struct af_decision *decision = context->decision;
    struct af_near_miss *miss = &decision->near_misses[decision->near_miss_count];
    for (size_t i = 0; i < decision->near_miss_count; i++) {
        if (decision->near_misses[i].wheel == wheel)
            return;
    }
    *miss = (struct af_near_miss){.what = what, .filename = wheel->filename, .wheel = wheel};
    size_t count;
    struct af_reason *reasons = af_verdict_explain(context->fit, wheel, context->arena, &count);
    miss->reason_count = reasons == NULL ? 0 : drop_notes(reasons, count);
    miss->reasons = reasons;
    decision->near_miss_count++;
}

static void add_guess(struct af_rung_context *context)
{
    const char *what = "the wheel that flash-attn's own setup.py tries to download";
    struct af_decision *decision = context->decision;
    const char *filename = guess_name(context);
    const struct af_catalog_wheel *wheel =
        filename == NULL ? NULL : find(context->fit->catalog, filename);
    struct af_reason *reason = NULL;
    if (wheel != NULL)
        add(context, what, wheel);
    if (filename == NULL || wheel != NULL)
        return;
    reason = af_arena_alloc(context->arena, sizeof *reason);
    if (reason == NULL)
        return;
    *reason = (struct af_reason){AF_REASON_WHEEL_404,
                                 "`pip install flash-attn` compiles for hours instead"};
    decision->near_misses[decision->near_miss_count++] = (struct af_near_miss){
        .what = what, .filename = filename, .reasons = reason, .reason_count = 1};
}

/* Which wheel is closer to fitting: by the rules it passes, its torch, its rank. */
static bool closer(const struct af_fit_context *fit, const struct af_candidate *a,
                   const struct af_candidate *b)
{
    int here = fit->views[0].torch.minor;
    int stages[2] = {(int)af_verdict_stage(a->reason_bits),
                     (int)af_verdict_stage(b->reason_bits)};
    int distance[2] = {abs(a->wheel->torch_minor - here), abs(b->wheel->torch_minor - here)};
    if (stages[0] != stages[1])
        return stages[0] > stages[1];
    if (here >= 0 && distance[0] != distance[1])
        return distance[0] < distance[1];
    return af_rank_compare(fit, a, b) < 0;
}

/* On AMD GPUs only wheels for ROCm: every other one is for the wrong kind of GPU. */
static void add_closest(struct af_rung_context *context, bool official, const char *what)
{
    const struct af_decision *decision = context->decision;
    const struct af_view *view = &context->fit->views[0];
    bool rocm_only = view->amd || view->torch.rocm;
    const struct af_candidate *best = NULL;
    for (size_t i = 0; i < decision->candidate_count; i++) {
        const struct af_candidate *candidate = &decision->candidates[i];
        if (candidate->answer != AF_NO || candidate->wheel->official != official ||
            candidate->wheel->torch == NULL || af_fit_wheel_is_pure(candidate->wheel) ||
            (rocm_only && !candidate->wheel->rocm))
            continue;
        if (best == NULL || closer(context->fit, candidate, best))
            best = candidate;
    }
    if (best != NULL)
        add(context, what, best->wheel);
}

static void find_near_misses(struct af_rung_context *context)
{
    const char *package = context->fit->options->package;
    if (package == NULL || strcmp(package, "flash_attn") == 0)
        add_guess(context);
    add_closest(context, true, "the closest official wheel");
    add_closest(context, false, "the closest community wheel");
}

/*
 * The first rung: the best published wheel, or which group of rules left none.
 * The counts are shown to the reader: 8558 wheels, so many for this platform,
 * of these so many for this Python, ...
 */

/* The rung's reason if this reason of the wheels left none. */
static enum af_reason_id rung_reason(enum af_reason_id id)
{
    switch (id) {
    case AF_REASON_PLATFORM_TAG:
        return AF_REASON_NO_WHEEL_PLATFORM;
    case AF_REASON_PYTHON_TAG:
        return AF_REASON_NO_WHEEL_PYTHON;
    case AF_REASON_TORCH_MINOR:
        return AF_REASON_NO_WHEEL_TORCH;
    case AF_REASON_CUDA_MAJOR:
        return AF_REASON_NO_WHEEL_CUDA;
    default:
        return id;
    }
}

static const char *gpu_stage_text(const struct af_view *view, struct af_arena *arena)
{
    const struct af_view_gpu *gpu = &view->gpus[0];
    if (view->gpu == AF_FACT_ABSENT)
        return "because no NVIDIA GPU was found";
    if (view->gpu_count != 1 || gpu->sm < 0)
        return "for the GPUs";
    return af_arena_format(arena, "for sm %d.%d", gpu->sm / 10, gpu->sm % 10);
}

static const char *stage_text(const struct af_view *view, enum af_fit_stage stage,
                              struct af_arena *arena)
{
    const struct af_view_torch *torch = &view->torch;
    switch (stage) {
    case AF_FIT_STAGE_FILE:
        return view->amd || torch->rocm ? "valid and for AMD GPUs"
                                        : "valid and for NVIDIA GPUs";
    case AF_FIT_STAGE_PLATFORM:
        return view->os == NULL ? "for the platform"
                                : af_arena_format(arena, "for %s %s", view->os,
                                                  view->arch == NULL ? "" : view->arch);
    case AF_FIT_STAGE_PYTHON:
        return view->python_text == NULL
                   ? "for the Python"
                   : af_arena_format(arena, "for Python %s", view->python_text);
    case AF_FIT_STAGE_TORCH:
        if (torch->text != NULL)
            return af_arena_format(arena, "for torch %s", torch->text);
        return torch->state == AF_FACT_ABSENT ? "because torch is not installed"
                                              : "for an unknown torch";
    case AF_FIT_STAGE_CUDA:
        if (torch->cuda_major >= 0)
            return af_arena_format(arena, "for CUDA %d", torch->cuda_major);
        return torch->cuda == AF_FACT_ABSENT ? "for a torch without CUDA" : "for torch's CUDA";
    case AF_FIT_STAGE_ABI:
        return "with torch's C++ ABI";
    case AF_FIT_STAGE_SYSTEM:
        return view->glibc.count < 2
                   ? "for the C library"
                   : af_arena_format(arena, "for glibc %d.%d", view->glibc.part[0],
                                     view->glibc.part[1]);
    case AF_FIT_STAGE_GPU:
        return gpu_stage_text(view, arena);
    case AF_FIT_STAGE_DRIVER:
        return "for the driver";
    default:
        return "that the installed packages accept";
    }
}

/*
 * Fills the counts. *last_out is the stage that left none; AF_FIT_STAGE_COUNT:
 * some are left.
 */
static void sieve(struct af_rung_context *context, enum af_fit_stage *last_out)
{
    struct af_decision *decision = context->decision;
    const struct af_view *view = &context->fit->views[0];
    size_t killed[AF_FIT_STAGE_COUNT + 1] = {0};
    struct af_filter_counts *rows =
        af_arena_array(context->arena, AF_FIT_STAGE_COUNT + 1, sizeof *rows);
    *last_out = AF_FIT_STAGE_COUNT;
    if (rows == NULL)
        return;
    for (size_t i = 0; i < decision->candidate_count; i++)
        killed[af_verdict_stage(decision->candidates[i].reason_bits)]++;
    size_t left = decision->candidate_count;
    rows[decision->sieve_count++] = (struct af_filter_counts){"published wheels", left};
    for (int stage = 0; stage < AF_FIT_STAGE_COUNT && left > 0; stage++) {
        left -= killed[stage];
        if (killed[stage] > 0)
            rows[decision->sieve_count++] = (struct af_filter_counts){
                stage_text(view, (enum af_fit_stage)stage, context->arena), left};
        if (left == 0)
            *last_out = (enum af_fit_stage)stage;
    }
    decision->sieve = rows;
}

/* Reasons about the files are useless to the reader if the kind of GPU excludes all of
   them. */
static bool is_said(const struct af_rung_context *context, enum af_fit_stage last,
                    enum af_reason_id id)
{
    const struct af_view *view = &context->fit->views[0];
    bool other_gpu = view->amd || view->torch.rocm;
    return af_verdict_stage(AF_REASON_BIT(id)) == last &&
           (last != AF_FIT_STAGE_FILE || !other_gpu || id == AF_REASON_MACHINE_ROCM);
}

/* Adds the reasons that left no wheel at stage `last`, each with the details of one wheel. */
static void say_last(struct af_rung_context *context, enum af_fit_stage last)
{
    const struct af_decision *decision = context->decision;
    uint64_t told = 0;
    for (size_t i = 0; i < decision->candidate_count; i++) {
        const struct af_candidate *candidate = &decision->candidates[i];
        if (af_verdict_stage(candidate->reason_bits) != last ||
            (candidate->reason_bits & ~told) == 0)
            continue;
        told |= candidate->reason_bits;
        size_t count;
        const struct af_reason *reasons =
            af_verdict_explain(context->fit, candidate->wheel, context->arena, &count);
        for (size_t r = 0; r < count && reasons != NULL; r++) {
            bool here = is_said(context, last, reasons[r].id);
            enum af_reason_id id = rung_reason(reasons[r].id);
            const char *what = decision->sieve[decision->sieve_count - 1].what;
            if (here && id != reasons[r].id)
                af_rung_add_reason(context, id, "%s",
                                   what + (af_starts_with(what, "for ") ? strlen("for ") : 0));
            else if (here)
                af_rung_add_reason(context, id, "%s",
                                   reasons[r].detail == NULL ? "" : reasons[r].detail);
        }
    }
}

/* "Dao-AILab, official (pyproject.toml); mjun0812 (--publishers)" */
static const char *publishers_text(const struct af_rung_context *context)
{
    const struct af_fit_options *options = context->fit->options;
    struct af_text text = {0};
    for (size_t i = 0; i < options->publisher_list_count; i++) {
        const struct af_fit_publishers *list = &options->publishers[i];
        for (size_t n = 0; n < list->count; n++)
            af_text_format(&text, "%s%s", n > 0 ? ", " : i > 0 ? "; " : "", list->names[n]);
        af_text_format(&text, " (%s)", list->from);
    }
    const char *said = af_arena_text(context->arena, af_text_get(&text));
    context->arena->failed = context->arena->failed || text.failed;
    af_text_release(&text);
    return said == NULL ? "" : said;
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

static void say_none(struct af_rung_context *context)
{
    enum af_fit_stage last;
    const struct af_fit_options *options = context->fit->options;
    sieve(context, &last);
    if (context->decision->candidate_count == 0 && has_package(context))
        af_rung_add_reason(context, AF_REASON_NO_WHEEL_PUBLISHER, "%s",
                           publishers_text(context));
    else if (context->decision->candidate_count == 0)
        af_rung_add_reason(context, AF_REASON_NO_WHEEL_PACKAGE, "%s%s%s",
                           options->package == NULL ? "flash_attn" : options->package,
                           options->version == NULL ? "" : " ",
                           options->version == NULL ? "" : options->version);
    else if (last == AF_FIT_STAGE_COUNT)
        af_rung_add_reason(context, AF_REASON_MACHINES_DISAGREE, NULL);
    else
        say_last(context, last);
    const struct af_view *view = &context->fit->views[0];
    if (view->gpu == AF_FACT_ABSENT && !af_rung_has_reason(context, AF_REASON_MACHINE_ROCM))
        af_rung_add_reason(context, view->gpu_lack, "%s",
                           view->gpu_source == NULL ? "" : view->gpu_source);
    context->rung->summary = "no published wheel fits";
}

/* Whether nothing but its missing address speaks against the wheel. */
static bool lacks_address_only(const struct af_rung_context *context,
                               const struct af_catalog_wheel *wheel)
{
    size_t count;
    struct af_reason *reasons = af_verdict_explain(context->fit, wheel, context->arena, &count);
    count = reasons == NULL ? 0 : drop_notes(reasons, count);
    return count == 1 && reasons[0].id == AF_REASON_NO_ADDRESS;
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

static void say_best(struct af_rung_context *context)
{
    enum af_fit_stage last;
    const struct af_candidate *best = &context->decision->candidates[0];
    size_t count;
    const struct af_reason *reasons =
        af_verdict_explain(context->fit, best->wheel, context->arena, &count);
    for (size_t i = 0; i < count && reasons != NULL; i++) {
        if (reasons[i].detail == NULL)
            af_rung_add_reason(context, reasons[i].id, NULL);
        else
            af_rung_add_reason(context, reasons[i].id, "%s", reasons[i].detail);
    }
    say_official(context, best->wheel);
    sieve(context, &last);
    af_rung_set_wheel(context, best->wheel, context->fit->views[0].torch.cuda_major);
    context->rung->prove_first = best->answer == AF_UNKNOWN && af_candidate_is_provable(best);
    context->rung->price.minutes = 1;
    context->rung->price.memory_bytes = 0;
    bool proved = (best->reason_bits & AF_REASON_BIT(AF_REASON_PROVED)) != 0;
    context->rung->summary = af_arena_format(
        context->arena, "%s %s (%s%s)%s%s%s", best->wheel->package, best->wheel->version,
        best->wheel->official ? "" : "community build by ",
        af_fit_publisher(context->arena, best->wheel), proved ? ", proved to load" : "",
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
    for (size_t i = 0; i < context->fit->view_count; i++) {
        const struct af_view_gpu *gpu = af_rung_gpu_without_torch(&context->fit->views[i]);
        if (gpu != NULL)
            af_rung_add_reason(context, AF_REASON_TORCH_SM, "%s (sm %s)", gpu->name,
                               af_sm_text(context->arena, gpu->sm));
    }
    af_rung_finish(context);
    if (context->rung->answer != AF_YES)
        find_near_misses(context);
}
