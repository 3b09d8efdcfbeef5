/*
 * plan_json.c: an answer as JSON. docs/reference/json.md describes it.
 */
#include "kit/answer/plan_answer.h"

#include <stdio.h>

#include "kit/base/text.h"
#include "kit/catalog/publisher.h"
#include "kit/fit/fit.h"

#define NAME_BYTES 200

static json_t *value_of(const struct af_fact *fact, enum af_fact_type type)
{
    if (fact->state != AF_FACT_KNOWN)
        return json_null();
    if (type == AF_FACT_BOOL)
        return json_string(fact->value.truth ? "true" : "false");
    return json_string(fact->value.text);
}

/* "8.9 9.0": those of the GPUs that a program would see. */
static json_t *gpus_of(const struct af_machine *machine)
{
    struct af_text text = {0};
    if (machine->gpus.state != AF_FACT_KNOWN)
        return json_null();
    for (size_t i = 0; i < machine->gpus.count; i++) {
        const struct af_gpu *gpu = &machine->gpus.rows[i];
        if (af_fact_truth(&gpu->visible) != AF_NO)
            af_text_format(&text, "%s%s", text.len > 0 ? " " : "",
                           af_fact_text_or(&gpu->sm, "unknown"));
    }
    json_t *value = json_string(af_text_get(&text));
    af_text_release(&text);
    return value;
}

static void set_packages(json_t *facts, const struct af_machine *machine)
{
    for (size_t i = 0; i < machine->packages.count; i++) {
        const struct af_package *package = &machine->packages.rows[i];
        char name[NAME_BYTES];
        snprintf(name, sizeof name, "package %s", af_fact_text_or(&package->name, ""));
        json_object_set_new(facts, name, value_of(&package->version, AF_FACT_TEXT));
    }
}

/* The facts that the decision depends on, as texts; null: absent or unknown. */
static json_t *facts_json(const struct af_machine *machine)
{
    const struct {
        const char *name;
        const struct af_fact *fact;
        enum af_fact_type type;
    } rows[] = {
        {"platform.os", &machine->platform.os, AF_FACT_TEXT},
        {"platform.arch", &machine->platform.arch, AF_FACT_TEXT},
        {"platform.libc", &machine->platform.libc, AF_FACT_TEXT},
        {"platform.libc_version", &machine->platform.libc_version, AF_FACT_TEXT},
        {"python.implementation", &machine->python.implementation, AF_FACT_TEXT},
        {"python.version", &machine->python.version, AF_FACT_TEXT},
        {"python.abi_flags", &machine->python.abi_flags, AF_FACT_TEXT},
        {"torch.version", &machine->torch.version, AF_FACT_TEXT},
        {"torch.cuda", &machine->torch.cuda, AF_FACT_TEXT},
        {"torch.cxx11abi", &machine->torch.cxx11abi, AF_FACT_BOOL},
        {"torch.cudart_soname", &machine->torch.cudart_soname, AF_FACT_TEXT},
        {"driver.cuda_api", &machine->driver.cuda_api, AF_FACT_TEXT},
    };
    json_t *facts = json_object();
    for (size_t i = 0; i < AF_COUNT(rows); i++)
        json_object_set_new(facts, rows[i].name, value_of(rows[i].fact, rows[i].type));
    json_object_set_new(facts, "gpus", gpus_of(machine));
    set_packages(facts, machine);
    return facts;
}

static const char *const kind_names[] = {
    [AF_STEP_ADVICE] = "advice",     [AF_STEP_ENVIRONMENT] = "environment",
    [AF_STEP_TOOL] = "tool",         [AF_STEP_WHEEL] = "wheel",
    [AF_STEP_PACKAGES] = "packages", [AF_STEP_TORCH] = "torch",
    [AF_STEP_NEEDS] = "needs",       [AF_STEP_OWN] = "own",
    [AF_STEP_BUILD] = "build",       [AF_STEP_TRY] = "try"};

static json_t *step_wheel_json(const struct af_step_wheel *wheel, struct af_arena *arena)
{
    if (wheel == NULL)
        return json_null();
    const char *publisher = wheel->url == NULL ? NULL : af_publisher_of_url(arena, wheel->url);
    return json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:o}", "package", wheel->package,
                     "filename", wheel->filename, "url", af_json_text(wheel->url), "publisher",
                     af_json_text(publisher), "path", af_json_text(wheel->path), "sha256",
                     af_json_text(wheel->sha256), "version", af_json_text(wheel->version));
}

static json_t *step_json(const struct af_step *step, struct af_arena *arena)
{
    const char *commands[] = {[AF_SHELL_POSIX] = NULL, [AF_SHELL_CMD] = NULL};
    for (int shell = AF_SHELL_POSIX; step->argc > 0 && shell <= AF_SHELL_CMD; shell++)
        commands[shell] = af_step_command(step, (enum af_shell)shell, arena);
    return json_pack("{s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "title",
                     af_json_text(step->title), "kind", kind_names[step->kind], "argv",
                     af_json_texts(step->argv, step->argc), "environment",
                     af_json_texts(step->environment, step->environment_count), "command",
                     af_json_text(commands[AF_SHELL_POSIX]), "powershell",
                     af_json_text(commands[AF_SHELL_POWERSHELL]), "cmd",
                     af_json_text(commands[AF_SHELL_CMD]), "wheel",
                     step_wheel_json(step->wheel, arena), "requirements",
                     af_json_texts(step->requirements, step->requirement_count),
                     "torch_backend", af_json_text(step->torch_backend));
}

json_t *af_plan_steps_json(const struct af_plan *plan, struct af_arena *arena)
{
    json_t *list = json_array();
    for (size_t i = 0; i < plan->step_count; i++)
        list = af_json_append(list, step_json(&plan->steps[i], arena));
    return list;
}

static json_t *proof_json(const struct af_plan_answer *answer)
{
    const struct af_rung *rung = &answer->decision.rungs[AF_RUNG_WHEEL];
    if (!answer->has_proof)
        return json_null();
    return json_pack("{s:o, s:s, s:s}", "wheel", af_fit_json_wheel(rung->wheel), "inspect",
                     answer->proof.inspect, "install", answer->proof.install);
}

/* What a build would contain, and the resources that it needs. */
static json_t *offer_json(const struct af_offer_build_offer *offer, struct af_arena *arena)
{
    const struct af_offer_build_needs *needs = &offer->needs;
    return json_pack(
        "{s:i, s:f, s:o, s:I, s:I, s:I, s:I, s:I, s:s, s:s, s:o, s:s, s:s, s:s}", "kernels",
        needs->kernel_count, "cpu_seconds", needs->cpu_seconds, "estimated_seconds",
        needs->wall_seconds > 0 ? json_real(needs->wall_seconds) : json_null(), "peak_bytes",
        (json_int_t)needs->peak_bytes, "memory_bytes", (json_int_t)needs->memory_bytes,
        "disk_bytes", (json_int_t)needs->disk_bytes, "download_bytes",
        (json_int_t)needs->download_bytes, "wheel_bytes", (json_int_t)needs->wheel_bytes,
        "name", offer->name, "holds", offer->holds, "argv",
        af_json_texts(offer->argv, offer->argc), "command", af_offer_build_line(offer, arena),
        "time", af_offer_build_time_text(arena, needs), "needs",
        af_offer_build_needs_text(arena, needs));
}

static json_t *offers_json(struct af_plan_answer *answer)
{
    json_t *list = json_array();
    for (size_t i = 0; i < answer->offer_count; i++)
        list = af_json_append(list, offer_json(&answer->offers[i], &answer->arena));
    return list;
}

static json_t *alone_json(const struct af_plan_share *share)
{
    return json_pack("{s:s, s:s, s:b}", "headline", share->headline, "way",
                     af_plan_ways[share->way].name, "decides", share->decides);
}

/* The machine; as one of several also its own best option, and its steps. */
static json_t *machine_json(struct af_plan_answer *answer, size_t index)
{
    struct af_plan_share *share = index < answer->share_count ? &answer->shares[index] : NULL;
    json_t *json = af_fit_json_machine(answer->request->machines[index]);
    json_t *alone = share == NULL ? json_null() : alone_json(share);
    json_t *steps =
        share == NULL ? json_null() : af_plan_steps_json(&share->plan, &answer->arena);
    if (json_object_set_new(json, "alone", alone) == 0 &&
        json_object_set_new(json, "steps", steps) == 0)
        return json;
    json_decref(json);
    return NULL;
}

static json_t *machines_json(struct af_plan_answer *answer)
{
    json_t *list = json_array();
    for (size_t i = 0; i < answer->request->machine_count; i++)
        list = af_json_append(list, machine_json(answer, i));
    return list;
}

static json_t *next_json(const struct af_plan_next *next)
{
    static const char *const kinds[] = {"nothing", "environment", "fact",  "reasons",
                                        "steps",   "install",     "update"};
    return json_pack("{s:s, s:o, s:o, s:o}", "kind", kinds[next->kind], "text",
                     af_json_text(next->text), "command", af_json_text(next->command), "undo",
                     af_json_text(next->undo));
}

json_t *af_plan_answer_json(struct af_plan_answer *answer)
{
    const struct af_decision *decision = &answer->decision;
    const struct af_plan_request *request = answer->request;
    const struct af_rung *rung = af_plan_answer_rung(answer);
    return json_pack(
        "{s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, "
        "s:o}",
        "schema", "anyflash-plan/1", "headline", answer->headline, "way",
        af_plan_ways[af_plan_answer_way(answer)].name, "machines", machines_json(answer),
        "next", next_json(&answer->next), "faster", af_json_text(answer->faster), "facts",
        facts_json(request->machines[0]), "decision", af_fit_json_decision(decision), "wheel",
        rung != NULL && rung->wheel != NULL ? af_fit_json_wheel(rung->wheel) : json_null(),
        "rungs", af_fit_json_rungs(decision), "builds", offers_json(answer), "steps",
        answer->has_plan ? af_plan_steps_json(&answer->plan, &answer->arena) : json_array(),
        "prove_first", proof_json(answer), "near_misses", af_fit_json_near_misses(decision),
        "sieve", af_fit_json_filter_counts(decision), "candidates",
        af_fit_json_candidate_counts(decision), "publishers",
        af_fit_json_publishers(&request->fit), "catalog",
        af_fit_json_catalog(request->catalog));
}
