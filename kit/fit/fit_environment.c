/*
 * fit_environment.c: why nothing can be installed into the Python environment of
 * a machine. The doctor and the plan report it first.
 */
#include "kit/base/text.h"
#include "kit/fit/fit.h"

const char *af_fit_reinstall_command(const struct af_machine *machine, const char *words,
                                     struct af_arena *arena)
{
    const char *python = af_fact_text_or(&machine->python.executable, NULL);
    bool uv = af_machine_has_tool(machine, "uv") || !af_machine_has_tool(machine, "pip");
    if (python == NULL)
        python = af_fact_text_or(&machine->python.prefix, "python");
    return uv ? af_arena_format(arena, "`uv pip install --python %s --reinstall %s`", python,
                                words)
              : af_arena_format(arena, "`%s -m pip install --force-reinstall %s`", python,
                                words);
}

static const struct af_reason *reason(struct af_arena *arena, enum af_reason_id id,
                                      const char *detail)
{
    struct af_reason *made = af_arena_alloc(arena, sizeof *made);
    if (made != NULL)
        *made = (struct af_reason){.id = id, .detail = af_arena_text(arena, detail)};
    return arena->failed ? NULL : made;
}

/* VIRTUAL_ENV of a removed environment: uv fails, and pip changes another environment. */
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
    return NULL;
}
