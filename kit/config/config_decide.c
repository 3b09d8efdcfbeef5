/*
 * config_decide.c: decides within the versions that the project allows, and refuses what
 * installers could not lock.
 */
#include <string.h>

#include "kit/base/text.h"
#include "kit/config/config_project.h"
#include "kit/formats/version.h"

#define SHOWN_BYTES 160
#define RANGE_BYTES_MAX 1024 /* it is evaluated for every wheel */
#define PYTHONS 30

static struct af_span span_of(const char *text)
{
    return (struct af_span){text, strlen(text)};
}

/* Looks at one machine. */
static void look_at(struct af_config_decider *decider, struct af_machine *machine)
{
    decider->machine = machine;
    decider->here = af_machine_markers(machine);
}

/* Whether a wheel was missing, and not something else. */
static bool lacks_wheel(const struct af_config_lock *lock)
{
    for (size_t i = 0; i < lock->decision_count; i++)
        if (lock->decisions[i].environment_problem != NULL ||
            lock->decisions[i].missing_fact != NULL)
            return false;
    return lock->decision_count > 0;
}

/* Explains why the lock failed, if the project's pins are why. */
static enum anyflash_status explain(struct af_config_decider *decider,
                                    const struct af_config_lock *lock,
                                    struct af_machine *machines, size_t machine_count)
{
    enum anyflash_status status = ANYFLASH_OK;
    bool has = false, failed = false;
    if (!lacks_wheel(lock) || decider->options.has_preference)
        return ANYFLASH_E_UNSUPPORTED;
    struct anyflash_error before = *decider->err;
    for (size_t i = 0; i < machine_count && status == ANYFLASH_OK; i++) {
        look_at(decider, &machines[i]);
        if (af_config_torch_limit(decider) == NULL && decider->options.range == NULL)
            continue;
        status = af_config_torch_has_wheel(decider, &has);
        if (status == ANYFLASH_OK && !has)
            status = af_config_refuse(decider, &failed);
        if (failed)
            return status;
    }
    *decider->err = before;
    return status == ANYFLASH_OK ? ANYFLASH_E_UNSUPPORTED : status;
}

/* uv silently drops a wheel for a Python that the project excludes: fail instead. */
static enum anyflash_status check_python(struct af_config_decider *decider,
                                         struct af_config_lock *lock)
{
    struct af_arena *arena = lock->arena;
    const char *range = decider->project->requires_python;
    bool has[PYTHONS] = {false}, any = false;
    for (size_t i = 0; i < lock->pin_count && range != NULL; i++) {
        int minor = lock->pins[i].python_minor;
        if (minor >= 0 && !af_config_minor_allowed(arena, span_of(range), 3, minor))
            return af_fail(decider->err, ANYFLASH_E_UNSUPPORTED,
                           "the wheel is for Python 3.%d, and requires-python is '%s': an "
                           "installer would lock it and install nothing",
                           minor, af_text_scrub(arena, range, SHOWN_BYTES));
        any |= minor < 0;
        if (minor >= 0 && minor < PYTHONS)
            has[minor] = true;
    }
    bool is_wider = false;
    for (int minor = 0; minor < PYTHONS && range != NULL && !any; minor++)
        is_wider |= !has[minor] && af_config_minor_allowed(arena, span_of(range), 3, minor);
    if (is_wider)
        af_config_lock_note(
            lock,
            "requires-python is '%s', and only Python 3.%d%s gets %s: with "
            "others the project installs without it",
            af_text_scrub(arena, range, SHOWN_BYTES), lock->pins[0].python_minor,
            lock->pin_count > 1 ? " and those of the other machines" : "", lock->package);
    return ANYFLASH_OK;
}

/* uv takes an override instead of what the wheel requires of torch, so it must say the same. */
static enum anyflash_status check_overrides(struct af_config_decider *decider,
                                            const struct af_pin *pin)
{
    const struct af_project *overrides = &decider->project->overrides;
    const struct af_project_requirement *at = NULL;
    struct af_version torch;
    if (pin->torch == NULL || !af_version_parse(pin->torch, strlen(pin->torch), &torch))
        return ANYFLASH_OK;
    while ((at = af_project_next(overrides, at, "torch", &decider->here)) != NULL)
        for (size_t i = 0; i < af_tables.torch_count; i++) {
            const struct af_catalog_torch_release *release = &af_tables.torch[i];
            bool is_own = release->torch_major == torch.release[0] &&
                          release->torch_minor == torch.release[1];
            if (!is_own &&
                af_config_minor_allowed(decider->project->arena, span_of(at->specifier),
                                        release->torch_major, release->torch_minor))
                return af_fail(decider->err, ANYFLASH_E_UNSUPPORTED,
                               "override-dependencies has '%s', which would replace the torch "
                               "%s that the wheel requires: pin torch there",
                               af_text_scrub(decider->project->arena, at->text, SHOWN_BYTES),
                               pin->torch);
        }
    return ANYFLASH_OK;
}

/* The wheel's torch must be one that the project allows; a change of torch may be to others. */
static enum anyflash_status check_torch(struct af_config_decider *decider,
                                        const struct af_pin *pin)
{
    const struct af_config_project *project = decider->project;
    struct af_version torch;
    bool failed = false;
    if (pin->torch == NULL || !af_version_parse(pin->torch, strlen(pin->torch), &torch))
        return ANYFLASH_OK;
    const struct af_project_requirement *elsewhere =
        !project->locks_all ? NULL
                            : af_config_torch_elsewhere(project, &decider->here,
                                                        torch.release[0], torch.release[1]);
    if (elsewhere != NULL)
        return af_fail(decider->err, ANYFLASH_E_UNSUPPORTED,
                       "%s excludes torch %s, which the wheel needs, and uv locks for all "
                       "machines at once: name torch for both in project.dependencies, each "
                       "with a marker",
                       af_config_project_place(project, elsewhere), pin->torch);
    if (af_config_project_allows(project, &decider->here, torch.release[0], torch.release[1]))
        return ANYFLASH_OK;
    enum anyflash_status status = af_config_refuse(decider, &failed);
    return status != ANYFLASH_OK || failed
               ? status
               : af_fail(decider->err, ANYFLASH_E_UNSUPPORTED,
                         "'%s' is for torch %s, which the project excludes", pin->file,
                         pin->torch);
}

/* What was chosen must be installable together with the rest of the project. */
static enum anyflash_status check_pins(struct af_config_decider *decider,
                                       struct af_config_lock *lock, struct af_machine *machines,
                                       size_t machine_count)
{
    enum anyflash_status status = ANYFLASH_OK;
    for (size_t i = 0; i < lock->pin_count && status == ANYFLASH_OK; i++) {
        for (size_t m = 0; m < machine_count; m++)
            if (lock->pins[i].machine == &machines[m])
                look_at(decider, &machines[m]);
        status = check_torch(decider, &lock->pins[i]);
        if (status == ANYFLASH_OK)
            status = check_overrides(decider, &lock->pins[i]);
    }
    return status == ANYFLASH_OK ? check_python(decider, lock) : status;
}

/* The versions of the package that the machines may have; NULL: any. */
static enum anyflash_status find_range(struct af_config_decider *decider,
                                       struct af_machine *machines, size_t machine_count)
{
    struct af_text range = {0};
    for (size_t i = 0; i < machine_count; i++) {
        const struct af_project_requirement *at = NULL;
        look_at(decider, &machines[i]);
        while ((at = af_config_project_next(decider->project, at, decider->project->package,
                                            &decider->here)) != NULL)
            if (at->specifier[0] != '\0' &&
                (range.len == 0 || strstr(range.data, at->specifier) == NULL))
                af_text_format(&range, "%s%s", range.len > 0 ? "," : "", at->specifier);
    }
    bool is_long = range.len > RANGE_BYTES_MAX;
    if (range.len > 0)
        decider->options.range = af_arena_text(decider->project->arena, range.data);
    af_text_release(&range);
    return !is_long ? ANYFLASH_OK
                    : af_fail(decider->err, ANYFLASH_E_LIMIT,
                              "the specifiers of %s have more than %d bytes",
                              decider->project->package, RANGE_BYTES_MAX);
}

enum anyflash_status af_config_project_decide(struct af_config_project *project,
                                              struct af_config_lock *lock,
                                              const struct af_catalog *catalog,
                                              struct af_machine *machines, size_t machine_count,
                                              const struct af_fit_options *options,
                                              struct anyflash_error *err)
{
    struct af_config_decider decider = {
        .project = project, .catalog = catalog, .options = *options, .err = err};
    const struct af_machine **pointers =
        af_arena_array(project->arena, machine_count + 1, sizeof *pointers);
    enum anyflash_status status = find_range(&decider, machines, machine_count);
    *lock = (struct af_config_lock){.arena = project->arena, .package = project->package};
    for (size_t i = 0; i < machine_count && status == ANYFLASH_OK; i++) {
        look_at(&decider, &machines[i]);
        pointers[i] = &machines[i];
        status = af_config_torch_settle(&decider);
    }
    if (status != ANYFLASH_OK)
        return status;
    status = af_config_lock_decide(lock, project->arena, catalog, pointers, machine_count,
                                   &decider.options, err);
    if (status == ANYFLASH_E_UNSUPPORTED)
        status = explain(&decider, lock, machines, machine_count);
    for (size_t i = 0; i < decider.note_count && status == ANYFLASH_OK; i++)
        af_config_lock_note(lock, "%s", decider.notes[i]);
    return status == ANYFLASH_OK ? check_pins(&decider, lock, machines, machine_count) : status;
}
