/*
 * plan.c: which steps belong to which rung, and for which environment.
 */
#include "plan/plan.h"

#include "base/text.h"
#include "plan/builder.h"

static bool has_tool(const struct af_machine *machine, const char *name)
{
    for (size_t i = 0; i < machine->tools.count; i++) {
        if (af_fact_is(&machine->tools.rows[i].name, name))
            return true;
    }
    return false;
}

/* uv before pip; uv too where nothing is known: it needs no pip in the environment. */
static struct af_target find_target(const struct af_machine *machine, struct af_arena *arena)
{
    const struct af_python *python = &machine->python;
    const char *kind = af_fact_text_or(&python->kind, "");
    const char *prefix = af_fact_text_or(&python->prefix, NULL);
    const char *executable = af_fact_text_or(&python->executable, NULL);
    if (executable == NULL && prefix != NULL)
        executable = af_arena_format(arena, "%s/bin/python", prefix);
    return (struct af_target){.machine = machine,
                              .python = executable == NULL ? "python" : executable,
                              .prefix = prefix,
                              .uv = has_tool(machine, "uv") || !has_tool(machine, "pip"),
                              .conda = af_equal(kind, "conda") || af_equal(kind, "pixi")};
}

static void make_steps(struct af_builder *builder)
{
    switch (builder->rung->kind) {
    case AF_RUNG_WHEEL:
        af_plan_prepare(builder);
        af_plan_wheel(builder);
        break;
    case AF_RUNG_TORCH_CHANGE:
        af_plan_prepare(builder);
        af_plan_torch(builder);
        break;
    case AF_RUNG_BUILD:
        af_plan_prepare(builder);
        af_plan_build(builder);
        break;
    default:
        af_plan_sdpa(builder);
        break;
    }
}

enum anyflash_status af_plan_make(const struct af_decision *decision,
                                  const struct af_machine *const *machines,
                                  size_t machine_count, struct af_plan *plan,
                                  struct anyflash_error *err)
{
    struct af_plan made = {.rung = decision->recommended};
    if (machine_count == 0)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "no machine to plan for");
    af_arena_init(&made.arena);
    struct af_builder builder = {.arena = &made.arena,
                                 .rung = &decision->rungs[decision->recommended],
                                 .target = find_target(machines[0], &made.arena)};
    builder.steps = af_arena_array(&made.arena, AF_STEPS_MAX, sizeof *builder.steps);
    if (decision->possible)
        make_steps(&builder);
    if (made.arena.failed) {
        af_arena_release(&made.arena);
        return af_fail_memory(err);
    }
    made.steps = builder.steps;
    made.step_count = builder.step_count;
    *plan = made;
    return ANYFLASH_OK;
}

void af_plan_release(struct af_plan *plan)
{
    af_arena_release(&plan->arena);
    *plan = (struct af_plan){.step_count = 0};
}
