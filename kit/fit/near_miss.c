/*
 * near_miss.c: the wheels that people try first, and why each does not fit: the
 * one that flash-attn's setup.py asks for, the closest official one and the
 * closest community one.
 *
 * Source of the guess: setup.py of flash-attn 2.8.3.post1 and newer: torch's
 * major.minor, torch's CUDA major, its C++ ABI, cpXY, linux_<machine>.
 */
#include "kit/base/text.h"
#include "kit/fit/rank.h"
#include "kit/fit/rung.h"

#include <stdlib.h>
#include <string.h>

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

/* The reasons without the notes: why it does not fit, and nothing else. */
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
    const char *what = "what flash-attn's own setup.py asks for";
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
                                 "so a plain install compiles for hours instead"};
    decision->near_misses[decision->near_miss_count++] = (struct af_near_miss){
        .what = what, .filename = filename, .reasons = reason, .reason_count = 1};
}

/* How close a wheel comes: the rules it passes, its torch, its rank. */
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

static void add_closest(struct af_rung_context *context, bool official, const char *what)
{
    const struct af_decision *decision = context->decision;
    const struct af_candidate *best = NULL;
    for (size_t i = 0; i < decision->candidate_count; i++) {
        const struct af_candidate *candidate = &decision->candidates[i];
        if (candidate->answer != AF_NO || candidate->wheel->official != official ||
            candidate->wheel->torch == NULL || af_fit_wheel_is_pure(candidate->wheel))
            continue;
        if (best == NULL || closer(context->fit, candidate, best))
            best = candidate;
    }
    if (best != NULL)
        add(context, what, best->wheel);
}

void af_near_misses(struct af_rung_context *context)
{
    const char *package = context->fit->options->package;
    if (package == NULL || strcmp(package, "flash_attn") == 0)
        add_guess(context);
    add_closest(context, true, "the closest official wheel");
    add_closest(context, false, "the closest community wheel");
}
