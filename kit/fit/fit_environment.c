/*
 * fit_environment.c: why nothing can be installed into the Python environment of
 * a machine. The doctor and the plan report it first.
 */
#include "kit/base/text.h"
#include "kit/fit/fit.h"

#include <string.h>

const char *af_fit_reinstall_command(const struct af_machine *machine, const char *words,
                                     struct af_arena *arena)
{
    const char *python = af_fact_text_or(&machine->python.executable, NULL);
    if (python == NULL)
        python = af_fact_text_or(&machine->python.prefix, "python");
    if (af_machine_uses_uv(machine))
        return af_arena_format(arena, "`uv pip install --python %s --reinstall %s`", python,
                               words);
    return af_arena_format(arena, "%s%s%s`%s -m pip install --force-reinstall %s`",
                           af_machine_lacks_installer(machine) ? "`" : "",
                           af_machine_lacks_installer(machine) ? python : "",
                           af_machine_lacks_installer(machine) ? " -m ensurepip`, then " : "",
                           python, words);
}

static const struct af_reason *reason(struct af_arena *arena, enum af_reason_id id,
                                      const char *detail)
{
    struct af_reason *made = af_arena_alloc(arena, sizeof *made);
    if (made != NULL)
        *made = (struct af_reason){.id = id, .detail = af_arena_text(arena, detail)};
    return arena->failed ? NULL : made;
}

const char *af_fit_reinstall_torch(const struct af_machine *machine, struct af_arena *arena)
{
    const char *version = af_fact_text_or(&machine->torch.version, NULL);
    if (version == NULL)
        return NULL;
    const char *local = strchr(version, '+');
    const char *words =
        af_arena_format(arena, "torch==%.*s", (int)strcspn(version, "+"), version);
    if (local != NULL && af_machine_uses_uv(machine))
        words = af_arena_format(arena, "--torch-backend %s torch==%s", local + 1, version);
    const char *command =
        words == NULL ? NULL : af_fit_reinstall_command(machine, words, arena);
    return command == NULL
               ? NULL
               : af_arena_format(arena, "reinstall torch in the same version: %s", command);
}

/* "missing: 'torch/lib/libtorch_cpu.so' (its RECORD)"; NULL if the list has none. */
static const char *files_text(struct af_arena *arena, const char *state,
                              const struct af_fact *list)
{
    if (list->state != AF_FACT_KNOWN || list->value.list.count == 0)
        return NULL;
    return af_arena_format(arena, "%s: '%s'%s (%s)", state, list->value.list.items[0],
                           list->value.list.count > 1 ? " and more" : "", list->source);
}

/* The files of torch itself that are missing or cut short; NULL: none. */
static const struct af_reason *damaged_torch(const struct af_machine *machine,
                                             struct af_arena *arena)
{
    const struct af_torch *torch = &machine->torch;
    const char *text = files_text(arena, "missing", &torch->missing_files);
    if (text == NULL)
        text = files_text(arena, "incomplete", &torch->broken_files);
    struct af_reason *made = text == NULL ? NULL : af_arena_alloc(arena, sizeof *made);
    if (made != NULL)
        *made = (struct af_reason){.id = AF_REASON_TORCH_DAMAGED,
                                   .detail = text,
                                   .hint = af_fit_reinstall_torch(machine, arena)};
    return arena->failed ? NULL : made;
}

/* VIRTUAL_ENV names a removed environment: uv fails, and pip installs into another one. */
static bool virtual_env_is_gone(const struct af_machine *machine, const char *folder)
{
    const struct af_fact *chosen_by = &machine->python.chosen_by;
    return folder != NULL && folder[0] != '\0' && chosen_by->state == AF_FACT_KNOWN &&
           !af_fact_is(chosen_by, "VIRTUAL_ENV") && !af_fact_is(chosen_by, "--python");
}

const struct af_reason *af_fit_environment_problem(const struct af_machine *machine,
                                                   struct af_arena *arena)
{
    const struct af_python *python = &machine->python;
    const char *folder = af_machine_variable(machine, "VIRTUAL_ENV");
    if (virtual_env_is_gone(machine, folder))
        return reason(arena, AF_REASON_VIRTUAL_ENV_GONE,
                      af_arena_format(arena, "VIRTUAL_ENV=%s; the Python of %s was found by %s",
                                      folder, af_fact_text_or(&python->prefix, "another"),
                                      python->chosen_by.value.text));
    if (python->prefix.state == AF_FACT_ABSENT)
        return reason(arena, AF_REASON_PYTHON_NOT_FOUND, python->prefix.source);
    if (python->problem.state == AF_FACT_KNOWN)
        return reason(arena, AF_REASON_ENVIRONMENT_BROKEN, python->problem.value.text);
    return damaged_torch(machine, arena);
}
