/*
 * tables.c: looks up rows of the tables, whose constants tools/pack_data.c writes.
 */
#include "kit/catalog/tables.h"

#include <stdio.h>
#include <string.h>

#include "kit/base/text.h"
#include "kit/catalog/catalog.h"
#include "kit/formats/version.h"

const struct af_catalog_torch_release *af_tables_torch(int major, int minor)
{
    for (size_t i = 0; i < af_tables.torch_count; i++) {
        if (af_tables.torch[i].torch_major == major && af_tables.torch[i].torch_minor == minor)
            return &af_tables.torch[i];
    }
    return NULL;
}

enum af_answer af_tables_torch_abi(int major, int minor)
{
    const struct af_catalog_torch_release *newest = &af_tables.torch[af_tables.torch_count - 1];
    const struct af_catalog_torch_release *release = af_tables_torch(major, minor);
    bool is_newer = major == newest->torch_major && minor > newest->torch_minor;
    enum af_answer all = AF_UNKNOWN;
    if (release == NULL && is_newer)
        release = newest;
    for (size_t i = 0; release != NULL && i < release->variants_count; i++) {
        const struct af_catalog_torch_variant *variant = &release->variants[i];
        if (variant->cuda_major < 0 || variant->cxx11abi == AF_UNKNOWN)
            continue;
        if (all != AF_UNKNOWN && all != variant->cxx11abi)
            return AF_UNKNOWN;
        all = variant->cxx11abi;
    }
    return all;
}

const struct af_catalog_torch_variant *af_tables_variant(
    const struct af_catalog_torch_release *release, const char *platform, const char *cuda)
{
    for (size_t i = 0; i < release->variants_count; i++) {
        const struct af_catalog_torch_variant *variant = &release->variants[i];
        if (af_equal(variant->platform, platform) && af_equal(variant->cuda, cuda))
            return variant;
    }
    return NULL;
}

const char *af_tables_platform(const char *os, const char *arch)
{
    bool x86_64 = af_equal(arch, "x86_64");
    if (af_equal(os, "linux"))
        return x86_64 ? "linux_x86_64" : af_equal(arch, "aarch64") ? "linux_aarch64" : NULL;
    return af_equal(os, "windows") && x86_64 ? "win_amd64" : NULL;
}

const struct af_advisory *af_tables_advisory(const char *package, const char *version)
{
    struct af_version parsed;
    bool known = package != NULL && version != NULL &&
                 (af_equal(package, "flash-attn") || af_equal(package, "flash_attn")) &&
                 af_version_parse(version, strcspn(version, "+"), &parsed);
    for (size_t i = 0; known && i < af_tables.advisories_count; i++)
        if (af_specifier_contains(af_tables.advisories[i].versions, &parsed) == AF_YES)
            return &af_tables.advisories[i];
    return NULL;
}

const struct af_catalog_torch_variant *af_tables_default(
    const struct af_catalog_torch_release *release, const char *platform)
{
    for (size_t i = 0; i < release->variants_count; i++) {
        const struct af_catalog_torch_variant *variant = &release->variants[i];
        if (variant->is_default && af_equal(variant->platform, platform))
            return variant;
    }
    return NULL;
}

const struct af_cuda_toolkit *af_tables_cuda(int major, int minor)
{
    for (size_t i = 0; i < af_tables.cuda_count; i++) {
        if (af_tables.cuda[i].cuda_major == major && af_tables.cuda[i].cuda_minor == minor)
            return &af_tables.cuda[i];
    }
    return NULL;
}

const struct af_catalog_flash_release *af_tables_flash(const char *version)
{
    size_t low = 0;
    for (size_t high = af_tables.flash_count; low < high;) {
        size_t middle = low + (high - low) / 2;
        int order = strverscmp(af_tables.flash[middle].version, version);
        if (order == 0)
            return &af_tables.flash[middle];
        low = order < 0 ? middle + 1 : low;
        high = order < 0 ? high : middle;
    }
    return NULL;
}

const struct af_catalog_fa4_release *af_tables_fa4(const char *version)
{
    struct af_version wanted, first;
    const struct af_catalog_fa4_release *found = NULL;
    if (!af_version_parse(version, strlen(version), &wanted))
        return NULL;
    for (size_t i = 0; i < af_tables.fa4_count; i++)
        if (af_version_parse(af_tables.fa4[i].first, strlen(af_tables.fa4[i].first), &first) &&
            af_version_compare(&first, &wanted) <= 0)
            found = &af_tables.fa4[i];
    return found;
}

static bool is_newer_build(const struct af_catalog_torch_variant *a,
                           const struct af_catalog_torch_variant *b)
{
    return a->cuda_major > b->cuda_major ||
           (a->cuda_major == b->cuda_major && a->cuda_minor > b->cuda_minor);
}

const struct af_catalog_torch_variant *af_tables_next_build(
    const char *platform, const struct af_catalog_torch_variant *previous)
{
    const struct af_catalog_torch_variant *next = NULL;
    for (size_t i = 0; i < af_tables.torch_count; i++)
        for (size_t v = 0; v < af_tables.torch[i].variants_count; v++) {
            const struct af_catalog_torch_variant *variant = &af_tables.torch[i].variants[v];
            if (variant->cuda_major > 0 &&
                (platform == NULL || af_equal(variant->platform, platform)) &&
                (previous == NULL || is_newer_build(previous, variant)) &&
                (next == NULL || is_newer_build(variant, next)))
                next = variant;
        }
    return next;
}

bool af_words_have(struct af_words words, const char *word)
{
    for (size_t i = 0; i < words.count; i++) {
        if (af_equal(words.items[i], word))
            return true;
    }
    return false;
}

/* Whether `words` is empty, which allows every text, or contains `text`. */
static bool allows(struct af_words words, const char *text)
{
    return words.count == 0 || af_words_have(words, text);
}

static bool allows_start(struct af_words words, const char *text)
{
    for (size_t i = 0; i < words.count; i++) {
        if (af_starts_with(text, words.items[i]))
            return true;
    }
    return words.count == 0;
}

static bool allows_torch(struct af_words words, const struct af_catalog_wheel *wheel)
{
    char minor[32];
    if (words.count == 0)
        return true;
    snprintf(minor, sizeof minor, "%d.%d", wheel->torch_major, wheel->torch_minor);
    return af_words_have(words, minor);
}

static bool allows_version(const char *specifiers, const char *text)
{
    struct af_version version;
    if (specifiers == NULL)
        return true;
    return af_version_parse(text, strlen(text), &version) &&
           af_specifier_contains(specifiers, &version) == AF_YES;
}

static bool allows_local(const char *part, const char *local)
{
    return part == NULL || (local != NULL && strcasestr(local, part) != NULL);
}

static bool allows_answer(enum af_answer wanted, enum af_answer answer)
{
    return wanted == AF_UNKNOWN || wanted == answer;
}

bool af_trap_matches(const struct af_trap *trap, const struct af_catalog_wheel *wheel)
{
    return (!trap->match.official || wheel->official) &&
           allows_answer(trap->match.label, wheel->cxx11abi) &&
           allows_answer(trap->match.metadata_has_local, wheel->metadata_has_local) &&
           allows_answer(trap->match.valid_name, wheel->valid_name ? AF_YES : AF_NO) &&
           allows(trap->match.packages, wheel->package) &&
           allows(trap->match.sources, wheel->source) &&
           allows(trap->match.builds, wheel->torch_build_cuda) &&
           allows_start(trap->match.platforms, wheel->platform) &&
           allows_torch(trap->match.torch, wheel) &&
           allows_local(trap->match.local_has, wheel->local) &&
           allows_version(trap->match.versions, wheel->version);
}
