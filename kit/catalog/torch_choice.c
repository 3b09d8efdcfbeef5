/*
 * torch_choice.c: finds the build of the table of symbols that serves for a torch version, and
 * says how it differs.
 */
#include "kit/catalog/torch_symbols.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "kit/base/text.h"
#include "kit/formats/version.h"

/* The requested torch. */
struct question {
    struct af_version version;
    const char *platform;
    int64_t patch;       /* -1: the newest */
    const char *variant; /* "": the one on PyPI */
};

static int64_t release_number(const struct af_version *version, int place)
{
    return version->release_count > place ? version->release[place] : 0;
}

static bool parse_build(const struct af_catalog_symbol_build *build,
                        struct af_version *version_out)
{
    return af_version_parse(build->version, strlen(build->version), version_out);
}

/* "cu128" is 12; -1 for "cpu" and anything else. */
static int cuda_major(const char *variant)
{
    int64_t digits;
    if (!af_starts_with(variant, "cu") || !af_parse_i64(variant + 2, 90, 9999, &digits))
        return -1;
    return (int)(digits / 10);
}

/*
 * How much the build differs from the requested torch; -1: it cannot be used. All builds are
 * from PyPI, which has one per release and platform.
 */
static int64_t distance(const struct question *question,
                        const struct af_catalog_symbol_build *build)
{
    struct af_version version;
    if (!parse_build(build, &version) ||
        release_number(&version, 0) != release_number(&question->version, 0) ||
        release_number(&version, 1) != release_number(&question->version, 1))
        return -1;
    int64_t patch = question->patch < 0 ? 100 : question->patch;
    int64_t far = 1000 * llabs(release_number(&version, 2) - patch);
    bool is_same_platform = af_equal(build->platform, question->platform);
    far += is_same_platform ? 0 : 100;
    /* A CPU build lacks symbols of a CUDA build, but not the other way round. */
    bool is_cpu = strcmp(build->variant, "cpu") == 0;
    bool wants_pypi = *question->variant == '\0' && is_same_platform;
    if (is_cpu && !wants_pypi && strcmp(question->variant, "cpu") != 0)
        return -1;
    if (*question->variant != '\0' && strcmp(question->variant, build->variant) != 0)
        far += cuda_major(question->variant) == cuda_major(build->variant) ? 1 : 2;
    return far;
}

static const struct af_catalog_symbol_build *nearest(
    const struct af_catalog_torch_symbols *symbols, const struct question *question)
{
    const struct af_catalog_symbol_build *best = NULL;
    int64_t best_far = INT64_MAX;
    for (size_t i = 0; i < symbols->build_count; i++) {
        int64_t far = distance(question, &symbols->builds[i]);
        if (far >= 0 && far < best_far) {
            best = &symbols->builds[i];
            best_far = far;
        }
    }
    return best;
}

/* Whether the table has the CUDA libraries that the build needs. */
static bool brings_cuda(const struct af_catalog_symbol_build *build)
{
    for (size_t i = 0; i < build->libraries_count; i++) {
        if (!af_catalog_torch_library_is_own(&build->libraries[i]))
            return true;
    }
    return false;
}

/*
 * A build with the CUDA libraries of `variant`: the same variant, preferably of the same
 * torch, or its CUDA major.
 */
static const struct af_catalog_symbol_build *with_cuda(
    const struct af_catalog_torch_symbols *symbols, const struct af_catalog_symbol_build *build,
    const char *variant)
{
    const struct af_catalog_symbol_build *found = NULL;
    if (strcmp(build->variant, variant) == 0 && brings_cuda(build))
        return build;
    for (size_t i = 0; i < symbols->build_count; i++) {
        const struct af_catalog_symbol_build *other = &symbols->builds[i];
        bool is_same = strcmp(other->variant, variant) == 0;
        if (!brings_cuda(other) || cuda_major(other->variant) != cuda_major(variant))
            continue;
        if (is_same && strcmp(other->version, build->version) == 0)
            return other;
        if (is_same || found == NULL || strcmp(found->variant, variant) != 0)
            found = other;
    }
    return found;
}

static const char *refusal(const struct question *question, bool is_version,
                           const struct af_catalog_torch_symbols *symbols,
                           struct af_arena *arena)
{
    char name[64];
    if (!is_version || question->version.release_count < 2)
        return "that is not a version of torch";
    af_version_format(&question->version, true, name, sizeof name);
    if (*question->variant != '\0' && strcmp(question->variant, "cpu") != 0 &&
        cuda_major(question->variant) < 0)
        return af_arena_format(arena, "the symbols of builds such as torch %s are unknown",
                               name);
    if (af_version_is_prerelease(&question->version))
        return af_arena_format(arena, "the symbols of the pre-release torch %s are not known",
                               name);
    return af_arena_format(
        arena, "the symbols of torch %s are not known; the table has torch %s to %s", name,
        symbols->builds[0].version, symbols->builds[symbols->build_count - 1].version);
}

/* The differences between the requested torch and the builds used for it. */
static const char *differences(const struct af_catalog_torch_choice *choice,
                               const struct question *question, struct af_arena *arena)
{
    const struct af_catalog_symbol_build *build = choice->build;
    struct af_version version;
    bool same_patch = question->patch < 0 || (parse_build(build, &version) &&
                                              release_number(&version, 2) == question->patch);
    bool same_cuda = strcmp(choice->variant, build->variant) == 0;
    bool same_platform = af_equal(build->platform, question->platform);
    if (same_patch && same_cuda && same_platform)
        return NULL;
    return af_arena_format(
        arena, "checked against the symbols of torch %s+%s%s%s%s%s", build->version,
        build->variant, same_platform ? "" : " for ", same_platform ? "" : build->platform,
        choice->cuda == NULL || same_cuda ? "" : " with the CUDA libraries of torch ",
        choice->cuda == NULL || same_cuda
            ? ""
            : af_arena_format(arena, "%s+%s", choice->cuda->version, choice->cuda->variant));
}

static void choose(const struct af_catalog_torch_symbols *symbols, struct question *question,
                   struct af_arena *arena, struct af_catalog_torch_choice *out)
{
    const struct af_catalog_symbol_build *build = nearest(symbols, question);
    const char *variant = *question->variant != '\0' ? question->variant
                          : build == NULL            ? ""
                                                     : build->variant;
    char version[64];
    bool is_known =
        *variant != '\0' && (strcmp(variant, "cpu") == 0 || cuda_major(variant) > 0);
    out->cuda_major = cuda_major(variant);
    if (build == NULL || !is_known || af_version_is_prerelease(&question->version)) {
        out->note = refusal(question, true, symbols, arena);
        return;
    }
    out->build = build;
    out->variant = af_arena_text(arena, variant);
    out->cuda = out->cuda_major < 0 ? NULL : with_cuda(symbols, build, variant);
    if (question->patch < 0)
        parse_build(build, &question->version);
    question->version.local[0] = '\0';
    af_version_format(&question->version, false, version, sizeof version);
    out->version = af_arena_format(arena, "%s+%s", version, variant);
    out->note = differences(out, question, arena);
}

enum anyflash_status af_catalog_torch_symbols_choose(
    const struct af_catalog_torch_symbols *symbols, const char *version, const char *platform,
    struct af_arena *arena, struct af_catalog_torch_choice *out, struct anyflash_error *err)
{
    struct question question = {.platform = platform, .variant = "", .patch = -1};
    struct af_catalog_torch_choice chosen = {
        .major_number = -1, .minor_number = -1, .cuda_major = -1};
    (void)err;
    bool is_version = af_version_parse(version, strlen(version), &question.version);
    if (is_version && question.version.release_count >= 2) {
        char local[AF_VERSION_LOCAL_BYTES];
        memcpy(local, question.version.local, sizeof local);
        question.variant = local;
        chosen.major_number = (int)(release_number(&question.version, 0) % INT_MAX);
        chosen.minor_number = (int)(release_number(&question.version, 1) % INT_MAX);
        if (question.version.release_count > 2)
            question.patch = question.version.release[2];
        choose(symbols, &question, arena, &chosen);
    } else {
        chosen.note = refusal(&question, false, symbols, arena);
    }
    *out = chosen;
    return ANYFLASH_OK;
}
