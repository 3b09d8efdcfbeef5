/*
 * torch_symbols.c: loads the table of symbols that torch builds export, looks up
 * names in it, and finds the build for a torch version.
 *
 * A hash has 48 bits: the upper 16 choose a run of names (`starts`, computed
 * from their counts when the table is loaded), in which the other 32 are sorted;
 * a run has five names on average. Each name has a pattern, each pattern one
 * mask of libraries per build. The short table ("AFS2", tools/pack_data.c) keeps
 * only the upper 16 of these 32 bits.
 */
#include "kit/catalog/torch_symbols.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "kit/base/text.h"
#include "kit/formats/embedded.h"
#include "kit/formats/version.h"

#define MAGIC "AFS1"
#define MAGIC_SHORT "AFS2"
#define HEAD_BYTES 16u
#define RUNS 65536u

/* ---- the table of names ---- */

static uint64_t number_at(const unsigned char *bytes, size_t count)
{
    uint64_t number = 0;
    for (size_t i = 0; i < count; i++)
        number |= (uint64_t)bytes[i] << (8 * i);
    return number;
}

/* FNV-1a with the final mixing of MurmurHash3; the tool's hash_of() is the same. */
static uint64_t hash_of(const char *name)
{
    uint64_t value = UINT64_C(0xcbf29ce484222325);
    for (; *name != '\0'; name++)
        value = (value ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    value ^= value >> 33;
    value *= UINT64_C(0xff51afd7ed558ccd);
    value ^= value >> 33;
    value *= UINT64_C(0xc4ceb9fe1a85ec53);
    value ^= value >> 33;
    return value >> 16;
}

/* Positions of the parts of the table: see the head of the tool. */
static const unsigned char *rests(const struct af_catalog_torch_symbols *symbols)
{
    return symbols->bytes + HEAD_BYTES + RUNS;
}

static const unsigned char *patterns(const struct af_catalog_torch_symbols *symbols)
{
    return rests(symbols) + symbols->rest_bytes * symbols->name_count;
}

static const unsigned char *masks(const struct af_catalog_torch_symbols *symbols)
{
    return patterns(symbols) + 2 * symbols->name_count;
}

static enum anyflash_status bad_table(struct anyflash_error *err)
{
    return af_fail(err, ANYFLASH_E_INTERNAL, "the embedded table of torch symbols is corrupt");
}

static bool make_starts(struct af_catalog_torch_symbols *symbols)
{
    uint32_t *starts = af_arena_array(&symbols->arena, RUNS + 1, sizeof *starts);
    uint32_t next = 0;
    for (size_t i = 0; i < RUNS; i++) {
        starts[i] = next;
        next += symbols->bytes[HEAD_BYTES + i];
    }
    starts[RUNS] = next;
    symbols->starts = starts;
    return next == symbols->name_count;
}

static bool patterns_are_there(const struct af_catalog_torch_symbols *symbols)
{
    for (size_t i = 0; i < symbols->name_count; i++) {
        if (number_at(patterns(symbols) + 2 * i, 2) >= symbols->pattern_count)
            return false;
    }
    return true;
}

static enum anyflash_status open_names(struct af_catalog_torch_symbols *symbols,
                                       struct anyflash_error *err)
{
    struct af_span bytes;
    enum anyflash_status status =
        af_embedded_open(&af_embedded_torch_symbols, &symbols->arena, &bytes, err);
    if (status != ANYFLASH_OK)
        return status;
    symbols->bytes = (const unsigned char *)bytes.data;
    if (bytes.len < HEAD_BYTES + RUNS)
        return bad_table(err);
    if (memcmp(bytes.data, MAGIC, strlen(MAGIC)) == 0)
        symbols->rest_bytes = 4;
    else if (memcmp(bytes.data, MAGIC_SHORT, strlen(MAGIC_SHORT)) == 0)
        symbols->rest_bytes = 2;
    else
        return bad_table(err);
    symbols->name_count = number_at(symbols->bytes + 4, 4);
    symbols->pattern_count = number_at(symbols->bytes + 8, 4);
    if (number_at(symbols->bytes + 12, 4) != symbols->build_count ||
        bytes.len != HEAD_BYTES + RUNS + (symbols->rest_bytes + 2) * symbols->name_count +
                         8 * symbols->pattern_count * symbols->build_count ||
        !make_starts(symbols) || !patterns_are_there(symbols))
        return bad_table(err);
    return ANYFLASH_OK;
}

/* ---- the builds ---- */

bool af_catalog_torch_library_is_own(const struct af_catalog_torch_library *library)
{
    return af_equal(library->origin, "torch");
}

bool af_catalog_torch_library_is_cuda(const struct af_catalog_torch_library *library)
{
    static const char *const names[] = {"libtorch_cuda", "libc10_cuda", "libtorch_nvshmem",
                                        "libcaffe2_nvrtc"};
    bool is_cuda = !af_catalog_torch_library_is_own(library);
    for (size_t i = 0; i < AF_COUNT(names); i++)
        is_cuda = is_cuda || af_starts_with(library->name, names[i]);
    return is_cuda;
}

enum anyflash_status af_catalog_torch_symbols_load(struct af_catalog_torch_symbols *symbols,
                                                   struct anyflash_error *err)
{
    struct af_catalog_torch_symbols loaded = {.builds = af_catalog_torch_builds.builds,
                                              .build_count =
                                                  af_catalog_torch_builds.builds_count};
    af_arena_init(&loaded.arena);
    enum anyflash_status status = open_names(&loaded, err);
    if (status == ANYFLASH_OK)
        *symbols = loaded;
    else
        af_arena_release(&loaded.arena);
    return status;
}

void af_catalog_torch_symbols_release(struct af_catalog_torch_symbols *symbols)
{
    af_arena_release(&symbols->arena);
    *symbols = (struct af_catalog_torch_symbols){0};
}

uint64_t af_catalog_torch_symbols_in(const struct af_catalog_torch_symbols *symbols,
                                     const struct af_catalog_symbol_build *build,
                                     const char *name)
{
    uint64_t hash = hash_of(name);
    size_t width = symbols->rest_bytes;
    uint32_t wanted = (uint32_t)hash >> (32 - 8 * width);
    size_t run = (size_t)(hash >> 32);
    for (size_t i = symbols->starts[run]; i < symbols->starts[run + 1]; i++) {
        if (number_at(rests(symbols) + width * i, width) != wanted)
            continue;
        size_t pattern = (size_t)number_at(patterns(symbols) + 2 * i, 2);
        size_t column = (size_t)(build - symbols->builds);
        return number_at(masks(symbols) + 8 * (pattern * symbols->build_count + column), 8);
    }
    return 0;
}

bool af_catalog_torch_symbols_cover(const struct af_catalog_torch_symbols *symbols,
                                    const char *platform)
{
    for (size_t i = 0; i < symbols->build_count; i++) {
        if (af_equal(symbols->builds[i].platform, platform))
            return true;
    }
    return false;
}

bool af_catalog_torch_symbols_span(const struct af_catalog_torch_symbols *symbols,
                                   const char *platform, const char *name,
                                   const char **oldest_out, const char **newest_out)
{
    const char *oldest = NULL;
    bool is_covered = af_catalog_torch_symbols_cover(symbols, platform);
    for (size_t i = 0; i < symbols->build_count; i++) {
        const struct af_catalog_symbol_build *build = &symbols->builds[i];
        if ((is_covered && !af_equal(build->platform, platform)) ||
            af_catalog_torch_symbols_in(symbols, build, name) == 0)
            continue;
        oldest = oldest == NULL ? build->version : oldest;
        *newest_out = build->version;
    }
    if (oldest != NULL)
        *oldest_out = oldest;
    return oldest != NULL;
}

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
