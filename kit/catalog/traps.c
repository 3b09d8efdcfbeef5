/*
 * traps.c: which known trap is about which wheel. The rows are data/traps.json;
 * what an effect means for a machine is judged elsewhere.
 */
#include "kit/catalog/tables.h"

#include "kit/base/text.h"
#include "kit/formats/version.h"

#include <stdio.h>
#include <string.h>

bool af_words_have(struct af_words words, const char *word)
{
    for (size_t i = 0; i < words.count; i++) {
        if (af_equal(words.items[i], word))
            return true;
    }
    return false;
}

/* No words hold for every text; else one of them must be the text. */
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
    return (!trap->match.official_only || wheel->official) &&
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
