/*
 * plan_of_log.c: decides with the facts of a log, and says which facts are missing.
 */
#include "kit/answer/plan_of_log.h"

#include <string.h>

#include "kit/base/text.h"

/* Prints all facts that a decision needs, in a form that `doctor` reads. */
static const char report[] = "python -m torch.utils.collect_env";

bool af_plan_of_log_serves(const char *command)
{
    static const char *const served[] = {"anyflash plan", "anyflash install", "anyflash build",
                                         "anyflash find"};
    for (size_t i = 0; command != NULL && i < AF_COUNT(served); i++)
        if (af_starts_with(command, served[i]))
            return true;
    return false;
}

/* Which of the facts that every decision needs are missing; NULL: none. */
static const char *missing_of(const struct af_machine *machine)
{
    bool torch = machine->torch.version.state != AF_FACT_UNKNOWN;
    bool python = machine->python.version.state == AF_FACT_KNOWN &&
                  !af_fact_is_assumed(&machine->python.version);
    bool gpu = machine->gpus.state == AF_FACT_KNOWN || machine->gpus.count > 0;
    if (torch)
        return python ? NULL : "version of Python";
    if (python)
        return gpu ? "version of torch" : "version of torch and the GPU";
    return gpu ? "versions of torch and Python" : "versions of torch and Python, and the GPU";
}

/* Whether nothing can be decided: torch, the GPU and the system are unknown. */
static bool is_hopeless(const struct af_machine *machine)
{
    return machine->torch.version.state == AF_FACT_UNKNOWN &&
           machine->gpus.state == AF_FACT_UNKNOWN && machine->gpus.count == 0 &&
           machine->platform.os.state == AF_FACT_UNKNOWN;
}

/* Whether no further fact could make a wheel or GPU kernels possible, as on macOS. */
static bool is_without_gpu_code(const struct af_decision *decision)
{
    static const enum af_rung_kind kinds[] = {AF_RUNG_WHEEL, AF_RUNG_TORCH_KERNELS,
                                              AF_RUNG_BUILD};
    size_t no_count = 0;
    for (size_t i = 0; i < AF_COUNT(kinds); i++)
        no_count += decision->rungs[kinds[i]].answer == AF_NO;
    return no_count == AF_COUNT(kinds);
}

/* States that flash-attn is installed: an installer keeps an equal version unless it is
   forced. */
static enum anyflash_status state_installed(struct af_machine *machine,
                                            struct anyflash_error *err)
{
    const char *unused;
    return af_machine_package(machine, "flash-attn") != NULL
               ? ANYFLASH_OK
               : af_machine_given(machine, "flash_attn=unknown", &unused, err);
}

enum anyflash_status af_plan_of_log_make(struct af_plan_of_log *plan,
                                         const struct af_catalog *catalog,
                                         struct af_machine *machine, bool is_installed,
                                         struct af_arena *arena, struct anyflash_error *err)
{
    struct af_plan_request_texts words = {0};
    struct af_plan_read_notes notes = {NULL, NULL};
    *plan = (struct af_plan_of_log){.machine = machine};
    plan->request.catalog = catalog;
    plan->request.machines = &plan->machine;
    plan->request.machine_count = 1;
    enum anyflash_status status =
        af_plan_request_read(&words, arena, &plan->request, &notes, err);
    plan->request.elsewhere = true;
    plan->missing = missing_of(machine);
    if (status != ANYFLASH_OK || is_hopeless(machine)) {
        plan->command = report;
        return status;
    }
    if (is_installed)
        status = state_installed(machine, err);
    if (status == ANYFLASH_OK)
        status = af_fit_assume(machine, err);
    if (status == ANYFLASH_OK)
        status = af_plan_answer_make(&plan->request, &plan->answer, err);
    plan->has_answer = status == ANYFLASH_OK;
    if (af_plan_of_log_decides(plan) ||
        (plan->has_answer && is_without_gpu_code(&plan->answer.decision)))
        plan->missing = NULL;
    else if (plan->has_answer && plan->answer.decision.missing_fact != NULL &&
             plan->missing == NULL)
        plan->missing = plan->answer.decision.missing_fact;
    plan->command = plan->missing == NULL ? NULL : report;
    return status;
}

void af_plan_of_log_release(struct af_plan_of_log *plan)
{
    if (plan->has_answer)
        af_plan_answer_release(&plan->answer);
}

bool af_plan_of_log_decides(const struct af_plan_of_log *plan)
{
    const struct af_rung *rung = plan->has_answer ? af_plan_answer_rung(&plan->answer) : NULL;
    bool is_of_python =
        rung != NULL && (rung->kind == AF_RUNG_WHEEL || rung->kind == AF_RUNG_TORCH_CHANGE);
    return rung != NULL &&
           !(is_of_python && af_fact_is_assumed(&plan->machine->python.version));
}

static json_t *plan_json(struct af_plan_of_log *plan)
{
    if (af_plan_of_log_decides(plan))
        return json_pack("{s:s, s:o, s:n, s:n}", "headline", plan->answer.headline, "steps",
                         plan->answer.has_plan
                             ? af_plan_steps_json(&plan->answer.plan, &plan->answer.arena)
                             : json_array(),
                         "missing", "command");
    if (plan->missing == NULL)
        return json_null();
    return json_pack("{s:n, s:[], s:s, s:s}", "headline", "steps", "missing", plan->missing,
                     "command", plan->command);
}

json_t *af_plan_of_log_add(struct af_plan_of_log *plan, json_t *diagnosis)
{
    if (diagnosis == NULL || json_object_set_new(diagnosis, "plan", plan_json(plan)) == 0)
        return diagnosis;
    json_decref(diagnosis);
    return NULL;
}
