/*
 * config_refusal.c: why no wheel fits within the versions that the project allows, and the
 * nearest pins that have wheels.
 */
#include <string.h>

#include "kit/base/text.h"
#include "kit/config/config_project.h"
#include "kit/formats/version.h"

#define SHOWN_BYTES 160

/* The nearest release of torch with a wheel, whatever the project says of torch; or NULL. */
static enum anyflash_status nearest_torch(struct af_config_decider *decider,
                                          const char **version_out)
{
    const char *now = af_fact_text_or(&decider->machine->torch.version, "");
    struct af_version parsed;
    size_t start = af_tables.torch_count - 1;
    enum anyflash_status status = ANYFLASH_OK;
    if (af_version_parse(now, strlen(now), &parsed))
        for (size_t i = 0; i < af_tables.torch_count; i++)
            if (af_tables.torch[i].torch_major == parsed.release[0] &&
                af_tables.torch[i].torch_minor == parsed.release[1])
                start = i;
    for (size_t step = 1; step < 2 * af_tables.torch_count && status == ANYFLASH_OK; step++) {
        size_t far = (step + 1) / 2;
        size_t i = step % 2 != 0 ? start + far : start - far;
        bool has = false;
        if (i >= af_tables.torch_count)
            continue;
        status = af_config_torch_state(decider, af_tables.torch[i].latest);
        if (status == ANYFLASH_OK)
            status = af_config_torch_has_wheel(decider, &has);
        if (has)
            *version_out = af_tables.torch[i].latest;
        if (has)
            return status;
    }
    return status;
}

/* The version that would be chosen for this torch if any were allowed; or NULL. */
static enum anyflash_status nearest_version(const struct af_config_decider *decider,
                                            const char **version_out)
{
    struct af_decision decision;
    struct af_fit_options options = decider->options;
    const struct af_machine *machines[] = {decider->machine};
    options.range = NULL;
    enum anyflash_status status =
        af_fit_decide(decider->catalog, machines, 1, &options, &decision, decider->err);
    if (status != ANYFLASH_OK)
        return status;
    const struct af_rung *rung = &decision.rungs[AF_RUNG_WHEEL];
    if (rung->answer == AF_YES)
        *version_out = rung->wheel->version;
    af_decision_release(&decision);
    return ANYFLASH_OK;
}

/*
 * The pins that have a wheel: another version of the package, another torch, or both if neither
 * is enough. NULL in *pins_out: there are none.
 */
static enum anyflash_status nearest_pins(struct af_config_decider *decider,
                                         const char **pins_out)
{
    struct af_arena *arena = decider->project->arena;
    const char *package = decider->project->package, *torch = NULL, *version = NULL;
    bool is_both = false;
    enum anyflash_status status =
        decider->options.range == NULL ? ANYFLASH_OK : nearest_version(decider, &version);
    if (status == ANYFLASH_OK)
        status = nearest_torch(decider, &torch);
    if (status == ANYFLASH_OK && version == NULL && torch == NULL &&
        decider->options.range != NULL) {
        decider->options.range = NULL;
        status = nearest_torch(decider, &torch);
        is_both = torch != NULL;
        if (status == ANYFLASH_OK && is_both)
            status = nearest_version(decider, &version);
    }
    *pins_out = NULL;
    if (version != NULL && torch != NULL)
        *pins_out = af_arena_format(arena, "%s==%s%s torch==%s", package, version,
                                    is_both ? " with" : ", or", torch);
    else if (version != NULL)
        *pins_out = af_arena_format(arena, "%s==%s", package, version);
    else if (torch != NULL)
        *pins_out = af_arena_format(arena, "torch==%s", torch);
    return status;
}

enum anyflash_status af_config_refuse(struct af_config_decider *decider, bool *failed_out)
{
    struct af_config_project *project = decider->project;
    struct af_arena *arena = project->arena;
    const char *torch = af_arena_text(
        arena, af_fact_text_or(&decider->machine->torch.version, "of the machine"));
    const char *python = af_fact_text_or(&decider->machine->python.version, "of the machine");
    const struct af_project_requirement *limit = af_config_torch_limit(decider);
    const char *range = decider->options.range == NULL ? "" : decider->options.range;
    const char *pins = NULL;
    enum anyflash_status status = nearest_pins(decider, &pins);
    if (status != ANYFLASH_OK || pins == NULL)
        return status;
    *failed_out = true;
    project->hint = af_arena_format(arena, "the nearest pins that have wheels: %s", pins);
    return af_fail(decider->err, ANYFLASH_E_UNSUPPORTED,
                   "no wheel of %s%s fits torch %s with Python %s%s%s", project->package,
                   af_text_scrub(arena, range, SHOWN_BYTES), torch, python,
                   limit == NULL ? "" : ", and the project has ",
                   limit == NULL ? "" : af_config_project_place(project, limit));
}
