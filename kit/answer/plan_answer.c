/*
 * plan_answer.c: makes the decision, then its steps, offers and commands, and
 * says what the user does now. plan_shares.c says what that means for each of several
 * machines, plan_json.c writes it as JSON.
 */
#include "kit/answer/plan_answer.h"

#include <ctype.h>

#include "kit/base/shell.h"
#include "kit/fit/fit.h"
#include "kit/fit/gpu_generation.h"
#include "kit/fit/view.h"

/* What a build would produce and need, unless it is impossible. */
static void make_offers(struct af_plan_answer *answer)
{
    const struct af_plan_request *request = answer->request;
    const struct af_rung *rung = &answer->decision.rungs[AF_RUNG_BUILD];
    if (rung->answer == AF_NO || rung->build.arch_list == NULL)
        return;
    answer->offer_count = AF_OFFER_BUILD_OFFERS;
    af_offer_build_offers(rung, request->machines[0], &request->selection, &answer->arena,
                          answer->offers);
}

const struct af_rung *af_plan_answer_rung(const struct af_plan_answer *answer)
{
    const struct af_decision *decision = &answer->decision;
    return decision->possible ? &decision->rungs[decision->recommended] : NULL;
}

/* What the recommended rung means for the reader. */
static const char *headline_start(const struct af_rung *rung)
{
    switch (rung->kind) {
    case AF_RUNG_WHEEL:
        return rung->answer != AF_YES || !rung->wheel->listed ? "A wheel may fit"
                                                              : "A wheel fits";
    case AF_RUNG_BUILD:
        return "Build it here";
    default:
        return "Use torch's own attention";
    }
}

static const struct af_reason *find_reason(const struct af_rung *rung, enum af_reason_id id)
{
    for (size_t i = 0; i < rung->reason_count; i++)
        if (rung->reasons[i].id == id)
            return &rung->reasons[i];
    return NULL;
}

/*
 * Why a newer list of wheels comes before the decision, which replaces a torch that is newer
 * than the list; NULL: it does not, or another torch was asked for.
 */
static const struct af_reason *list_is_older(const struct af_plan_answer *answer)
{
    const struct af_rung *wheel = &answer->decision.rungs[AF_RUNG_WHEEL];
    const struct af_rung *rung = af_plan_answer_rung(answer);
    bool replaces = rung != NULL && rung->kind == AF_RUNG_TORCH_CHANGE;
    if (!replaces || answer->request->fit.has_preference || wheel->answer != AF_UNKNOWN)
        return NULL;
    return find_reason(wheel, AF_REASON_TORCH_NEWER);
}

/* Whether the version of Python is assumed; another version needs another wheel. */
static bool assumes_python(const struct af_plan_answer *answer)
{
    const struct af_machine *machine = answer->request->machines[0];
    return answer->request->machine_count == 1 && af_fact_is_assumed(&machine->python.version);
}

static const char *rung_headline(struct af_plan_answer *answer, const struct af_rung *rung)
{
    const struct af_machine *machine = answer->request->machines[0];
    bool absent = machine->torch.version.state == AF_FACT_ABSENT;
    const struct af_reason *older = list_is_older(answer);
    if (older != NULL)
        return af_arena_format(
            &answer->arena, "The list of wheels of %s is older than torch %s",
            answer->request->catalog->date, af_fact_text_or(&machine->torch.version, ""));
    const struct af_reason *image = find_reason(rung, AF_REASON_VENDOR_BRINGS);
    if (image != NULL && answer->request->machine_count == 1)
        return af_arena_format(&answer->arena, "Use the flash-attn %s that this image brings",
                               image->detail == NULL ? "" : image->detail);
    if ((rung->kind == AF_RUNG_TORCH_KERNELS || rung->kind == AF_RUNG_ENGINE) &&
        answer->request->machine_count == 1)
        return af_arena_format(&answer->arena, "%s: set attn_implementation=\"sdpa\"",
                               headline_start(rung));
    if (rung->kind == AF_RUNG_WHEEL && assumes_python(answer))
        return af_arena_format(&answer->arena, "If Python is %s, a%s: %s",
                               af_fact_text_or(&machine->python.version, ""),
                               headline_start(rung) + 1,
                               rung->summary == NULL ? "" : rung->summary);
    if (rung->kind != AF_RUNG_TORCH_CHANGE || rung->wheel == NULL)
        return af_arena_format(&answer->arena, "%s: %s", headline_start(rung),
                               rung->summary == NULL ? "" : rung->summary);
    return af_arena_format(&answer->arena, "%s %s+%s for %s %s%s",
                           absent ? "Install torch" : "Replace torch with", rung->torch_version,
                           rung->torch_cuda, rung->wheel->package, rung->wheel->version,
                           !rung->wheel->listed    ? " (URL not checked)"
                           : rung->wheel->official ? " (official)"
                                                   : " (community build)");
}

/* "No Python environment was found here: no .venv, ..." */
static const char *environment_headline(struct af_arena *arena, const struct af_reason *problem)
{
    char *text =
        af_arena_format(arena, "%s: %s", af_reasons[problem->id].message, problem->detail);
    text[0] = (char)toupper((unsigned char)text[0]);
    return text;
}

/* The package and version that was asked for, if no published wheel has it; or NULL. */
static const char *unpublished(const struct af_decision *decision)
{
    const struct af_rung *wheel = &decision->rungs[AF_RUNG_WHEEL];
    for (size_t i = 0; i < wheel->reason_count; i++)
        if (wheel->reasons[i].id == AF_REASON_NO_WHEEL_PACKAGE)
            return wheel->reasons[i].detail;
    return NULL;
}

/* Of a decision without an option: each is refused, or unknown, but not for lack of facts. */
static const char *none_headline(struct af_plan_answer *answer)
{
    bool all_refused = true;
    for (int kind = 0; kind < AF_RUNG_COUNT; kind++)
        all_refused = all_refused && answer->decision.rungs[kind].answer == AF_NO;
    return af_arena_format(
        &answer->arena, "No option %s on %s", all_refused ? "works" : "is known to work",
        answer->request->machine_count > 1 ? "all machines" : "this machine");
}

static const char *headline_of(struct af_plan_answer *answer)
{
    const struct af_rung *rung = af_plan_answer_rung(answer);
    const char *text = none_headline(answer);
    if (rung != NULL)
        text = rung_headline(answer, rung);
    else if (answer->decision.environment_problem != NULL)
        text = environment_headline(&answer->arena, answer->decision.environment_problem);
    else if (answer->decision.missing_fact != NULL)
        text = af_arena_format(&answer->arena, "No decision yet: the %s is unknown",
                               answer->decision.missing_fact);
    else if (answer->request->fit.has_preference)
        text = af_arena_format(&answer->arena, "The preferred option is not possible: %s",
                               af_rung_name(answer->decision.recommended));
    if (unpublished(&answer->decision) != NULL)
        text = af_arena_format(&answer->arena, "No wheel of %s is published. %s",
                               unpublished(&answer->decision), text);
    return text;
}

/* The SM that all GPUs of the request share, as 90; -1: they differ, or one is unknown. */
static int common_sm(const struct af_plan_request *request)
{
    int sm = af_sm_parse(request->fit.arch);
    for (size_t i = 0; i < request->machine_count && request->fit.arch == NULL; i++) {
        const struct af_gpu_rows *gpus = &request->machines[i]->gpus;
        for (size_t j = 0; j < gpus->count; j++) {
            int one = af_sm_parse(af_fact_text_or(&gpus->rows[j].sm, NULL));
            sm = (i == 0 && j == 0) || one == sm ? one : -2;
        }
    }
    return sm < 0 ? -1 : sm;
}

/* The FlashAttention that is made for these GPUs, if flash-attn 2 was asked for; or NULL. */
static const char *newer_package(const struct af_plan_request *request)
{
    const struct af_fit_options *fit = &request->fit;
    int sm = common_sm(request);
    if ((fit->package != NULL && !af_equal(fit->package, "flash_attn")) ||
        fit->version != NULL || fit->has_preference)
        return NULL;
    return af_sm_generation_of(sm).package;
}

/* Names that package if a wheel of it fits. */
static enum anyflash_status find_faster(struct af_plan_answer *answer,
                                        struct anyflash_error *err)
{
    const struct af_plan_request *request = answer->request;
    struct af_fit_options fit = request->fit;
    bool has_wheel = false;
    fit.package = newer_package(request);
    if (fit.package == NULL || answer->decision.environment_problem != NULL)
        return ANYFLASH_OK;
    enum anyflash_status status = af_fit_has_wheel(
        request->catalog, request->machines, request->machine_count, &fit, &has_wheel, err);
    if (status == ANYFLASH_OK && has_wheel)
        answer->faster = fit.package;
    return status;
}

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
    line[count++] = "anyflash";
    line[count++] = command;
    for (size_t i = 0; i < word_count; i++)
        line[count++] = words[i];
    for (size_t i = 0; i < option_count; i++)
        line[count++] = options[i];
    return af_shell_command(AF_SHELL_POSIX, NULL, 0, line, count, arena);
}

/*
 * Whether `anyflash install` is what the user runs now. Some steps, such as a build, are left
 * to the user; and where torch's own attention serves, nothing has to be installed.
 */
static bool can_install(const struct af_plan *plan)
{
    bool brings = false;
    for (size_t i = 0; i < plan->step_count; i++) {
        enum af_step_kind kind = plan->steps[i].kind;
        if (kind == AF_STEP_ENVIRONMENT || kind == AF_STEP_BUILD)
            return false;
        brings = brings || kind == AF_STEP_WHEEL || kind == AF_STEP_TORCH;
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
static struct af_plan_next next_install(struct af_plan_answer *answer,
                                        const struct af_rung *rung)
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

/* What the user does now: plan, doctor and their JSON all say this. */
static struct af_plan_next next_of(struct af_plan_answer *answer)
{
    const struct af_rung *rung = af_plan_answer_rung(answer);
    struct af_plan_next next = {.kind = AF_PLAN_NEXT_STEPS};
    if (rung == NULL)
        return before_a_plan(&answer->decision);
    if (list_is_older(answer) != NULL)
        return (struct af_plan_next){
            .kind = AF_PLAN_NEXT_UPDATE,
            .text =
                "get a newer list with `anyflash update`, or look for a wheel on the release "
                "pages below; `--prefer torch-change` shows how to replace torch instead",
            .command = "anyflash update"};
    if (answer->plan.step_count == 0)
        next.kind = AF_PLAN_NEXT_NOTHING;
    else if (!can_install(&answer->plan))
        next.text = rung->kind == AF_RUNG_BUILD ? "run the first command below" : NULL;
    else if (answer->share_count > 0)
        next.text = "run the steps below on each machine";
    else if (answer->request->elsewhere && rung->kind == AF_RUNG_WHEEL &&
             assumes_python(answer))
        next.text = af_reasons[AF_REASON_UNKNOWN_PYTHON].hint;
    else if (answer->request->elsewhere)
        next.text = "run these steps on the machine described below";
    else
        next = next_install(answer, rung);
    return next;
}

enum anyflash_status af_plan_answer_make(const struct af_plan_request *request,
                                         struct af_plan_answer *answer,
                                         struct anyflash_error *err)
{
    struct af_plan_answer made = {.request = request};
    af_arena_init(&made.arena);
    enum anyflash_status status =
        af_fit_decide(request->catalog, request->machines, request->machine_count,
                      &request->fit, &made.decision, err);
    made.has_decision = status == ANYFLASH_OK;
    if (status == ANYFLASH_OK && made.decision.possible) {
        status = af_plan_make(&made.decision, request->machines, request->machine_count,
                              &made.plan, err);
        made.has_plan = status == ANYFLASH_OK;
    }
    if (status == ANYFLASH_OK)
        status = find_faster(&made, err);
    if (status == ANYFLASH_OK)
        status = af_plan_answer_share(&made, err);
    if (status == ANYFLASH_OK) {
        make_offers(&made);
        made.headline = headline_of(&made);
        made.next = next_of(&made);
        made.has_proof = af_plan_proof_make(&made.decision.rungs[AF_RUNG_WHEEL],
                                            request->machines[0], &made.arena, &made.proof);
        *answer = made;
    } else {
        af_plan_answer_release(&made);
    }
    return status;
}

void af_plan_answer_release(struct af_plan_answer *answer)
{
    if (answer->has_plan)
        af_plan_release(&answer->plan);
    for (size_t i = 0; i < answer->share_count; i++)
        if (answer->shares[i].has_plan)
            af_plan_release(&answer->shares[i].plan);
    if (answer->has_decision)
        af_decision_release(&answer->decision);
    af_arena_release(&answer->arena);
    *answer = (struct af_plan_answer){0};
}

const struct af_plan_way_row af_plan_ways[AF_PLAN_WAY_COUNT] = {
    [AF_PLAN_WAY_OFFICIAL] = {"official", "official wheel", NULL},
    [AF_PLAN_WAY_COMMUNITY] = {"community", "community wheel", NULL},
    [AF_PLAN_WAY_PROVE] = {"prove", "wheel that may load: prove it first", NULL},
    [AF_PLAN_WAY_KERNELS] = {"kernels", "torch's own kernels", "torch"},
    [AF_PLAN_WAY_CHANGE] = {"change", "another torch", "change"},
    [AF_PLAN_WAY_BUILD] = {"build", "build from source", "build"},
    [AF_PLAN_WAY_NOTHING] = {"nothing", "no FlashAttention", "none"},
    [AF_PLAN_WAY_UNDECIDED] = {"undecided", "unknown: a fact is missing", "?"},
};

enum af_plan_way af_plan_answer_way(const struct af_plan_answer *answer)
{
    static const enum af_plan_way of_rung[AF_RUNG_COUNT] = {
        [AF_RUNG_TORCH_KERNELS] = AF_PLAN_WAY_KERNELS,
        [AF_RUNG_TORCH_CHANGE] = AF_PLAN_WAY_CHANGE,
        [AF_RUNG_BUILD] = AF_PLAN_WAY_BUILD,
        [AF_RUNG_ENGINE] = AF_PLAN_WAY_NOTHING};
    const struct af_rung *rung = af_plan_answer_rung(answer);
    if (rung != NULL && rung->kind == AF_RUNG_WHEEL && rung->answer == AF_YES)
        return rung->wheel != NULL && rung->wheel->official ? AF_PLAN_WAY_OFFICIAL
                                                            : AF_PLAN_WAY_COMMUNITY;
    if (answer->has_proof || (rung != NULL && rung->kind == AF_RUNG_WHEEL))
        return AF_PLAN_WAY_PROVE;
    if (rung == NULL)
        return answer->decision.missing_fact != NULL ||
                       answer->decision.environment_problem != NULL
                   ? AF_PLAN_WAY_UNDECIDED
                   : AF_PLAN_WAY_NOTHING;
    return of_rung[rung->kind];
}
