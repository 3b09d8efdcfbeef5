/*
 * asked.c: checks --package and --version against the catalog, so that a slip of the pen is an
 * error and not a decision without wheels.
 */
#include "kit/fit/asked.h"

#include <string.h>

#include "kit/base/text.h"
#include "kit/fit/verdict.h"

#define NAMES_MAX 8u /* enough to see what kind of names there are */

struct names {
    const char *items[NAMES_MAX];
    size_t count;
};

/* Whether the catalog has a wheel that the package and version of `options` select. */
static bool is_there(const struct af_catalog *catalog, const struct af_fit_options *options)
{
    for (size_t i = 0; i < catalog->count; i++)
        if (af_fit_wheel_is_asked_for(options, &catalog->wheels[i]))
            return true;
    return false;
}

/* Sorted, so that "flash_attn" comes first. */
static void list_packages(const struct af_catalog *catalog, struct names *names)
{
    const char *last = "";
    for (; names->count < NAMES_MAX; names->items[names->count++] = last) {
        const char *next = NULL;
        for (size_t i = 0; i < catalog->count; i++) {
            const char *package = catalog->wheels[i].package;
            if (strcmp(package, last) > 0 && (next == NULL || strcmp(package, next) < 0))
                next = package;
        }
        if (next == NULL)
            break;
        last = next;
    }
}

/* The newest versions of the package, newest first. */
static void list_versions(const struct af_catalog *catalog,
                          const struct af_fit_options *package, struct names *names)
{
    const struct af_catalog_wheel *last = NULL;
    for (; names->count < NAMES_MAX; names->items[names->count++] = last->version) {
        const struct af_catalog_wheel *next = NULL;
        for (size_t i = 0; i < catalog->count; i++) {
            const struct af_catalog_wheel *wheel = &catalog->wheels[i];
            if ((last == NULL || wheel->version_rank < last->version_rank) &&
                (next == NULL || wheel->version_rank > next->version_rank) &&
                af_fit_wheel_is_asked_for(package, wheel))
                next = wheel;
        }
        if (next == NULL)
            break;
        last = next;
    }
}

/* "it has 2.8.3, 2.8.2 and others" */
static const char *hint_text(struct af_arena *arena, const struct names *names)
{
    const char *text = "it has ";
    for (size_t i = 0; i < names->count && text != NULL; i++)
        text = af_arena_format(arena, "%s%s%s", text, i > 0 ? ", " : "", names->items[i]);
    return text == NULL ? NULL
                        : af_arena_format(arena, "%s%s", text,
                                          names->count == NAMES_MAX ? " and others" : "");
}

enum anyflash_status af_fit_check_asked(const struct af_catalog *catalog,
                                        const struct af_fit_options *options,
                                        struct af_arena *arena, const char **hint_out,
                                        struct anyflash_error *err)
{
    struct af_fit_options package = {.package = options->package};
    struct af_fit_options asked = {.package = options->package, .version = options->version};
    const char *name = options->package == NULL ? "flash_attn" : options->package;
    struct names names = {.count = 0};
    if (options->package != NULL && !is_there(catalog, &package)) {
        list_packages(catalog, &names);
        *hint_out = hint_text(arena, &names);
        return af_fail(err, ANYFLASH_E_ARGUMENT, "the catalog has no package '%s'", name);
    }
    if (options->version == NULL || is_there(catalog, &asked))
        return ANYFLASH_OK;
    /* a release of flash-attn 2 can be built if it has no wheel */
    if (strcmp(name, "flash_attn") == 0 && af_tables_flash(options->version) != NULL)
        return ANYFLASH_OK;
    list_versions(catalog, &package, &names);
    *hint_out = hint_text(arena, &names);
    return af_fail(err, ANYFLASH_E_ARGUMENT, "the catalog has no version '%s' of %s",
                   options->version, name);
}
