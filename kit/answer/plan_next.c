/*
 * plan_next.c: what the user does now: which command carries out the steps of an answer, or
 * what has to be known or done before. plan, doctor and their JSON all say this.
 */
#include "kit/answer/plan_answer.h"
#include "kit/base/shell.h"

static size_t count_words(const char *const *words)
{
    size_t count = 0;
    while (words != NULL && words[count] != NULL)
        count++;
    return count;
}

const char *af_plan_command_line(const char *command, const char *const *words,
                                 const char *const *options, struct af_arena *arena)
{
    size_t word_count = count_words(words);
    size_t option_count = count_words(options);
    size_t count = 0;
    const char **line = af_arena_array(arena, 2 + word_count + option_count, sizeof *line);
    if (line == NULL)
        return NULL;
    line[count++] = "anyflash";
    line[count++] = command;
    for (size_t i = 0; i < word_count; i++)
        line[count++] = words[i];
    for (size_t i = 0; i < option_count; i++)
        line[count++] = options[i];
    return af_shell_command(AF_SHELL_POSIX, NULL, 0, line, count, arena);
}

/* Whether `anyflash install` can do the steps: some, such as a build, are left to the user. */
static bool can_install(const struct af_plan *plan)
{
    bool brings = false;
    for (size_t i = 0; i < plan->step_count; i++) {
        enum af_step_kind kind = plan->steps[i].kind;
        if (kind == AF_STEP_ENVIRONMENT || kind == AF_STEP_BUILD)
            return false;
        brings = brings || kind == AF_STEP_WHEEL || kind == AF_STEP_TORCH ||
                 kind == AF_STEP_PACKAGES;
    }
    return brings;
}

static bool installs_torch(const struct af_plan *plan)
{
    for (size_t i = 0; i < plan->step_count; i++)
        if (plan->steps[i].kind == AF_STEP_TORCH)
            return true;
    return false;
}

/* The `anyflash install` command, with --allow-torch-change if the steps replace torch. */
static struct af_plan_next install(struct af_plan_answer *answer, const struct af_rung *rung)
{
    const struct af_plan_request *request = answer->request;
    const char *change = "any";
    if (rung->kind == AF_RUNG_TORCH_CHANGE)
        change =
            af_arena_format(&answer->arena, "%s+%s", rung->torch_version, rung->torch_cuda);
    const char *words[] = {"--allow-torch-change", change, NULL};
    bool moves_torch = rung->kind == AF_RUNG_TORCH_CHANGE || installs_torch(&answer->plan);
    return (struct af_plan_next){
        .kind = AF_PLAN_NEXT_INSTALL,
        .command = af_plan_command_line("install", moves_torch ? words : NULL,
                                        request->install_options, &answer->arena),
        .undo = af_plan_command_line("undo", NULL, request->undo_options, &answer->arena)};
}

/* How the user can state what is missing; NULL: no reason says it. */
static const char *missing_fact_hint(const struct af_decision *decision)
{
    for (int kind = 0; kind < AF_RUNG_COUNT; kind++) {
        const struct af_rung *rung = &decision->rungs[kind];
        for (size_t i = 0; rung->answer == AF_UNKNOWN && i < rung->reason_count; i++) {
            enum af_reason_id id = rung->reasons[i].id;
            if (af_reasons[id].effect == AF_REASON_OPEN && af_reasons[id].hint != NULL)
                return af_reasons[id].hint;
        }
    }
    return NULL;
}

static struct af_plan_next before_a_plan(const struct af_decision *decision)
{
    if (decision->environment_problem != NULL)
        return (struct af_plan_next){.kind = AF_PLAN_NEXT_ENVIRONMENT,
                                     .text = af_reason_advice(decision->environment_problem)};
    if (decision->missing_fact != NULL)
        return (struct af_plan_next){.kind = AF_PLAN_NEXT_FACT,
                                     .text = missing_fact_hint(decision)};
    return (struct af_plan_next){.kind = AF_PLAN_NEXT_REASONS};
}

struct af_plan_next af_plan_next_of(struct af_plan_answer *answer)
{
    const struct af_rung *rung = af_plan_answer_rung(answer);
    struct af_plan_next next = {.kind = AF_PLAN_NEXT_STEPS};
    if (rung == NULL)
        return before_a_plan(&answer->decision);
    if (answer->plan.step_count == 0)
        next.kind = AF_PLAN_NEXT_NOTHING;
    else if (!can_install(&answer->plan))
        next.text = rung->kind == AF_RUNG_BUILD ? "run the first command below" : NULL;
    else if (answer->share_count > 0)
        next.text = "run the steps below on each machine";
    else if (answer->request->elsewhere)
        next.text = "run these steps on the machine described below";
    else
        next = install(answer, rung);
    return next;
}

const char *af_plan_next_name(enum af_plan_next_kind kind)
{
    static const char *const names[] = {"nothing", "environment", "fact",
                                        "reasons", "steps",       "install"};
    return names[kind];
}
