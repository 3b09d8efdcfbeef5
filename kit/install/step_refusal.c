/*
 * step_refusal.c: refuses the steps of a plan that are not carried out here: environments,
 * installers and builds, which are the user's, and changes that the user did not allow.
 */
#include "kit/install/step_refusal.h"

#include <string.h>

static void refuse(struct af_install_refusal *out, const char *reason, const char *hint)
{
    out->reason = reason;
    out->hint = hint;
}

/* Refuses a change of torch, unless the user allowed that version. */
static void check_torch(const struct af_run *run, const struct af_step *step,
                        struct af_install_refusal *out)
{
    struct af_arena *arena = run->arena;
    const char *wanted = step->requirements[0];
    const char *named = run->torch_change;
    const char *version = strstr(wanted, "==");
    version = version == NULL ? "any" : version + 2;
    if (named != NULL && strcmp(named, version) == 0)
        return;
    if (named != NULL)
        refuse(
            out,
            af_arena_format(arena, "the plan changes torch to %s, not to %s", version, named),
            NULL);
    else
        refuse(out,
               af_arena_format(arena, "the plan would install or change torch: %s", wanted),
               af_arena_format(arena,
                               "check which packages change with it, then add "
                               "--allow-torch-change %s",
                               version));
}

void af_install_check_step(const struct af_run *run, const struct af_step *step,
                           struct af_install_refusal *out)
{
    struct af_arena *arena = run->arena;
    const char *command = af_step_command(step, AF_SHELL_POSIX, arena);
    const char *refusal;
    *out = (struct af_install_refusal){NULL, NULL};
    switch (step->kind) {
    case AF_STEP_ENVIRONMENT:
        refuse(out,
               af_fact_truth(&run->machine->python.externally_managed) == AF_YES
                   ? "packages cannot be installed into this Python: its distribution manages "
                     "it"
                   : "packages cannot be installed into this Python: its folder is not "
                     "writable",
               af_arena_format(arena,
                               "create an environment first: %s; then install with "
                               "--python .venv",
                               command));
        break;
    case AF_STEP_TOOL:
        refuse(out, af_arena_format(arena, "an installer is missing: %s", step->title),
               command);
        break;
    case AF_STEP_BUILD:
        refuse(out, "no wheel fits: flash-attn would have to be compiled",
               "`anyflash plan` shows the commands of a build and what it needs");
        break;
    case AF_STEP_TORCH:
        check_torch(run, step, out);
        break;
    case AF_STEP_OWN:
        refusal = af_plan_package_refusal(run->machine, step->stand_in, arena);
        if (refusal != NULL)
            refuse(out, refusal, NULL);
        break;
    default:
        break;
    }
}
