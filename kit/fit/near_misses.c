/*
 * near_misses.c: the wheels that people try first, and why each does not fit: the one that
 * flash-attn's setup.py would download, the closest official one and the closest community
 * one.
 *
 * Source of the guessed name: setup.py of flash-attn 2.7.0 and newer: torch's major.minor,
 * torch's CUDA major, its C++ ABI, cpXY, linux_<machine>. Before that it chose between two
 * versions of CUDA, which differ by release.
 */
#include <stdlib.h>
#include <string.h>

#include "kit/base/text.h"
#include "kit/fit/rung.h"
#include "kit/fit/verdict.h"

/* The release that is asked for, else the newest; NULL: its setup.py makes other names. */
static const char *guess_version(const struct af_rung_context *context)
{
    const char *asked = context->fit->options->version;
    struct af_version version;
    if (asked == NULL)
        return af_tables.flash_count == 0 ? NULL
                                          : af_tables.flash[af_tables.flash_count - 1].version;
    return af_version_parse(asked, strlen(asked), &version) &&
                   (version.release[0] > 2 ||
                    (version.release[0] == 2 && version.release_count > 1 &&
                     version.release[1] >= 7))
               ? asked
               : NULL;
}

static const char *guess_name(const struct af_rung_context *context)
{
    const struct af_view *view = &context->fit->views[0];
    const struct af_view_torch *torch = &view->torch;
    if (view->platform == NULL || !af_starts_with(view->platform, "linux_") ||
        !view->python_known || torch->state != AF_FACT_KNOWN || torch->cuda_major < 0 ||
        torch->abi == AF_UNKNOWN || guess_version(context) == NULL)
        return NULL;
    int minor = view->interpreter.minor;
    int cuda = torch->cuda_major > 13 ? 13 : torch->cuda_major;
    return af_arena_format(
        context->arena, "flash_attn-%s+cu%dtorch%d.%dcxx11abi%s-cp3%d-cp3%d-%s.whl",
        guess_version(context), cuda, torch->major, torch->minor,
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

size_t af_rung_drop_notes(struct af_reason *reasons, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (af_reasons[reasons[i].id].effect != AF_REASON_NOTE)
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
    miss->reason_count = af_rung_drop_notes(reasons, count);
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
    if (wheel != NULL)
        add(context, what, wheel);
    if (filename == NULL || wheel != NULL)
        return;
    struct af_reason *reason = af_arena_alloc(context->arena, sizeof *reason);
    *reason =
        (struct af_reason){.id = AF_REASON_WHEEL_404,
                           .detail = "without it `pip install flash-attn` compiles for hours"};
    decision->near_misses[decision->near_miss_count++] = (struct af_near_miss){
        .what = what, .filename = filename, .reasons = reason, .reason_count = 1};
}

/* How many releases of torch lie between the wheel's and ours; 0 if ours is unknown. */
static int torch_distance(const struct af_view_torch *torch,
                          const struct af_catalog_wheel *wheel)
{
    enum { RELEASES_OF_A_MAJOR = 100 };
    int apart = (wheel->torch_major - torch->major) * RELEASES_OF_A_MAJOR + wheel->torch_minor -
                torch->minor;
    return torch->state == AF_FACT_KNOWN ? abs(apart) : 0;
}

/*
 * Which wheel is closer to fitting: of those for this platform the one for the nearest torch,
 * this Python and torch's CUDA. A reader can change the others more easily than the torch.
 */
static bool closer(const struct af_fit_context *fit, const struct af_candidate *a,
                   const struct af_candidate *b)
{
    const struct af_view_torch *torch = &fit->views[0].torch;
    const struct af_candidate *const both[] = {a, b};
    int rows[2][5];
    for (int i = 0; i < 2; i++) {
        enum af_reason_group group = af_verdict_group(both[i]->reason_bits);
        rows[i][0] = group > AF_REASON_GROUP_PLATFORM;
        rows[i][1] = -torch_distance(torch, both[i]->wheel);
        rows[i][2] = group != AF_REASON_GROUP_PYTHON;
        rows[i][3] = af_fit_wheel_cuda_major(both[i]->wheel) == torch->cuda_major;
        rows[i][4] = (int)group;
    }
    for (size_t i = 0; i < AF_COUNT(rows[0]); i++)
        if (rows[0][i] != rows[1][i])
            return rows[0][i] > rows[1][i];
    return af_rank_compare(fit, a, b) < 0;
}

/*
 * On AMD GPUs only wheels for ROCm: every other one is for the wrong kind of GPU. If the
 * closest one may fit, because a fact is unknown, it is no miss, and the others are farther.
 */
static void add_closest(struct af_rung_context *context, bool official, const char *what)
{
    const struct af_decision *decision = context->decision;
    const struct af_view *view = &context->fit->views[0];
    bool rocm_only = af_view_uses_rocm(view);
    const struct af_candidate *best = NULL;
    for (size_t i = 0; i < decision->candidate_count; i++) {
        const struct af_candidate *candidate = &decision->candidates[i];
        if (candidate->answer == AF_YES || candidate->wheel->official != official ||
            candidate->wheel->torch == NULL || af_fit_wheel_is_pure(candidate->wheel) ||
            (candidate->wheel->url == NULL && candidate->wheel->path == NULL) ||
            (rocm_only && !candidate->wheel->rocm))
            continue;
        if (best == NULL || closer(context->fit, candidate, best))
            best = candidate;
    }
    if (best != NULL && best->answer == AF_NO)
        add(context, what, best->wheel);
}

void af_rung_find_near_misses(struct af_rung_context *context)
{
    const char *package = context->fit->options->package;
    bool one = context->fit->view_count == 1; /* setup.py would guess for each machine */
    if (one && (package == NULL || strcmp(package, "flash_attn") == 0))
        add_guess(context);
    add_closest(context, true, "the closest official wheel");
    add_closest(context, false, "the closest community wheel");
}
