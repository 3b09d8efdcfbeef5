/*
 * cmd_plan.c: `anyflash plan`: the decision, every rung with its cost, and the
 * exact steps; or, with --wheel and --all, verdicts on wheels. kit/answer makes
 * the answer and its JSON.
 */
#include <string.h>

#include "kit/answer/find_answer.h"
#include "kit/answer/plan_answer.h"
#include "kit/cli/command_inputs.h"
#include "kit/cli/decision_view.h"
#include "kit/cli/wheel_table.h"

struct plan {
    struct af_cli_inputs inputs;
    struct af_plan_answer answer;
    size_t limit; /* of --all; 0: all */
};

/* "RTX 4090", in one line with the rest; "sm 8.9" or "gfx942" of a GPU without a name. */
static const char *one_gpu_text(const struct af_gpu *gpu, struct af_arena *arena)
{
    static const char *const makers[] = {"NVIDIA ", "GeForce "};
    const char *sm = af_fact_text_or(&gpu->sm, NULL);
    const char *name = af_fact_text_or(&gpu->name, NULL);
    for (size_t i = 0; name != NULL && i < AF_COUNT(makers); i++)
        name += strncmp(name, makers[i], strlen(makers[i])) == 0 ? strlen(makers[i]) : 0;
    if (name != NULL)
        return name;
    return sm == NULL ? "sm unknown" : sm[0] == 'g' ? sm : af_arena_format(arena, "sm %s", sm);
}

/* Whether `a` and `b` are named alike, and a program sees both of them or neither. */
static bool is_alike(const struct af_gpu *a, const struct af_gpu *b, struct af_arena *arena)
{
    return af_fact_truth(&a->visible) == af_fact_truth(&b->visible) &&
           af_equal(one_gpu_text(a, arena), one_gpu_text(b, arena));
}

/* "T4, 2 x H100": all GPUs, those that are alike and in a row together. */
static const char *gpus_text(const struct af_gpu_rows *gpus, struct af_arena *arena)
{
    struct af_text text = {0};
    for (size_t i = 0, alike; i < gpus->count; i += alike) {
        const struct af_gpu *gpu = &gpus->rows[i];
        for (alike = 1; i + alike < gpus->count; alike++)
            if (!is_alike(gpu, &gpus->rows[i + alike], arena))
                break;
        af_text_add(&text, i > 0 ? ", " : "");
        if (alike > 1)
            af_text_format(&text, "%zu x ", alike);
        af_text_format(&text, "%s%s", one_gpu_text(gpu, arena),
                       af_fact_truth(&gpu->visible) == AF_NO ? " (hidden)" : "");
    }
    return af_text_take(&text, arena);
}

/* "RTX 4090"; "target sm 9.0" if one was given; else whatever is known. */
static const char *gpu_text(const struct af_machine *machine, const char *arch,
                            struct af_arena *arena)
{
    const char *text = "no GPU";
    if (arch != NULL)
        text = af_arena_format(arena, "target sm %s", arch);
    else if (machine->gpus.count > 0)
        text = gpus_text(&machine->gpus, arena);
    else if (machine->gpus.state != AF_FACT_KNOWN)
        text = "GPU unknown";
    return text;
}

/* "this machine: debian 12, Python 3.12.4, torch 2.8.0+cu128, RTX 4090" */
static void view_machines(struct af_screen *screen, const struct af_machines *machines,
                          const char *arch, struct af_arena *arena)
{
    for (size_t i = 0; i < machines->count; i++) {
        const struct af_machine *machine = machines->pointers[i];
        af_screen_format(
            screen, 4, i == 0 ? "For " : "and ", AF_TONE_PLAIN,
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

/* What keeps the recommended option from being certain. */
static void view_open(struct af_screen *screen, const struct af_rung *rung)
{
    const char *start = "Unsure because ";
    for (size_t i = 0; i < rung->reason_count; i++) {
        enum af_reason_id id = rung->reasons[i].id;
        if (af_reasons[id].effect != AF_REASON_OPEN)
            continue;
        af_screen_format(screen, 4, start, AF_TONE_PLAIN, "%s", af_reasons[id].message);
        start = "and ";
    }
}

/* What to do now, in one line; NULL: the steps say it. */
static const char *next_text(struct af_cli *cli, const struct af_plan_next *next)
{
    static const char *const verbose[] = {"-v", NULL};
    if (next->kind == AF_PLAN_NEXT_INSTALL)
        return af_arena_format(&cli->arena, "`%s` runs the steps below; `%s` undoes them",
                               next->command, next->undo);
    if (next->kind == AF_PLAN_NEXT_REASONS)
        return af_arena_format(&cli->arena, "`%s` shows what each option lacks",
                               af_cli_next_command(cli, AF_COMMAND_PLAN, verbose));
    return next->text;
}

/* The names of the machines for which `is_one` holds: "a, b". */
static const char *machines_text(struct af_cli *cli, const struct af_plan_answer *answer,
                                 bool (*is_one)(const struct af_plan_share *share, size_t with),
                                 size_t with)
{
    struct af_text text = {0};
    for (size_t i = 0; i < answer->share_count; i++)
        if (is_one(&answer->shares[i], with))
            af_text_format(&text, "%s%s", text.len > 0 ? ", " : "",
                           answer->shares[i].machine->name);
    return af_text_take(&text, &cli->arena);
}

static bool decides(const struct af_plan_share *share, size_t with)
{
    (void)with;
    return share->decides;
}

static bool has_steps_of(const struct af_plan_share *share, size_t with)
{
    return share->steps_of == with;
}

/* What is best for each of several machines, and which of them limit the others. */
static void view_shares(struct af_screen *screen, struct af_cli *cli,
                        const struct af_plan_answer *answer)
{
    size_t deciding = 0;
    if (answer->share_count == 0)
        return;
    af_screen_heading(screen, "Each machine alone");
    for (size_t i = 0; i < answer->share_count; i++) {
        const struct af_plan_share *share = &answer->shares[i];
        af_screen_format(screen, 4, "  - ", AF_TONE_PLAIN, "%s: %s", share->machine->name,
                         share->headline);
        deciding += share->decides;
    }
    if (deciding == 0)
        af_screen_add(screen, 2, "  ", AF_TONE_PLAIN,
                      "what is best for one of them does not fit another");
    else if (deciding < answer->share_count)
        af_screen_format(screen, 2, "  ", AF_TONE_PLAIN, "the answer for all follows from %s",
                         machines_text(cli, answer, decides, 0));
}

static bool differ_in_steps(const struct af_plan_answer *answer)
{
    for (size_t i = 0; i < answer->share_count; i++)
        if (answer->shares[i].steps_of != 0)
            return true;
    return false;
}

static void view_plan(struct af_screen *screen, struct af_cli *cli, const char *title,
                      const struct af_plan *plan)
{
    if (plan->step_count == 0)
        return;
    af_screen_heading(screen, title);
    af_cli_steps_view(screen, plan, SIZE_MAX, &cli->arena);
}

/* The steps; where they differ, those of each machine. */
static void view_steps(struct af_screen *screen, struct af_cli *cli,
                       const struct af_plan_answer *answer)
{
    if (answer->next.kind == AF_PLAN_NEXT_UPDATE)
        return; /* they are the last resort: --prefer shows them */
    if (!differ_in_steps(answer)) {
        view_plan(screen, cli, "Steps", &answer->plan);
        return;
    }
    for (size_t i = 0; i < answer->share_count; i++) {
        const char *title = af_arena_format(&cli->arena, "Steps on %s",
                                            machines_text(cli, answer, has_steps_of, i));
        if (answer->shares[i].steps_of == i)
            view_plan(screen, cli, title, &answer->shares[i].plan);
    }
}

/* The best wheel that may load but is not proved to. */
static void view_proof(struct af_screen *screen, const struct plan *plan)
{
    const struct af_plan_proof *proof = &plan->answer.proof;
    const struct af_rung *rung = &plan->answer.decision.rungs[AF_RUNG_WHEEL];
    if (!plan->answer.has_proof)
        return;
    af_screen_gap(screen);
    af_screen_format(screen, 0, "", AF_TONE_STRONG, "A wheel that may load: prove it first%s%s",
                     plan->answer.share_count > 0 ? ", as here on " : "",
                     plan->answer.share_count > 0 ? plan->inputs.machines.pointers[0]->name
                                                  : "");
    af_screen_add(screen, 2, "  ", AF_TONE_PLAIN, rung->wheel->filename);
    af_screen_add(screen, 2, "  ", AF_TONE_PLAIN,
                  "this reads its binaries and changes nothing:");
    af_screen_command(screen, 4, AF_SHELL_POSIX, proof->inspect);
    af_screen_add(screen, 2, "  ", AF_TONE_PLAIN,
                  "this proves it, installs it, and removes it if it does not load:");
    af_screen_command(screen, 4, AF_SHELL_POSIX, proof->install);
}

static void view_near_misses(struct af_screen *screen, const struct plan *plan, bool all)
{
    const struct af_decision *decision = &plan->answer.decision;
    bool has_wheel = decision->possible && decision->recommended == AF_RUNG_WHEEL;
    if (!af_cli_has_near_misses(decision) || (has_wheel && !all))
        return;
    af_screen_gap(screen);
    af_cli_near_misses_view(screen, decision, all);
}

/*
 * Source: on an H100, forward at head size 128 and 8,192 tokens, FlashAttention-3 does 659
 * TFLOP/s and FlashAttention-2 370 (Dao-AILab/flash-attention, thread 1791).
 */
static void view_faster(struct af_screen *screen, struct af_cli *cli, const char *package)
{
    const char *words[] = {"--package", package, NULL};
    af_screen_format(screen, 6, "Note: ", AF_TONE_PLAIN, "%s on this GPU: `%s`",
                     af_equal(package, "flash_attn_3")
                         ? "FlashAttention-3 is up to 1.8 times as fast"
                         : "FlashAttention-4 is faster",
                     af_cli_next_command(cli, AF_COMMAND_PLAN, words));
}

/* The answer first, then the next step; with -v every option with reasons and cost. */
static void view(struct af_cli *cli, const struct plan *plan)
{
    struct af_screen screen = {&cli->out, af_screen_columns(), af_cli_color(cli)};
    const struct af_plan_answer *answer = &plan->answer;
    bool all = af_option_given(&cli->options, AF_OPTION_VERBOSE);
    const char *next = next_text(cli, &plan->answer.next);
    af_screen_add(&screen, 0, "", AF_TONE_STRONG, plan->answer.headline);
    if (next != NULL)
        af_screen_format(&screen, 6, "Next: ", AF_TONE_PLAIN, "%s", next);
    view_machines(&screen, &plan->inputs.machines, plan->inputs.request.fit.arch, &cli->arena);
    af_cli_left_out_gpus_view(&screen, &answer->decision);
    if (answer->faster != NULL)
        view_faster(&screen, cli, answer->faster);
    if (answer->decision.possible)
        view_open(&screen, &answer->decision.rungs[answer->decision.recommended]);
    view_shares(&screen, cli, answer);
    view_steps(&screen, cli, answer);
    af_screen_gap(&screen);
    if (all) {
        af_screen_add(&screen, 0, "", AF_TONE_STRONG, "All options, best first");
        af_cli_rungs_view(&screen, &answer->decision,
                          answer->offer_count > 0 ? answer->offers : NULL, &cli->arena);
    } else {
        bool is_shown = answer->decision.possible && answer->next.kind != AF_PLAN_NEXT_UPDATE;
        af_screen_add(&screen, 0, "", AF_TONE_STRONG,
                      is_shown ? "Other options (-v for details)"
                               : "All options (-v for details)");
        af_cli_rungs_table(&screen, &answer->decision, is_shown,
                           answer->offer_count > 0 ? answer->offers : NULL, &cli->arena);
    }
    view_proof(&screen, plan);
    view_near_misses(&screen, plan, all);
}

static void view_commands(struct af_cli *cli, const struct af_plan *plan)
{
    for (size_t i = 0; i < plan->step_count; i++) {
        const struct af_step *step = &plan->steps[i];
        if (step->argc > 0 && step->kind != AF_STEP_ADVICE)
            af_text_format(&cli->out, "%s\n",
                           af_step_command(step, AF_SHELL_POSIX, &cli->arena));
    }
}

/*
 * --quiet: only the commands, so that they can be piped into a shell. Where those of several
 * machines differ, a comment says which are whose.
 */
static void view_quiet(struct af_cli *cli, const struct af_plan_answer *answer)
{
    if (answer->next.kind == AF_PLAN_NEXT_UPDATE) {
        af_text_format(&cli->out, "%s\n", answer->next.command);
        return;
    }
    if (!differ_in_steps(answer)) {
        view_commands(cli, &answer->plan);
        return;
    }
    for (size_t i = 0; i < answer->share_count; i++) {
        if (answer->shares[i].steps_of != i)
            continue;
        af_text_format(&cli->out, "# on %s\n", machines_text(cli, answer, has_steps_of, i));
        view_commands(cli, &answer->shares[i].plan);
    }
}

/* Whether the machine gives reasons against the wheel, not only notes. */
static bool has_objection(const struct af_plan_wheel_reasons *machine)
{
    for (size_t i = 0; i < machine->count; i++)
        if (af_reasons[machine->reasons[i].id].effect != AF_REASON_NOTE)
            return true;
    return false;
}

static void view_wheel(struct af_cli *cli, const struct plan *plan,
                       const struct af_plan_wheel_answer *wheel)
{
    static const char *const sentences[] = {"It does not fit", "It fits", "It may fit"};
    struct af_screen screen = {&cli->out, af_screen_columns(), af_cli_color(cli)};
    af_screen_format(&screen, 0, "", AF_TONE_STRONG, "%s: %s",
                     sentences[wheel->candidate->answer], wheel->candidate->wheel->filename);
    for (size_t i = 0; i < plan->inputs.machines.count; i++) {
        size_t count = wheel->machines[i].count;
        af_screen_format(&screen, 2, "", AF_TONE_PLAIN, "%s: %s",
                         plan->inputs.machines.items[i].name,
                         count == 0                           ? "no problem found"
                         : has_objection(&wheel->machines[i]) ? "reasons:"
                                                              : "notes:");
        for (size_t j = 0; j < count; j++)
            af_cli_reason_view(&screen, 4, wheel->machines[i].reasons, count, j);
    }
}

/* The verdict on one wheel, with every reason, for each machine. */
static enum anyflash_status answer_wheel(struct af_cli *cli, const struct plan *plan,
                                         enum af_exit *exit_out, struct anyflash_error *err)
{
    struct af_plan_wheel_answer wheel;
    enum anyflash_status status =
        af_plan_wheel_make(&plan->answer, cli->options.values[AF_OPTION_WHEEL], &wheel, err);
    if (status == ANYFLASH_E_NOT_FOUND)
        cli->hint = "`anyflash find` lists the wheels; --package names another package";
    if (status != ANYFLASH_OK)
        return status;
    *exit_out = wheel.candidate->answer == AF_YES ? AF_EXIT_YES : AF_EXIT_NO;
    if (af_option_given(&cli->options, AF_OPTION_JSON))
        status = af_cli_json_take(cli, af_plan_wheel_json(&wheel), err);
    else
        view_wheel(cli, plan, &wheel);
    af_plan_wheel_release(&wheel);
    return status;
}

/* Every wheel with its verdict, best first; at most --limit wheels. */
static enum anyflash_status answer_all(struct af_cli *cli, const struct plan *plan,
                                       enum af_exit *exit_out, struct anyflash_error *err)
{
    const struct af_decision *decision = &plan->answer.decision;
    bool verbose = af_option_given(&cli->options, AF_OPTION_VERBOSE);
    size_t count = plan->limit > 0 && plan->limit < decision->candidate_count
                       ? plan->limit
                       : decision->candidate_count;
    *exit_out = decision->fitting_count > 0 ? AF_EXIT_YES : AF_EXIT_NO;
    if (af_option_given(&cli->options, AF_OPTION_JSON))
        return af_cli_json_take(cli, af_plan_candidates_json(&plan->answer, count), err);
    af_cli_wheel_table_head(&cli->out, AF_CLI_WHEEL_VERDICT);
    for (size_t i = 0; i < count; i++)
        af_cli_wheel_table_row(&cli->out, decision->candidates[i].wheel, AF_CLI_WHEEL_VERDICT,
                               &decision->candidates[i], verbose);
    return ANYFLASH_OK;
}

static enum anyflash_status answer_plan(struct af_cli *cli, struct plan *plan,
                                        enum af_exit *exit_out, struct anyflash_error *err)
{
    *exit_out = plan->answer.decision.possible ? AF_EXIT_YES : AF_EXIT_NO;
    if (af_option_given(&cli->options, AF_OPTION_JSON))
        return af_cli_json_take(cli, af_plan_answer_json(&plan->answer), err);
    if (af_option_given(&cli->options, AF_OPTION_QUIET))
        view_quiet(cli, &plan->answer);
    else
        view(cli, plan);
    return ANYFLASH_OK;
}

static enum anyflash_status check_words(const struct af_cli *cli, struct plan *plan,
                                        struct anyflash_error *err)
{
    const struct af_options *options = &cli->options;
    bool lists_all = af_option_given(options, AF_OPTION_ALL);
    if (lists_all && af_option_given(options, AF_OPTION_WHEEL))
        return af_fail(err, ANYFLASH_E_ARGUMENT, "--all cannot be used with --wheel");
    if (!lists_all && af_option_given(options, AF_OPTION_LIMIT))
        return af_fail(err, ANYFLASH_E_ARGUMENT, "--limit needs --all");
    return af_cli_limit(cli, &plan->limit, err);
}

enum anyflash_status af_cmd_plan(struct af_cli *cli, enum af_exit *exit_out,
                                 struct anyflash_error *err)
{
    struct plan plan = {0};
    enum anyflash_status status = check_words(cli, &plan, err);
    if (status == ANYFLASH_OK)
        status = af_cli_inputs_load(
            cli, AF_CLI_INPUT_MACHINES | AF_CLI_INPUT_PROOFS | AF_CLI_INPUT_FILES, &plan.inputs,
            err);
    if (status == ANYFLASH_OK)
        status = af_plan_answer_make(&plan.inputs.request, &plan.answer, err);
    if (status == ANYFLASH_OK && af_option_given(&cli->options, AF_OPTION_WHEEL))
        status = answer_wheel(cli, &plan, exit_out, err);
    else if (status == ANYFLASH_OK && af_option_given(&cli->options, AF_OPTION_ALL))
        status = answer_all(cli, &plan, exit_out, err);
    else if (status == ANYFLASH_OK)
        status = answer_plan(cli, &plan, exit_out, err);
    af_plan_answer_release(&plan.answer);
    af_cli_inputs_release(&plan.inputs);
    return status;
}
