/*
 * fuzz_version.c: any text as a version and as specifiers: an accepted version
 * prints to a text that parses as the same version.
 */
#include "kit/formats/version.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_normal_form(const struct af_version *version)
{
    char shown[512];
    struct af_version again;
    af_version_format(version, true, shown, sizeof shown);
    if (!af_version_parse(shown, strlen(shown), &again) ||
        af_version_compare(version, &again) != 0)
        abort();
}

/* "specifiers|version"; without '|' the whole is a version. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    const char *bar = size == 0 ? NULL : memchr(text, '|', size);
    size_t specifier_len = bar == NULL ? 0 : (size_t)(bar - text);
    const char *start = bar == NULL ? text : bar + 1;
    struct af_version version;
    char specifiers[1024];
    if (!af_version_parse(start, size - (size_t)(start - text), &version))
        return 0;
    check_normal_form(&version);
    if (bar == NULL || specifier_len >= sizeof specifiers)
        return 0;
    memcpy(specifiers, text, specifier_len);
    specifiers[specifier_len] = '\0';
    af_specifier_contains(specifiers, &version);
    return 0;
}
