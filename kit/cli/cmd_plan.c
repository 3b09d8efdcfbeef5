/*
 * cmd_plan.c: `anyflash plan`: the decision, every way with its price, and the
 * exact steps; or, with --wheel and --all, verdicts on wheels (plan_wheels.c).
 */
#include "kit/cli/build_offers.h"
#include "kit/cli/decision_view.h"
#include "kit/cli/json_parts.h"
#include "kit/cli/plan_wheels.h"
#include "kit/plan/saved.h"

struct plan {
    struct af_question question;
    struct af_plan steps;
    bool has_steps;
    struct af_offer_build_offer offers[AF_OFFER_BUILD_OFFERS];
    size_t offer_count; /* 0: a build is not possible */
};

static const struct af_rung *chosen(const struct plan *plan)
{
    const struct af_decision *decision = &plan->question.decision;
    return decision->possible ? &decision->rungs[decision->recommended] : NULL;
}

/* "sm 8.9", "target sm 9.0" where one was stated, or what is known instead. */
static const char *gpu_text(const struct af_machine *machine, const char *arch,
                            struct af_arena *arena)
{
    const char *text = "no GPU";
    if (arch != NULL)
        text = af_arena_format(arena, "target sm %s", arch);
    else if (machine->gpus.count > 0)
        text = af_arena_format(arena, "sm %s",
                               af_fact_text_or(&machine->gpus.rows[0].sm, "unknown"));
    else if (machine->gpus.state != AF_FACT_KNOWN)
        text = "GPU unknown";
    return text != NULL ? text : "";
}

/* "this machine: debian 12, Python 3.12.4, torch 2.8.0+cu128, sm 8.9" */
static void view_machines(struct af_page *page, const struct af_machines *machines,
                          const char *arch, struct af_arena *arena)
{
    for (size_t i = 0; i < machines->count; i++) {
        const struct af_machine *machine = machines->pointers[i];
        af_page_format(
            page, 5, i == 0 ? "For  " : "and  ", AF_TONE_PLAIN,
            "%s: %s, Python %s, torch %s, %s", machine->name,
            af_fact_text_or(&machine->platform.distribution,
                            af_fact_text_or(&machine->platform.os, "unknown system")),
            af_fact_text_or(&machine->python.version, "unknown"),
            machine->torch.version.state == AF_FACT_ABSENT
                ? "not installed"
                : af_fact_text_or(&machine->torch.version, "unknown"),
            gpu_text(machine, arch, arena));
    }
}

static void view_decision(struct af_page *page, const struct plan *plan)
{
    const struct af_decision *decision = &plan->question.decision;
    const struct af_rung *rung = chosen(plan);
    if (rung == NULL && decision->missing_fact != NULL) {
        af_page_format(page, 10, "Decision: ", AF_TONE_STRONG,
                       "none yet: state the %s, which decides between the ways below",
                       decision->missing_fact);
        return;
    }
    if (rung == NULL) {
        af_page_format(page, 10, "Decision: ", AF_TONE_STRONG, "none, %s",
                       plan->question.options.has_preference
                           ? "the preferred way is not possible"
                           : "no way is possible");
        return;
    }
    af_page_format(page, 10, "Decision: ", AF_TONE_STRONG, "%s",
                   af_rung_name(decision->recommended));
    if (rung->summary != NULL)
        af_page_add(page, 2, "  ", AF_TONE_PLAIN, rung->summary);
    if (rung->wheel != NULL)
        af_page_add(page, 2, "  ", AF_TONE_PLAIN, rung->wheel->filename);
}

/* The best wheel that may load and is not proved to. */
static void view_proof(struct af_cli *cli, struct af_page *page, const struct plan *plan)
{
    struct af_plan_proof proof;
    const struct af_rung *rung = &plan->question.decision.rungs[AF_RUNG_WHEEL];
    if (!af_plan_proof_make(rung, plan->question.machines.pointers[0], &cli->arena, &proof))
        return;
    af_page_gap(page);
    af_page_add(page, 0, "", AF_TONE_STRONG, "A wheel that may load: prove it first");
    af_page_add(page, 2, "  ", AF_TONE_PLAIN, rung->wheel->filename);
    af_page_add(page, 2, "  ", AF_TONE_PLAIN, "reads its bytes and changes nothing:");
    af_page_command(page, 4, proof.inspect);
    af_page_add(page, 2, "  ", AF_TONE_PLAIN,
                "proves it, installs it, and takes it back if it does not load:");
    af_page_command(page, 4, proof.install);
}

static json_t *proof_json(struct af_cli *cli, const struct plan *plan)
{
    struct af_plan_proof proof;
    const struct af_rung *rung = &plan->question.decision.rungs[AF_RUNG_WHEEL];
    if (!af_plan_proof_make(rung, plan->question.machines.pointers[0], &cli->arena, &proof))
        return json_null();
    return json_pack("{s:o, s:s, s:s}", "wheel", af_cli_json_wheel(rung->wheel), "inspect",
                     proof.inspect, "install", proof.install);
}

static void view(struct af_cli *cli, const struct plan *plan)
{
    struct af_page page = {&cli->out, af_page_columns(), af_cli_color(cli)};
    view_machines(&page, &plan->question.machines, plan->question.options.arch, &cli->arena);
    view_decision(&page, plan);
    if (plan->has_steps && plan->steps.step_count > 0) {
        af_page_gap(&page);
        af_page_add(&page, 0, "", AF_TONE_STRONG, "Steps");
        af_cli_steps_view(&page, &plan->steps, SIZE_MAX, &cli->arena);
    }
    af_page_gap(&page);
    af_page_add(&page, 0, "", AF_TONE_STRONG, "Every way, best first");
    const struct af_offer_build_offer *offers = plan->offer_count > 0 ? plan->offers : NULL;
    af_rungs_view(&page, &plan->question.decision,
                  af_option_given(&cli->options, AF_OPTION_VERBOSE) ? AF_CLI_RUNG_ALL
                                                                    : AF_CLI_RUNG_FULL,
                  offers, &cli->arena);
    view_proof(cli, &page, plan);
    if (plan->question.decision.near_miss_count > 0) {
        af_page_gap(&page);
        af_page_add(&page, 0, "", AF_TONE_STRONG, "Why not the obvious wheels");
        af_cli_filter_counts_view(&page, &plan->question.decision);
        af_cli_near_misses_view(&page, &plan->question.decision);
    }
}

/* --quiet: only the commands, so that they can be piped into a shell. */
static void view_commands(struct af_cli *cli, const struct plan *plan)
{
    for (size_t i = 0; plan->has_steps && i < plan->steps.step_count; i++) {
        const struct af_step *step = &plan->steps.steps[i];
        const char *command = step->argc > 0 ? af_step_command(step, &cli->arena) : NULL;
        if (command != NULL)
            af_text_format(&cli->out, "%s\n", command);
    }
}

static json_t *misses_json(const struct af_decision *decision)
{
    json_t *list = json_array();
    for (size_t i = 0; i < decision->near_miss_count; i++) {
        const struct af_near_miss *miss = &decision->near_misses[i];
        list = af_cli_json_append(
            list, json_pack("{s:s, s:s, s:o, s:o}", "what", miss->what, "filename",
                            miss->filename, "wheel",
                            miss->wheel != NULL ? af_cli_json_wheel(miss->wheel) : json_null(),
                            "reasons", af_cli_json_reasons(miss->reasons, miss->reason_count)));
    }
    return list;
}

/* How many wheels are left after each group of rules. */
static json_t *sieve_json(const struct af_decision *decision)
{
    json_t *list = json_array();
    for (size_t i = 0; i < decision->sieve_count; i++)
        list = af_cli_json_append(list, json_pack("{s:s, s:I}", "what", decision->sieve[i].what,
                                                  "left", (json_int_t)decision->sieve[i].left));
    return list;
}

static enum anyflash_status write_json(struct af_cli *cli, const struct plan *plan,
                                       struct anyflash_error *err)
{
    const struct af_decision *decision = &plan->question.decision;
    const struct af_rung *rung = chosen(plan);
    json_t *rungs = json_array();
    json_t *machines = json_array();
    for (int kind = 0; kind < AF_RUNG_COUNT; kind++)
        rungs = af_cli_json_append(rungs, af_cli_json_rung(&decision->rungs[kind]));
    for (size_t i = 0; i < plan->question.machines.count; i++)
        machines = af_cli_json_append(
            machines, af_cli_json_machine_name(plan->question.machines.pointers[i]));
    json_t *json = json_pack(
        "{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "schema",
        AF_PLAN_SCHEMA, "machines", machines, "facts",
        af_plan_facts_json(plan->question.machines.pointers[0]), "decision",
        af_cli_json_decision(decision), "wheel",
        rung != NULL && rung->wheel != NULL ? af_cli_json_wheel(rung->wheel) : json_null(),
        "rungs", rungs, "builds",
        af_cli_build_offers_json(plan->offers, plan->offer_count, &cli->arena), "steps",
        plan->has_steps ? af_plan_steps_json(&plan->steps, &cli->arena) : json_array(),
        "prove_first", proof_json(cli, plan), "near_misses", misses_json(decision), "sieve",
        sieve_json(decision), "candidates",
        json_pack("{s:I, s:I, s:I}", "judged", (json_int_t)decision->candidate_count, "fitting",
                  (json_int_t)decision->fitting_count, "unknown",
                  (json_int_t)decision->unknown_count),
        "catalog", af_cli_json_catalog(&plan->question.catalog));
    return af_cli_json_take(cli, json, err);
}

/* What a build would make and take, unless it is impossible. */
static void make_offers(struct af_cli *cli, struct plan *plan)
{
    const struct af_question *question = &plan->question;
    const struct af_rung *rung = &question->decision.rungs[AF_RUNG_BUILD];
    if (rung->answer == AF_NO || rung->arch_list == NULL)
        return;
    plan->offer_count = AF_OFFER_BUILD_OFFERS;
    af_offer_build_offers(rung, question->machines.pointers[0], &question->slim, &cli->arena,
                          plan->offers);
}

static enum anyflash_status make_steps(struct plan *plan, struct anyflash_error *err)
{
    const struct af_question *question = &plan->question;
    if (!question->decision.possible)
        return ANYFLASH_OK;
    enum anyflash_status status = af_plan_make(&question->decision, question->machines.pointers,
                                               question->machines.count, &plan->steps, err);
    plan->has_steps = status == ANYFLASH_OK;
    return status;
}

static enum anyflash_status answer(struct af_cli *cli, struct plan *plan,
                                   enum af_exit *exit_out, struct anyflash_error *err)
{
    if (af_option_given(&cli->options, AF_OPTION_WHEEL))
        return af_cli_plan_one(cli, &plan->question, exit_out, err);
    if (af_option_given(&cli->options, AF_OPTION_ALL))
        return af_cli_plan_all(cli, &plan->question, exit_out, err);
    enum anyflash_status status = make_steps(plan, err);
    if (status != ANYFLASH_OK)
        return status;
    make_offers(cli, plan);
    *exit_out = plan->question.decision.possible ? AF_EXIT_YES : AF_EXIT_NO;
    if (af_option_given(&cli->options, AF_OPTION_JSON))
        return write_json(cli, plan, err);
    if (af_option_given(&cli->options, AF_OPTION_QUIET))
        view_commands(cli, plan);
    else
        view(cli, plan);
    return af_cli_finish(cli, err);
}

static enum anyflash_status check_words(const struct af_options *options,
                                        struct anyflash_error *err)
{
    bool lists_all = af_option_given(options, AF_OPTION_ALL);
    if (lists_all && af_option_given(options, AF_OPTION_WHEEL))
        return af_fail(err, ANYFLASH_E_ARGUMENT, "--all and --wheel exclude each other");
    if (!lists_all && af_option_given(options, AF_OPTION_LIMIT))
        return af_fail(err, ANYFLASH_E_ARGUMENT, "--limit is for a list: --all is missing");
    return ANYFLASH_OK;
}

enum anyflash_status af_cmd_plan(struct af_cli *cli, enum af_exit *exit_out,
                                 struct anyflash_error *err)
{
    struct plan plan = {0};
    enum anyflash_status status = check_words(&cli->options, err);
    if (status == ANYFLASH_OK)
        status = af_question_answer(cli, &plan.question, err);
    if (status == ANYFLASH_OK)
        status = answer(cli, &plan, exit_out, err);
    if (plan.has_steps)
        af_plan_release(&plan.steps);
    af_question_release(&plan.question);
    return status;
}
