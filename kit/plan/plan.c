/*
 * plan.c: which steps belong to which rung, and for which environment.
 */
#include "kit/plan/plan.h"

#include "kit/base/shell.h"
#include "kit/base/text.h"
#include "kit/plan/builder.h"

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

void af_builder_begin(struct af_builder *builder, struct af_plan *plan,
                      const struct af_machine *machine)
{
    af_arena_init(&plan->arena);
    *builder = (struct af_builder){.arena = &plan->arena,
                                   .target = find_target(machine, &plan->arena)};
    builder->steps = af_arena_array(&plan->arena, AF_STEPS_MAX, sizeof *builder->steps);
}

enum anyflash_status af_builder_finish(const struct af_builder *builder, struct af_plan *made,
                                       struct af_plan *plan, struct anyflash_error *err)
{
    if (made->arena.failed) {
        af_arena_release(&made->arena);
        return af_fail_memory(err);
    }
    made->steps = builder->steps;
    made->step_count = builder->step_count;
    made->python = builder->target.python;
    made->uv = builder->target.uv;
    *plan = *made;
    return ANYFLASH_OK;
}

enum anyflash_status af_plan_make(const struct af_decision *decision,
                                  const struct af_machine *const *machines,
                                  size_t machine_count, struct af_plan *plan,
                                  struct anyflash_error *err)
{
    struct af_plan made = {.rung = decision->recommended};
    if (machine_count == 0)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "no machine to plan for");
    struct af_builder builder;
    af_builder_begin(&builder, &made, machines[0]);
    builder.rung = &decision->rungs[decision->recommended];
    if (decision->possible)
        make_steps(&builder);
    return af_builder_finish(&builder, &made, plan, err);
}

/* "flash-attn" and its neighbours are tried with torch, as they load its libraries. */
static void add_wheel_steps(struct af_builder *builder, const struct af_step_wheel *wheel,
                            const char *module, const char *const *missing, size_t count)
{
    const char *torch =
        builder->target.machine->torch.version.state == AF_FACT_KNOWN ? "torch, " : "";
    af_plan_file(builder, wheel);
    for (size_t i = 0; i < count; i++) {
        af_builder_install(builder);
        af_builder_word(builder, "--no-deps");
        af_builder_word(builder, missing[i]);
        af_builder_end(builder, AF_STEP_PACKAGES, "install what it needs too");
        af_builder_require(builder, missing[i]);
    }
    bool known = af_equal(module, "flash_attn") && torch[0] != '\0';
    if (known)
        af_plan_check(builder, module);
    else if (module != NULL)
        af_plan_try(builder, af_arena_format(builder->arena, "import %s%s", torch, module),
                    NULL);
}

enum anyflash_status af_plan_make_wheel(const struct af_machine *machine,
                                        const struct af_step_wheel *wheel, const char *module,
                                        const char *const *missing, size_t missing_count,
                                        struct af_plan *plan, struct anyflash_error *err)
{
    struct af_plan made = {.rung = AF_RUNG_WHEEL};
    struct af_builder builder;
    af_builder_begin(&builder, &made, machine);
    struct af_step_wheel kept = {
        .package = af_arena_text(&made.arena, wheel->package),
        .filename = af_arena_text(&made.arena, wheel->filename),
        .url = af_arena_text(&made.arena, wheel->url),
        .path = af_arena_text(&made.arena, wheel->path),
        .sha256 = af_arena_text(&made.arena, wheel->sha256),
        .version = af_arena_text(&made.arena, wheel->version),
    };
    if (!made.arena.failed) {
        af_plan_prepare(&builder);
        add_wheel_steps(&builder, &kept, module, missing, missing_count);
    }
    return af_builder_finish(&builder, &made, plan, err);
}

void af_plan_release(struct af_plan *plan)
{
    af_arena_release(&plan->arena);
    *plan = (struct af_plan){.step_count = 0};
}

const char *af_step_command(const struct af_step *step, struct af_arena *arena)
{
    return af_shell_command(step->environment, step->environment_count, step->argv, step->argc,
                            arena);
}
