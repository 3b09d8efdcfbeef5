/*
 * cmd_doctor.c: `anyflash` and `anyflash doctor`: one screen with the answer, the
 * next step, what is wrong, what fits, and the machine. log_doctor.c handles logs.
 */
#include <stdio.h>

#include "kit/answer/plan_answer.h"
#include "kit/cli/decision_view.h"
#include "kit/doctor/doctor.h"
#include "kit/fit/fit.h"

/* Findings beyond this number are only counted, unless --verbose. */
#define FINDINGS_SHOWN 6
#define FINDING_COLUMNS 10

struct doctor {
    struct af_cli_inputs inputs;
    struct af_plan_answer answer;
    const struct af_finding *findings;
    size_t count;
    struct af_next next;
};

static const struct af_machine *first_machine(const struct doctor *doctor)
{
    return doctor->inputs.machines.pointers[0];
}

static void view_findings(struct af_screen *screen, struct af_cli *cli,
                          const struct doctor *doctor, bool all)
{
    static const char *const verbose[] = {"-v", NULL};
    size_t shown = all || doctor->count <= FINDINGS_SHOWN ? doctor->count : FINDINGS_SHOWN;
    for (size_t i = 0; i < shown; i++) {
        const struct af_finding *finding = &doctor->findings[i];
        char lead[16];
        enum af_severity severity = af_reasons[finding->cause].severity;
        snprintf(lead, sizeof lead, "  %s", af_severity_text(severity));
        af_screen_add(screen, FINDING_COLUMNS, lead,
                      severity == AF_SEVERITY_BROKEN ? AF_TONE_BAD : AF_TONE_PLAIN,
                      af_reason_finding(finding->cause));
        if (finding->detail != NULL && finding->detail[0] != '\0')
            af_screen_add(screen, FINDING_COLUMNS, "", AF_TONE_PLAIN, finding->detail);
        if (finding->hint != NULL)
            af_screen_format(screen, FINDING_COLUMNS, "", AF_TONE_PLAIN, "hint: %s",
                             finding->hint);
    }
    if (shown < doctor->count)
        af_screen_format(screen, 2, "  ", AF_TONE_PLAIN, "and %zu more: `%s`",
                         doctor->count - shown,
                         af_cli_next_command(cli, AF_COMMAND_DOCTOR, verbose));
}

static void view_no_way(struct af_screen *screen, struct af_cli *cli,
                        const struct af_plan_next *next)
{
    if (next->text != NULL)
        af_screen_add(screen, 2, "  ", AF_TONE_PLAIN, next->text);
    else
        af_screen_format(screen, 2, "  ", AF_TONE_PLAIN,
                         "no option works here; `%s` shows what each one lacks",
                         af_cli_next_command(cli, AF_COMMAND_PLAN, NULL));
}

/* If only the GPU is missing, another node of the same kind may have one. */
static const char *other_node_hint(const struct doctor *doctor)
{
    const struct af_rung *wheel = &doctor->answer.decision.rungs[AF_RUNG_WHEEL];
    const struct af_machine *machine = first_machine(doctor);
    if (!af_fact_is(&machine->platform.os, "linux") || machine->gpus.count > 0)
        return NULL;
    for (size_t i = 0; i < wheel->reason_count; i++) {
        if (wheel->reasons[i].id == AF_REASON_NO_GPU)
            return af_reasons[AF_REASON_NO_GPU].hint;
    }
    return NULL;
}

static void view_plan_step(struct af_screen *screen, struct af_cli *cli,
                           const struct doctor *doctor)
{
    const char *hint = other_node_hint(doctor);
    size_t count = doctor->answer.plan.step_count;
    if (doctor->answer.next.kind == AF_PLAN_NEXT_UPDATE) {
        af_screen_add(screen, 2, "  ", AF_TONE_PLAIN, doctor->answer.next.text);
        return;
    }
    af_cli_steps_view(screen, &doctor->answer.plan, 1, &cli->arena);
    if (count > 1)
        af_screen_format(screen, 2, "  ", AF_TONE_PLAIN, "then %zu more step%s (see `%s`)",
                         count - 1, count > 2 ? "s" : "",
                         af_cli_next_command(cli, AF_COMMAND_PLAN, NULL));
    if (hint != NULL)
        af_screen_add(screen, 2, "  ", AF_TONE_PLAIN, hint);
}

static const char *finding_advice(const struct af_finding *finding)
{
    return finding->hint != NULL ? finding->hint : af_reason_finding(finding->cause);
}

static void view_next(struct af_screen *screen, struct af_cli *cli, const struct doctor *doctor)
{
    switch (doctor->next.kind) {
    case AF_NEXT_NOTHING:
        af_screen_add(screen, 2, "  ", AF_TONE_GOOD, "none");
        return;
    case AF_NEXT_FINDING:
        af_screen_add(screen, 2, "  ", AF_TONE_PLAIN, finding_advice(doctor->next.finding));
        return;
    case AF_NEXT_NO_WAY:
        view_no_way(screen, cli, &doctor->answer.next);
        return;
    default:
        view_plan_step(screen, cli, doctor);
    }
}

/* What "no problem was found" leaves open. */
static void view_limits(struct af_screen *screen, struct af_cli *cli,
                        const struct af_package *package)
{
    bool compared = package->missing_files.state == AF_FACT_KNOWN;
    af_screen_format(screen, 0, "", AF_TONE_PLAIN, "%s; `%s` reads them and runs it",
                     compared ? "its files were compared by size, not by content"
                              : "its files were not compared with RECORD",
                     af_cli_next_command(cli, AF_COMMAND_VERIFY, NULL));
}

static void view_installed(struct af_screen *screen, struct af_cli *cli,
                           const struct doctor *doctor, const struct af_package *package)
{
    const char *version = af_fact_text_or(&package->version, "of an unknown version");
    size_t risk_count = 0;
    for (size_t i = 0; i < doctor->count; i++)
        risk_count += af_reasons[doctor->findings[i].cause].severity == AF_SEVERITY_RISK;
    if (risk_count > 0) { /* the worst come first */
        af_screen_format(screen, 0, "", AF_TONE_STRONG,
                         "flash-attn %s is installed, with %zu risk%s", version, risk_count,
                         risk_count > 1 ? "s" : "");
        af_screen_add(screen, 0, "", AF_TONE_PLAIN,
                      af_reason_finding(doctor->findings[0].cause));
    } else if (doctor->next.kind != AF_NEXT_NOTHING) {
        af_screen_format(screen, 0, "", AF_TONE_STRONG, "flash-attn %s is installed", version);
    } else {
        af_screen_format(screen, 0, "", AF_TONE_GOOD,
                         "flash-attn %s is installed, and no problem was found", version);
        if (af_doctor_fits_every_torch(package))
            af_screen_add(
                screen, 0, "", AF_TONE_PLAIN,
                "it was built without torch: a new torch or Python does not break it");
        view_limits(screen, cli, package);
    }
}

/* Prints what is wrong, or whether flash-attn is installed; then the result of the next
   step. */
static void view_answer(struct af_screen *screen, struct af_cli *cli, struct doctor *doctor)
{
    const struct af_package *package = af_machine_flash_attn(first_machine(doctor));
    const struct af_package *shim = af_machine_shim(first_machine(doctor));
    const struct af_finding *finding =
        doctor->next.finding != NULL ? doctor->next.finding : doctor->findings;
    bool is_broken =
        doctor->count > 0 && af_reasons[finding->cause].severity == AF_SEVERITY_BROKEN;
    if (doctor->next.kind == AF_NEXT_FINDING || is_broken)
        af_screen_add(screen, 0, "", is_broken ? AF_TONE_BAD : AF_TONE_STRONG,
                      af_reason_finding(finding->cause));
    else if (package == NULL && shim != NULL)
        af_screen_format(screen, 0, "", AF_TONE_STRONG,
                         "flash-attn %s (anyflash's stand-in) is installed",
                         af_fact_text_or(&shim->version, "of unknown version"));
    else if (package == NULL)
        af_screen_add(screen, 0, "", AF_TONE_STRONG,
                      first_machine(doctor)->packages.state == AF_FACT_UNKNOWN
                          ? "it is unknown whether flash-attn is installed"
                          : "flash-attn is not installed");
    else
        view_installed(screen, cli, doctor, package);
    if (doctor->next.kind == AF_NEXT_PLAN || doctor->next.kind == AF_NEXT_NO_WAY)
        af_screen_add(screen, 0, "", AF_TONE_STRONG, doctor->answer.headline);
    af_cli_left_out_gpus_view(screen, &doctor->answer.decision);
    af_screen_gap(screen);
}

static void view_facts(struct af_screen *screen, const struct doctor *doctor, bool verbose,
                       bool is_named, struct af_arena *arena)
{
    const struct af_machine *machine = first_machine(doctor);
    af_cli_facts_view(screen, machine, verbose, arena);
    if (is_named)
        af_screen_format(screen, 2, "", AF_TONE_PLAIN, "%s%s%s", machine->name,
                         machine->remark != NULL ? ": " : "",
                         machine->remark != NULL ? machine->remark : "");
}

static void view_all(struct af_cli *cli, struct doctor *doctor, struct af_screen *screen)
{
    const struct af_decision *decision = &doctor->answer.decision;
    bool verbose = af_option_given(&cli->options, AF_OPTION_VERBOSE);
    view_answer(screen, cli, doctor);
    if (doctor->next.kind != AF_NEXT_NOTHING) {
        af_screen_add(screen, 0, "", AF_TONE_STRONG, "Next step");
        view_next(screen, cli, doctor);
        af_screen_gap(screen);
    }
    if (doctor->count > 0) {
        af_screen_add(screen, 0, "", AF_TONE_STRONG, "Problems");
        view_findings(screen, cli, doctor, verbose);
        af_screen_gap(screen);
    }
    af_screen_add(screen, 0, "", AF_TONE_STRONG, "What fits");
    af_cli_rungs_table(screen, decision, false,
                       doctor->answer.offer_count > 0 ? doctor->answer.offers : NULL,
                       &cli->arena);
    af_screen_gap(screen);
    if (doctor->next.kind != AF_NEXT_NOTHING && af_cli_has_near_misses(decision)) {
        af_cli_near_misses_view(screen, decision, false);
        af_screen_gap(screen);
    }
    view_facts(screen, doctor, verbose, af_machines_named(&cli->options), &cli->arena);
}

static void view(struct af_cli *cli, struct doctor *doctor)
{
    struct af_screen screen = {&cli->out, af_screen_columns(), af_cli_color(cli)};
    if (af_option_given(&cli->options, AF_OPTION_QUIET))
        view_next(&screen, cli, doctor);
    else
        view_all(cli, doctor, &screen);
}

static json_t *findings_json(const struct doctor *doctor)
{
    json_t *list = json_array();
    for (size_t i = 0; i < doctor->count; i++) {
        const struct af_finding *finding = &doctor->findings[i];
        list = af_json_append(
            list,
            json_pack("{s:s, s:s, s:s, s:o, s:o}", "id", af_reasons[finding->cause].text_id,
                      "severity", af_severity_text(af_reasons[finding->cause].severity),
                      "message", af_reason_finding(finding->cause), "detail",
                      af_json_text(finding->detail), "hint", af_json_text(finding->hint)));
    }
    return list;
}

/* The next step in JSON, the same as on the screen. */
static struct af_plan_next next_of(const struct doctor *doctor)
{
    if (doctor->next.kind == AF_NEXT_FINDING)
        return (struct af_plan_next){.text = finding_advice(doctor->next.finding)};
    return doctor->next.kind == AF_NEXT_NOTHING ? (struct af_plan_next){.text = NULL}
                                                : doctor->answer.next;
}

static json_t *next_json(const struct doctor *doctor, struct af_arena *arena)
{
    static const char *const kinds[] = {"nothing", "finding", "plan", "no-way"};
    const struct af_finding *finding = doctor->next.finding;
    const struct af_plan_next next = next_of(doctor);
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o}", "kind", kinds[doctor->next.kind],
                     "finding",
                     af_json_text(finding != NULL ? af_reasons[finding->cause].text_id : NULL),
                     "text", af_json_text(next.text), "command", af_json_text(next.command),
                     "undo", af_json_text(next.undo), "steps",
                     doctor->answer.has_plan ? af_plan_steps_json(&doctor->answer.plan, arena)
                                             : json_array());
}

static enum anyflash_status write_json(struct af_cli *cli, const struct doctor *doctor,
                                       struct anyflash_error *err)
{
    const struct af_decision *decision = &doctor->answer.decision;
    json_t *json =
        json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "schema", "anyflash-doctor/1",
                  "machine", af_fit_json_machine(first_machine(doctor)), "facts",
                  af_cli_facts_json(first_machine(doctor)), "findings", findings_json(doctor),
                  "decision", af_fit_json_decision(decision), "rungs",
                  af_fit_json_rungs(decision), "next", next_json(doctor, &cli->arena),
                  "catalog", af_fit_json_catalog(&doctor->inputs.catalog));
    return af_cli_json_take(cli, json, err);
}

/* The rules look at the machine's GPUs: --arch counts as if the user had stated such a GPU. */
static enum anyflash_status state_arch(struct doctor *doctor, struct anyflash_error *err)
{
    struct af_machine *machine = &doctor->inputs.machines.items[0];
    const char *arch = doctor->inputs.request.fit.arch;
    const char *remark;
    if (arch == NULL)
        return ANYFLASH_OK;
    const char *word = af_arena_format(&machine->arena, "sm=%s", arch);
    return af_machine_given_strictly(machine, word, &remark, err);
}

static enum anyflash_status examine(struct af_cli *cli, struct doctor *doctor,
                                    struct anyflash_error *err)
{
    enum anyflash_status status = af_cli_inputs_load(
        cli, AF_CLI_INPUT_MACHINES | AF_CLI_INPUT_PROOFS | AF_CLI_INPUT_FILES, &doctor->inputs,
        err);
    if (status == ANYFLASH_OK)
        status = state_arch(doctor, err);
    if (status == ANYFLASH_OK)
        status = af_plan_answer_make(&doctor->inputs.request, &doctor->answer, err);
    if (status != ANYFLASH_OK)
        return status;
    const struct af_decision *decision = &doctor->answer.decision;
    status = af_doctor_examine(&doctor->inputs.catalog, first_machine(doctor), decision,
                               &cli->arena, &doctor->findings, &doctor->count, err);
    if (status == ANYFLASH_OK)
        doctor->next =
            af_doctor_next(first_machine(doctor), decision, doctor->findings, doctor->count);
    return status;
}

enum anyflash_status af_cmd_doctor(struct af_cli *cli, enum af_exit *exit_out,
                                   struct anyflash_error *err)
{
    struct doctor doctor = {0};
    const char *explained = cli->options.values[AF_OPTION_EXPLAIN];
    if (cli->options.machines.count > 1) {
        cli->hint = af_arena_format(&cli->arena, "`%s` decides for several machines at once",
                                    af_cli_next_command(cli, AF_COMMAND_PLAN, NULL));
        return af_fail(err, ANYFLASH_E_ARGUMENT, "'doctor' takes only one --machine");
    }
    if (explained != NULL)
        return af_cli_doctor_explain(cli, explained, err);
    if (cli->options.words.count > 0)
        return af_cli_doctor_logs(cli, exit_out, err);
    enum anyflash_status status = examine(cli, &doctor, err);
    if (status == ANYFLASH_OK) {
        *exit_out = doctor.answer.decision.possible ? AF_EXIT_YES : AF_EXIT_NO;
        if (af_option_given(&cli->options, AF_OPTION_JSON))
            status = write_json(cli, &doctor, err);
        else
            view(cli, &doctor);
    }
    af_plan_answer_release(&doctor.answer);
    af_cli_inputs_release(&doctor.inputs);
    return status;
}
