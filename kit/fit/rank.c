/*
 * rank.c: the order of wheels that fit. The first rule of rank_rules.inc that tells two apart
 * decides.
 */
#include "kit/fit/rank.h"

#include "kit/base/sort.h"
#include "kit/base/text.h"

#include <stdlib.h>
#include <string.h>

/* A rule: how good a wheel is; larger is better. */
typedef int (*goodness)(const struct af_fit_context *fit, const struct af_candidate *candidate);

static int fits(const struct af_fit_context *fit, const struct af_candidate *candidate)
{
    (void)fit;
    return candidate->answer == AF_YES ? 2 : candidate->answer == AF_UNKNOWN ? 1 : 0;
}

static int own_torch(const struct af_fit_context *fit, const struct af_candidate *candidate)
{
    const struct af_view_torch *torch = &fit->views[0].torch;
    const struct af_catalog_wheel *wheel = candidate->wheel;
    if ((candidate->reason_bits & AF_REASON_BIT(AF_REASON_PROVED)) != 0)
        return wheel->torch_major == torch->major && wheel->torch_minor == torch->minor;
    return (candidate->reason_bits & AF_REASON_BIT(AF_REASON_TORCH_NEIGHBOUR)) == 0;
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
static const goodness rules[] = {
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
    for (size_t i = 0; i < AF_COUNT(rules); i++) {
        int left = rules[i](fit, a);
        int right = rules[i](fit, b);
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

void af_rank_sort(const struct af_fit_context *fit, struct af_candidate *candidates,
                  size_t count, size_t *fitting_out, size_t *unknown_out)
{
    size_t fitting = bring(candidates, count, AF_YES);
    size_t unknown = bring(candidates + fitting, count - fitting, AF_UNKNOWN);
    af_sort(candidates, fitting, sizeof candidates[0], compare, fit);
    af_sort(candidates + fitting, unknown, sizeof candidates[0], compare, fit);
    *fitting_out = fitting;
    *unknown_out = unknown;
}
