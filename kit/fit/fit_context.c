/*
 * fit_context.c: prepares the input of the rules (machines as views, options),
 * and says which wheels were asked for.
 */
#include <string.h>

#include "kit/base/text.h"
#include "kit/catalog/publisher.h"
#include "kit/fit/verdict.h"

static const struct af_fit_options no_options;

static enum anyflash_status check(size_t machine_count, const struct af_fit_options *options,
                                  struct anyflash_error *err)
{
    if (machine_count == 0)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "no machine to decide for");
    if (options->arch != NULL && af_sm_parse(options->arch) < 0) {
        char shown[40];
        af_text_quote(shown, sizeof shown, options->arch, strlen(options->arch));
        return af_fail(err, ANYFLASH_E_ARGUMENT,
                       "'%s' is not a compute capability, such as 8.9 or 9.0", shown);
    }
    return ANYFLASH_OK;
}

enum anyflash_status af_fit_context_open(struct af_fit_context *fit,
                                         const struct af_catalog *catalog,
                                         const struct af_machine *const *machines,
                                         size_t machine_count,
                                         const struct af_fit_options *options,
                                         struct af_arena *arena, struct anyflash_error *err)
{
    *fit = (struct af_fit_context){.catalog = catalog,
                                   .options = options == NULL ? &no_options : options,
                                   .view_count = machine_count};
    enum anyflash_status status = check(machine_count, fit->options, err);
    if (status != ANYFLASH_OK)
        return status;
    fit->views = af_arena_array(arena, machine_count, sizeof *fit->views);
    for (size_t i = 0; fit->views != NULL && i < machine_count; i++)
        af_view_make(machines[i], fit->options->arch, arena, &fit->views[i]);
    return arena->failed ? af_fail_memory(err) : ANYFLASH_OK;
}

/* Compares names as PEP 503 normalises them: '-' and '_' are the same. */
static bool is_package(const char *wheel, const char *wanted)
{
    for (; *wheel != '\0' && *wanted != '\0'; wheel++, wanted++) {
        if (*wheel != *wanted && !(*wheel == '_' && *wanted == '-'))
            return false;
    }
    return *wheel == *wanted;
}

bool af_fit_publisher_is_allowed(const struct af_fit_options *options,
                                 const struct af_catalog_wheel *wheel)
{
    bool all = !options->official_only || wheel->official;
    for (size_t i = 0; i < options->publisher_list_count && all; i++) {
        const struct af_publishers *list = &options->publishers[i];
        bool any = wheel->path != NULL; /* it is the user's own */
        for (size_t n = 0; n < list->count && !any; n++)
            any = af_publisher_is(wheel, list->names[n]);
        all = any;
    }
    return all;
}

bool af_fit_wheel_is_asked_for(const struct af_fit_options *options,
                               const struct af_catalog_wheel *wheel)
{
    const char *package = options->package == NULL ? "flash_attn" : options->package;
    return is_package(wheel->package, package) &&
           (options->version == NULL || strcmp(options->version, wheel->version) == 0) &&
           af_fit_publisher_is_allowed(options, wheel);
}

enum anyflash_status af_fit_provable_wheels(const struct af_catalog *catalog,
                                            const struct af_machine *machine,
                                            const struct af_fit_options *options,
                                            const struct af_catalog_wheel **wheels,
                                            size_t *count, struct af_arena *arena,
                                            struct anyflash_error *err)
{
    struct af_fit_context fit;
    size_t asked = 0;
    size_t fitting;
    size_t unknown;
    enum anyflash_status status =
        af_fit_context_open(&fit, catalog, &machine, 1, options, arena, err);
    if (status != ANYFLASH_OK)
        return status;
    struct af_candidate *candidates = af_arena_array(arena, *count + 1, sizeof *candidates);
    for (size_t i = 0; candidates != NULL && i < *count; i++)
        if (af_fit_wheel_is_asked_for(fit.options, wheels[i]))
            candidates[asked++].wheel = wheels[i];
    if (candidates != NULL)
        af_fit_candidates_check(&fit, candidates, asked, &fitting, &unknown);
    if (candidates == NULL)
        return af_fail_memory(err);
    *count = 0;
    for (size_t i = 0; i < asked; i++)
        if (af_candidate_is_provable(&candidates[i]))
            wheels[(*count)++] = candidates[i].wheel;
    return ANYFLASH_OK;
}

enum anyflash_status af_fit_explain(const struct af_catalog *catalog,
                                    const struct af_machine *machine,
                                    const struct af_fit_options *options,
                                    const struct af_catalog_wheel *wheel,
                                    struct af_arena *arena,
                                    const struct af_reason **reasons_out, size_t *count_out,
                                    struct anyflash_error *err)
{
    struct af_fit_context fit;
    size_t count = 0;
    enum anyflash_status status =
        af_fit_context_open(&fit, catalog, &machine, 1, options, arena, err);
    if (status != ANYFLASH_OK)
        return status;
    const struct af_reason *reasons = af_verdict_explain(&fit, wheel, arena, &count);
    if (arena->failed)
        return af_fail_memory(err);
    *reasons_out = reasons;
    *count_out = count;
    return ANYFLASH_OK;
}
