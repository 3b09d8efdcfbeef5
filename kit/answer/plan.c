/*
 * plan.c: turns a decision into steps, depending on the rung and the environment;
 * wheel_steps.c has the steps that install a wheel, kernel_steps.c those without flash-attn,
 * builder.c assembles steps. Also commands as text, and plans without secrets in their
 * addresses.
 */
#include "kit/answer/plan.h"

#include <string.h>

#include "kit/answer/builder.h"
#include "kit/base/text.h"
#include "kit/base/url.h"
#include "kit/compile/offer/offer.h"

/*
 * The steps of a build: `anyflash build` makes the wheel, then it is installed. The wheel's
 * name ends with the glibc that our library needs, so the last line that the build prints is
 * the command to install it.
 */

static void add_build(struct af_builder *builder)
{
    size_t count;
    const char *const *words;
    if (builder->rung->build.flash_attn == NULL || builder->rung->build.arch_list == NULL)
        return;
    words = af_offer_build_command(builder->rung, builder->target.machine, false,
                                   builder->arena, &count);
    af_builder_start(builder, AF_STEP_WORDS(NULL));
    for (size_t i = 0; i < count; i++)
        af_builder_words(builder, AF_STEP_WORDS(words[i]));
    af_builder_end(builder, AF_STEP_BUILD,
                   "compile the kernels that are needed (--full: all of them); --check "
                   "reports whether it can start, --dry-run what it needs");
    af_builder_advice(builder, "install the wheel: the build prints the command at its end");
}

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
                              .uv = af_machine_uses_uv(machine),
                              .lacks_pip = af_machine_lacks_installer(machine),
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
        add_build(builder);
        break;
    default:
        af_plan_kernels(builder);
        break;
    }
}

static void begin(struct af_builder *builder, struct af_plan *plan,
                  const struct af_machine *machine)
{
    af_arena_init(&plan->arena);
    *builder = (struct af_builder){.arena = &plan->arena,
                                   .target = find_target(machine, &plan->arena)};
    builder->steps = af_arena_array(&plan->arena, AF_STEPS_MAX, sizeof *builder->steps);
}

static void finish(const struct af_builder *builder, struct af_plan *made, struct af_plan *plan)
{
    made->steps = builder->steps;
    made->step_count = builder->step_count;
    made->python = builder->target.python;
    made->uv = builder->target.uv;
    made->shell = af_fact_is(&builder->target.machine->platform.os, "windows")
                      ? AF_SHELL_POWERSHELL
                      : AF_SHELL_POSIX;
    *plan = *made;
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
    begin(&builder, &made, machines[0]);
    builder.rung = &decision->rungs[decision->recommended];
    if (decision->possible)
        make_steps(&builder);
    finish(&builder, &made, plan);
    return ANYFLASH_OK;
}

void af_plan_make_package(const struct af_machine *machine, bool stand_in, struct af_plan *plan)
{
    struct af_plan made = {.rung = AF_RUNG_ENGINE};
    struct af_builder builder;
    begin(&builder, &made, machine);
    if (stand_in ? !af_plan_stand_in_is_there(machine) : !af_plan_package_is_there(machine)) {
        af_plan_prepare(&builder);
        af_plan_package(&builder, stand_in);
        af_plan_try(&builder, "import anyflash; print(anyflash.threads())", NULL);
    }
    finish(&builder, &made, plan);
}

void af_plan_make_wheel(const struct af_machine *machine, const struct af_step_wheel *wheel,
                        const char *module, const char *const *missing, size_t missing_count,
                        struct af_plan *plan)
{
    struct af_plan made = {.rung = AF_RUNG_WHEEL};
    struct af_builder builder;
    begin(&builder, &made, machine);
    struct af_step_wheel kept = {
        .package = af_arena_text(&made.arena, wheel->package),
        .filename = af_arena_text(&made.arena, wheel->filename),
        .url = af_arena_text(&made.arena, wheel->url),
        .path = af_arena_text(&made.arena, wheel->path),
        .sha256 = af_arena_text(&made.arena, wheel->sha256),
        .version = af_arena_text(&made.arena, wheel->version),
    };
    af_plan_prepare(&builder);
    af_plan_named_wheel(&builder, &kept, module, missing, missing_count);
    finish(&builder, &made, plan);
}

void af_plan_release(struct af_plan *plan)
{
    af_arena_release(&plan->arena);
    *plan = (struct af_plan){.step_count = 0};
}

/* `text` with `shown` in place of `url`. */
static const char *replace(struct af_arena *arena, const char *text, const char *url,
                           const char *shown)
{
    const char *at = text == NULL ? NULL : strstr(text, url);
    return at == NULL ? text
                      : af_arena_format(arena, "%.*s%s%s", (int)(at - text), text, shown,
                                        at + strlen(url));
}

/* Replaces the step's address by one without user, password and query. */
static void hide_address(struct af_arena *arena, struct af_step *step, const char *shown)
{
    struct af_step_wheel *wheel = af_arena_alloc(arena, sizeof *wheel);
    const char **words = af_arena_array(arena, step->argc + 1, sizeof *words);
    const char *url = step->wheel->url;
    for (size_t i = 0; i < step->argc; i++)
        words[i] = replace(arena, step->argv[i], url, shown);
    *wheel = *step->wheel;
    wheel->url = shown;
    step->argv = words;
    step->wheel = wheel;
}

bool af_plan_hide_addresses(const struct af_plan *plan, struct af_arena *arena,
                            struct af_plan *shown_out)
{
    bool is_hidden = false;
    struct af_step *steps = af_arena_array(arena, plan->step_count + 1, sizeof *steps);
    for (size_t i = 0; i < plan->step_count; i++) {
        steps[i] = plan->steps[i];
        const char *url = steps[i].wheel != NULL ? steps[i].wheel->url : NULL;
        const char *shown = url == NULL ? NULL : af_url_without_secrets(arena, url);
        if (shown == NULL || strcmp(shown, url) == 0)
            continue;
        hide_address(arena, &steps[i], shown);
        is_hidden = true;
    }
    *shown_out = (struct af_plan){.rung = plan->rung,
                                  .python = plan->python,
                                  .uv = plan->uv,
                                  .shell = plan->shell,
                                  .steps = steps,
                                  .step_count = plan->step_count};
    return is_hidden;
}

const char *af_step_command(const struct af_step *step, enum af_shell shell,
                            struct af_arena *arena)
{
    return af_shell_command(shell, step->environment, step->environment_count, step->argv,
                            step->argc, arena);
}
