/*
 * verdict.c: applies the rules in order, and turns their reasons into an answer. Of two wheels
 * that fit, the first rule of rank_rules.inc that tells them apart decides.
 */
#include "kit/fit/verdict.h"
#include "kit/base/sort.h"
#include "kit/base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define DETAIL_BYTES 512

/* A rule: how good a wheel is; larger is better. */
typedef int (*goodness)(const struct af_fit_context *fit, const struct af_candidate *candidate);

/* clang-format off */
#define BIT_IF(id, group, effect, wanted) \
    | (AF_REASON_GROUP_##group <= AF_REASON_GROUP_REMARK && AF_REASON_##effect == (wanted) \
           ? UINT64_C(1) << ((int)AF_REASON_##id & 63) : 0)
#define AF_REASON(id, text_id, group, effect, ...) BIT_IF(id, group, effect, AF_REASON_BLOCKS)
static const uint64_t blocking = 0
#include "kit/fit/reasons.inc"
    ;
#undef AF_REASON
#define AF_REASON(id, text_id, group, effect, ...) BIT_IF(id, group, effect, AF_REASON_OPEN)
static const uint64_t opening = 0
#include "kit/fit/reasons.inc"
    ;
#undef AF_REASON
/* clang-format on */

bool af_candidate_fits_but_for_facts(const struct af_candidate *candidate)
{
    uint64_t open = candidate->reason_bits & opening;
    if (candidate->answer != AF_UNKNOWN)
        return false;
    for (; open != 0; open &= open - 1)
        if (!af_starts_with(af_reasons[__builtin_ctzll(open)].text_id, "unknown-"))
            return false;
    return true;
}

/* Addresses of official files are certain, and a proof has read the file. */
static bool may_not_exist(const struct af_candidate *candidate)
{
    const struct af_catalog_wheel *wheel = candidate->wheel;
    return !wheel->listed && !wheel->official && wheel->path == NULL &&
           (candidate->reason_bits & AF_REASON_BIT(AF_REASON_PROVED)) == 0;
}

static int own_torch(const struct af_fit_context *fit, const struct af_candidate *candidate)
{
    const struct af_view_torch *torch = &fit->views[0].torch;
    const struct af_catalog_wheel *wheel = candidate->wheel;
    if ((candidate->reason_bits & AF_REASON_BIT(AF_REASON_PROVED)) != 0)
        return wheel->torch_major == torch->major && wheel->torch_minor == torch->minor;
    return (candidate->reason_bits & AF_REASON_BIT(AF_REASON_TORCH_NEIGHBOUR)) == 0;
}

/*
 * What exists and lacks only a fact of the machine is before what fits and may not exist: to
 * state the fact never leads from the one to the other. The rules below compare what fits but
 * may not exist with what fits but was made for another torch, or for a glibc that is unknown.
 */
static int fits(const struct af_fit_context *fit, const struct af_candidate *candidate)
{
    const struct af_catalog_wheel *wheel = candidate->wheel;
    bool is_sure = !may_not_exist(candidate) && own_torch(fit, candidate) &&
                   (wheel->official || wheel->glibc_minor >= 0);
    if (candidate->answer == AF_YES)
        return is_sure ? 4 : 2;
    if (may_not_exist(candidate))
        return 0;
    return af_candidate_fits_but_for_facts(candidate) && own_torch(fit, candidate) ? 3 : 1;
}

static int upstream(const struct af_fit_context *fit, const struct af_candidate *candidate)
{
    (void)fit;
    const struct af_catalog_wheel *wheel = candidate->wheel;
    return wheel->official || strcmp(wheel->package, "flash_attn") != 0 ||
           af_tables_flash(wheel->version) != NULL;
}

static int official(const struct af_fit_context *fit, const struct af_candidate *candidate)
{
    (void)fit;
    return candidate->wheel->official;
}

/* Whether the C++ ABI in the name, if any, is the one that the extension has. */
static int true_label(const struct af_fit_context *fit, const struct af_candidate *candidate)
{
    (void)fit;
    const struct af_catalog_wheel *wheel = candidate->wheel;
    return wheel->cxx11abi == AF_UNKNOWN || wheel->cxx11abi == wheel->cxx11abi_effective;
}

static int newest(const struct af_fit_context *fit, const struct af_candidate *candidate)
{
    (void)fit;
    return candidate->wheel->version_rank;
}

static int same_cuda(const struct af_fit_context *fit, const struct af_candidate *candidate)
{
    const struct af_view_torch *torch = &fit->views[0].torch;
    int64_t built;
    if (torch->cuda_major < 0 || torch->cuda_minor < 0 ||
        candidate->wheel->torch_build_cuda == NULL ||
        !af_parse_i64(candidate->wheel->torch_build_cuda, 0, 9999, &built))
        return 0;
    return built == torch->cuda_major * 10 + torch->cuda_minor;
}

static int promises(const struct af_fit_context *fit, const struct af_candidate *candidate)
{
    (void)fit;
    return af_equal(candidate->wheel->glibc_basis, "platform_tag");
}

static int settled(const struct af_fit_context *fit, const struct af_candidate *candidate)
{
    (void)fit;
    return -__builtin_popcountll(candidate->reason_bits);
}

/* Not for official files: their releases are complete, and the newest is the best. */
static int seen(const struct af_fit_context *fit, const struct af_candidate *candidate)
{
    const struct af_catalog_wheel *wheel = candidate->wheel;
    (void)fit;
    return wheel->official ? 0 : wheel->listed + (wheel->glibc_minor >= 0);
}

static int consistent(const struct af_fit_context *fit, const struct af_candidate *candidate)
{
    (void)fit;
    return candidate->wheel->metadata_has_local == AF_YES;
}

#define AF_RANK_RULE(function, rule, why) function,
static const goodness orders[] = {
#include "kit/fit/rank_rules.inc"
};
#undef AF_RANK_RULE

static int compare_tags(const char *a, const char *b)
{
    struct af_dotted left = {.count = 0};
    struct af_dotted right = {.count = 0};
    if (a == NULL || b == NULL)
        return (b != NULL) - (a != NULL);
    af_dotted_parse(a + (*a == 'v' ? 1 : 0), &left);
    af_dotted_parse(b + (*b == 'v' ? 1 : 0), &right);
    int order = af_dotted_compare(&right, &left);
    return order != 0 ? order : strcmp(b, a);
}

int af_rank_compare(const struct af_fit_context *fit, const struct af_candidate *a,
                    const struct af_candidate *b)
{
    for (size_t i = 0; i < AF_COUNT(orders); i++) {
        int left = orders[i](fit, a);
        int right = orders[i](fit, b);
        if (left != right)
            return left > right ? -1 : 1;
    }
    int order = compare_tags(a->wheel->release_tag, b->wheel->release_tag);
    order = order != 0 ? order : strcmp(a->wheel->source, b->wheel->source);
    order = order != 0 ? order : strcmp(a->wheel->filename, b->wheel->filename);
    return order != 0 ? order : (a->wheel > b->wheel) - (a->wheel < b->wheel);
}

static int compare(const void *a, const void *b, const void *fit)
{
    return af_rank_compare(fit, a, b);
}

/* Moves candidates whose answer is `answer` to the front; returns their number. */
static size_t bring(struct af_candidate *rest, size_t count, enum af_answer answer)
{
    size_t front = 0;
    for (size_t i = 0; i < count; i++) {
        if (rest[i].answer != answer)
            continue;
        struct af_candidate found = rest[i];
        rest[i] = rest[front];
        rest[front++] = found;
    }
    return front;
}

/* In the order of enum af_reason_group. */
static void (*const rules[])(struct af_fit_wheel_check *check) = {
    af_rule_file,   af_rule_platform, af_rule_python, af_rule_torch, af_rule_cuda,  af_rule_abi,
    af_rule_system, af_rule_gpu,      af_rule_driver, af_rule_peers, af_rule_traps,
};

enum af_answer af_verdict_answer(uint64_t bits)
{
    if ((bits & blocking) != 0)
        return AF_NO;
    return (bits & opening) != 0 ? AF_UNKNOWN : AF_YES;
}

void af_fit_candidates_check(const struct af_fit_context *fit, struct af_candidate *candidates,
                             size_t count, size_t *fitting_out, size_t *unknown_out)
{
    struct af_fit_wheel_check check = {.fit = fit};
    for (size_t v = 0; v < fit->view_count; v++) {
        for (size_t i = 0; i < count; i++)
            candidates[i].reason_bits |=
                af_verdict(&check, &fit->views[v], candidates[i].wheel);
    }
    for (size_t i = 0; i < count; i++)
        candidates[i].answer = af_verdict_answer(candidates[i].reason_bits);
    size_t fitting = bring(candidates, count, AF_YES);
    size_t unknown = bring(candidates + fitting, count - fitting, AF_UNKNOWN);
    af_sort(candidates, fitting + unknown, sizeof candidates[0], compare, fit);
    *fitting_out = fitting;
    *unknown_out = unknown;
}

bool af_candidate_is_provable(const struct af_candidate *candidate)
{
    uint64_t left = candidate->reason_bits & (blocking | opening);
    for (; left != 0; left &= left - 1)
        if (!af_reasons[__builtin_ctzll(left)].settled_by_bytes)
            return false;
    return true;
}

enum af_reason_group af_verdict_group(uint64_t bits)
{
    return (bits & blocking) == 0 ? AF_REASON_REJECTING_GROUPS
                                  : af_reasons[__builtin_ctzll(bits & blocking)].group;
}

bool af_fit_wheel_is_pure(const struct af_catalog_wheel *wheel)
{
    return strcmp(wheel->platform, "any") == 0;
}

int af_fit_wheel_cuda_major(const struct af_catalog_wheel *wheel)
{
    struct af_dotted built;
    if (wheel->cuda_major >= 0)
        return wheel->cuda_major;
    return af_dotted_parse(wheel->torch_build_cuda, &built) ? built.part[0] / 10 : -1;
}

static const struct af_proved_wheel *find_known(const struct af_fit_context *fit,
                                                const struct af_catalog_wheel *wheel)
{
    for (size_t i = 0; i < fit->options->known_count; i++)
        if (fit->options->known[i].wheel == wheel)
            return &fit->options->known[i];
    return NULL;
}

static bool is_proved(const struct af_fit_wheel_check *check)
{
    return check->known != NULL && check->known->loads == AF_YES;
}

const struct af_machine *af_fit_machine_of(const struct af_fit_context *fit,
                                           const struct af_view *view)
{
    return view != NULL && fit->view_count > 1 ? view->machine : NULL;
}

/* "torch 2.10, but torch 2.12.0 is installed; its binaries were built for torch 2.10" */
static const char *proved_detail(const struct af_fit_wheel_check *check, const char *detail)
{
    const char *built_for = check->known->built_for;
    if (built_for == NULL)
        return af_arena_text(check->arena, detail);
    return af_arena_format(check->arena, "%s%sits binaries were built for %s", detail,
                           detail[0] == '\0' ? "" : "; ", built_for);
}

void af_fit_wheel_check_add_reason(struct af_fit_wheel_check *check, enum af_reason_id id,
                                   const char *format, ...)
{
    bool proved = is_proved(check) && af_reasons[id].settled_by_bytes;
    id = proved ? AF_REASON_PROVED : id;
    if ((check->bits & AF_REASON_BIT(id)) != 0)
        return;
    check->bits |= AF_REASON_BIT(id);
    if (check->arena == NULL || check->reason_count == AF_REASON_BITS)
        return;
    char detail[DETAIL_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(detail, sizeof detail, format, args);
    va_end(args);
    const char *kept = proved              ? proved_detail(check, detail)
                       : detail[0] == '\0' ? NULL
                                           : af_arena_text(check->arena, detail);
    check->reasons[check->reason_count++] = (struct af_reason){
        .id = id, .detail = kept, .machine = af_fit_machine_of(check->fit, check->view)};
}

uint64_t af_verdict(struct af_fit_wheel_check *check, const struct af_view *view,
                    const struct af_catalog_wheel *wheel)
{
    if (check->view != view)
        check->platform = NULL;
    check->view = view;
    check->wheel = wheel;
    check->known = find_known(check->fit, wheel);
    check->bits = 0;
    if (check->known != NULL && check->known->loads == AF_NO)
        af_fit_wheel_check_add_reason(check, AF_REASON_PROVED_NOT, "%s",
                                      check->known->evidence == NULL ? ""
                                                                     : check->known->evidence);
    for (size_t i = 0; i < AF_COUNT(rules); i++) {
        rules[i](check);
        if (check->arena == NULL && (check->bits & blocking) != 0)
            break;
    }
    return check->bits;
}

/* Inserts the reasons `added` of one machine into the `count` reasons of `all`, by id. */
static size_t merge(struct af_reason *all, size_t count, const struct af_reason *added,
                    size_t added_count)
{
    for (size_t i = 0; i < added_count; i++) {
        size_t at = 0;
        while (at < count && all[at].id <= added[i].id)
            at++;
        memmove(&all[at + 1], &all[at], (count - at) * sizeof all[0]);
        all[at] = added[i];
        count++;
    }
    return count;
}

static bool same(const struct af_reason *a, const struct af_reason *b)
{
    return a->id == b->id && (a->detail == b->detail || af_equal(a->detail, b->detail));
}

/* Makes one reason, of no machine, of each that all `machine_count` machines give alike. */
static size_t share(struct af_reason *all, size_t count, size_t machine_count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count;) {
        size_t alike = 1;
        while (i + alike < count && same(&all[i], &all[i + alike]))
            alike++;
        all[kept] = all[i];
        if (alike == machine_count)
            all[kept].machine = NULL;
        kept++;
        i += alike == machine_count ? alike : 1;
    }
    return kept;
}

struct af_reason *af_verdict_explain(const struct af_fit_context *fit,
                                     const struct af_catalog_wheel *wheel,
                                     struct af_arena *arena, size_t *count_out)
{
    struct af_reason *all =
        af_arena_array(arena, AF_REASON_BITS * fit->view_count + 1, sizeof *all);
    struct af_reason found[AF_REASON_BITS];
    size_t count = 0;
    for (size_t i = 0; i < fit->view_count; i++) {
        struct af_fit_wheel_check check = {.fit = fit, .arena = arena, .reasons = found};
        af_verdict(&check, &fit->views[i], wheel);
        count = merge(all, count, found, check.reason_count);
    }
    *count_out = share(all, count, fit->view_count);
    return all;
}
