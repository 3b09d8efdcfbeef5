/*
 * plan_answer.c: makes the decision, then its steps, offers and commands, and
 * writes them as JSON.
 */
#include "kit/answer/plan_answer.h"

#include <ctype.h>

#include "kit/answer/plan_json.h"
#include "kit/fit/fit.h"
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
    case AF_RUNG_TORCH_KERNELS:
        return "Use torch's own kernels";
    case AF_RUNG_BUILD:
        return "Build it here";
    default:
        return "Without flash-attn";
    }
}

static const char *rung_headline(struct af_plan_answer *answer, const struct af_rung *rung)
{
    const struct af_machine *machine = answer->request->machines[0];
    bool absent = machine->torch.version.state == AF_FACT_ABSENT;
    if (rung->kind != AF_RUNG_TORCH_CHANGE || rung->wheel == NULL)
        return af_arena_format(&answer->arena, "%s: %s", headline_start(rung),
                               rung->summary == NULL ? "" : rung->summary);
    return af_arena_format(&answer->arena, "%s %s+%s for %s %s%s",
                           absent ? "Install torch" : "Replace torch with", rung->torch_version,
                           rung->torch_cuda, rung->wheel->package, rung->wheel->version,
                           !rung->wheel->listed    ? " (derived, not seen)"
                           : rung->wheel->official ? " (official)"
                                                   : " (community build)");
}

/* "No Python environment was found here: no .venv, ..." */
static const char *environment_headline(struct af_arena *arena, const struct af_reason *problem)
{
    char *text =
        af_arena_format(arena, "%s: %s", af_reasons[problem->id].message, problem->detail);
    if (text != NULL)
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

/* NULL if memory runs out. */
static const char *headline_of(struct af_plan_answer *answer)
{
    const struct af_rung *rung = af_plan_answer_rung(answer);
    const char *text = answer->request->machine_count > 1 ? "No option works on all machines"
                                                          : "No option works on this machine";
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
                               unpublished(&answer->decision), text == NULL ? "" : text);
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
    return sm == 90 ? "flash_attn_3" : sm / 10 == 10 ? "flash_attn_4" : NULL;
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

static bool same_words(const char *const *a, size_t a_count, const char *const *b,
                       size_t b_count)
{
    bool same = a_count == b_count;
    for (size_t i = 0; same && i < a_count; i++)
        same = af_equal(a[i], b[i]);
    return same;
}

/* Whether a reader would see no difference. */
static bool same_steps(const struct af_plan *a, const struct af_plan *b)
{
    bool same = a->step_count == b->step_count && a->shell == b->shell;
    for (size_t i = 0; same && i < a->step_count; i++) {
        const struct af_step *left = &a->steps[i], *right = &b->steps[i];
        same = af_equal(left->title, right->title) &&
               same_words(left->argv, left->argc, right->argv, right->argc) &&
               same_words(left->environment, left->environment_count, right->environment,
                          right->environment_count);
    }
    return same;
}

/* The place of the answer's option on the ladder; AF_RUNG_COUNT: there is none. */
static int place_of(const struct af_plan_answer *answer)
{
    const struct af_rung *rung = af_plan_answer_rung(answer);
    return rung == NULL ? AF_RUNG_COUNT : (int)rung->kind;
}

/* Fills what is best for the machine alone. */
static enum anyflash_status answer_alone(struct af_plan_answer *answer,
                                         const struct af_plan_request *request,
                                         struct af_plan_share *share,
                                         struct anyflash_error *err)
{
    struct af_plan_answer alone;
    enum anyflash_status status = af_plan_answer_make(request, &alone, err);
    if (status != ANYFLASH_OK)
        return status;
    share->headline = af_arena_text(&answer->arena, alone.headline);
    share->way = af_plan_answer_way(&alone);
    share->decides = place_of(&alone) >= place_of(answer);
    af_plan_answer_release(&alone);
    return ANYFLASH_OK;
}

static enum anyflash_status make_share(struct af_plan_answer *answer, size_t index,
                                       struct anyflash_error *err)
{
    struct af_plan_request request = *answer->request;
    struct af_plan_share *share = &answer->shares[index];
    request.machines = &answer->request->machines[index];
    request.machine_count = 1;
    *share = (struct af_plan_share){.machine = request.machines[0], .steps_of = index};
    enum anyflash_status status = answer_alone(answer, &request, share, err);
    if (status == ANYFLASH_OK && answer->decision.possible) {
        status = af_plan_make(&answer->decision, request.machines, 1, &share->plan, err);
        share->has_plan = status == ANYFLASH_OK;
    }
    for (size_t i = index; i-- > 0;)
        if (same_steps(&answer->shares[i].plan, &share->plan))
            share->steps_of = i;
    return status;
}

/* What the answer means for each of several machines. */
static enum anyflash_status make_shares(struct af_plan_answer *answer,
                                        struct anyflash_error *err)
{
    size_t count = answer->request->machine_count;
    if (count < 2)
        return ANYFLASH_OK;
    answer->shares = af_arena_array(&answer->arena, count, sizeof *answer->shares);
    if (answer->shares == NULL)
        return af_fail_memory(err);
    enum anyflash_status status = ANYFLASH_OK;
    for (size_t i = 0; i < count && status == ANYFLASH_OK; i++) {
        status = make_share(answer, i, err);
        answer->share_count++;
    }
    return status;
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
        status = make_shares(&made, err);
    if (status == ANYFLASH_OK) {
        make_offers(&made);
        made.headline = headline_of(&made);
        made.next = af_plan_next_of(&made);
        made.has_proof = af_plan_proof_make(&made.decision.rungs[AF_RUNG_WHEEL],
                                            request->machines[0], &made.arena, &made.proof);
        status = made.arena.failed ? af_fail_memory(err) : ANYFLASH_OK;
    }
    if (status == ANYFLASH_OK)
        *answer = made;
    else
        af_plan_answer_release(&made);
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

static const struct {
    const char *name;
    const char *title;
    const char *label;
} ways[AF_PLAN_WAY_COUNT] = {
    [AF_PLAN_WAY_OFFICIAL] = {"official", "official wheel", NULL},
    [AF_PLAN_WAY_COMMUNITY] = {"community", "community wheel", NULL},
    [AF_PLAN_WAY_PROVE] = {"prove", "wheel that may load: prove it first", NULL},
    [AF_PLAN_WAY_KERNELS] = {"kernels", "torch's own kernels", "torch"},
    [AF_PLAN_WAY_CHANGE] = {"change", "another torch", "change"},
    [AF_PLAN_WAY_BUILD] = {"build", "build from source", "build"},
    [AF_PLAN_WAY_NOTHING] = {"nothing", "no FlashAttention", "none"},
    [AF_PLAN_WAY_UNDECIDED] = {"undecided", "unknown: a fact is missing", "?"},
};

const char *af_plan_way_name(enum af_plan_way way)
{
    return ways[way].name;
}

const char *af_plan_way_title(enum af_plan_way way)
{
    return ways[way].title;
}

const char *af_plan_way_label(enum af_plan_way way)
{
    return ways[way].label;
}

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

static json_t *proof_json(const struct af_plan_answer *answer)
{
    const struct af_rung *rung = &answer->decision.rungs[AF_RUNG_WHEEL];
    if (!answer->has_proof)
        return json_null();
    return json_pack("{s:o, s:s, s:s}", "wheel", af_fit_json_wheel(rung->wheel), "inspect",
                     answer->proof.inspect, "install", answer->proof.install);
}

/* The resources of a build; a new object. */
static json_t *build_needs_json(const struct af_offer_build_needs *needs)
{
    return json_pack(
        "{s:I, s:f, s:o, s:I, s:I, s:I, s:I, s:I}", "files", (json_int_t)needs->file_count,
        "cpu_seconds", needs->cpu_seconds, "estimated_seconds",
        needs->wall_seconds > 0 ? json_real(needs->wall_seconds) : json_null(), "peak_bytes",
        (json_int_t)needs->peak_bytes, "memory_bytes", (json_int_t)needs->memory_bytes,
        "disk_bytes", (json_int_t)needs->disk_bytes, "download_bytes",
        (json_int_t)needs->download_bytes, "wheel_bytes", (json_int_t)needs->wheel_bytes);
}

static json_t *offer_json(const struct af_offer_build_offer *offer, struct af_arena *arena)
{
    const char *line = af_offer_build_line(offer, arena);
    json_t *json = build_needs_json(&offer->needs);
    json_t *rest =
        json_pack("{s:s, s:s, s:o, s:s, s:s, s:s}", "name", offer->name, "holds", offer->holds,
                  "argv", af_json_texts(offer->argv, offer->argc), "command", line, "time",
                  af_offer_build_time_text(arena, &offer->needs), "needs",
                  af_offer_build_needs_text(arena, &offer->needs));
    bool failed = json == NULL || rest == NULL || json_object_update(json, rest) != 0;
    json_decref(rest);
    if (!failed)
        return json;
    json_decref(json);
    return NULL;
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
                     af_plan_way_name(share->way), "decides", share->decides);
}

/* The machine; as one of several also its own best option, and its steps. */
static json_t *machine_json(struct af_plan_answer *answer, size_t index)
{
    struct af_plan_share *share = index < answer->share_count ? &answer->shares[index] : NULL;
    json_t *json = af_fit_json_machine(answer->request->machines[index]);
    bool failed = json_object_set_new(json, "alone",
                                      share == NULL ? json_null() : alone_json(share)) != 0;
    failed |= json_object_set_new(json, "steps",
                                  share == NULL
                                      ? json_null()
                                      : af_plan_steps_json(&share->plan, &answer->arena)) != 0;
    if (!failed)
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
    return json_pack("{s:s, s:o, s:o, s:o}", "kind", af_plan_next_name(next->kind), "text",
                     af_json_text(next->text), "command", af_json_text(next->command), "undo",
                     af_json_text(next->undo));
}

json_t *af_plan_answer_json(struct af_plan_answer *answer)
{
    const struct af_decision *decision = &answer->decision;
    const struct af_plan_request *request = answer->request;
    const struct af_rung *rung = af_plan_answer_rung(answer);
    json_t *json = json_pack(
        "{s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, "
        "s:o}",
        "schema", "anyflash-plan/1", "headline", answer->headline, "way",
        af_plan_way_name(af_plan_answer_way(answer)), "machines", machines_json(answer), "next",
        next_json(&answer->next), "faster", af_json_text(answer->faster), "facts",
        af_plan_facts_json(request->machines[0]), "decision", af_fit_json_decision(decision),
        "wheel",
        rung != NULL && rung->wheel != NULL ? af_fit_json_wheel(rung->wheel) : json_null(),
        "rungs", af_fit_json_rungs(decision), "builds", offers_json(answer), "steps",
        answer->has_plan ? af_plan_steps_json(&answer->plan, &answer->arena) : json_array(),
        "prove_first", proof_json(answer), "near_misses", af_fit_json_near_misses(decision),
        "sieve", af_fit_json_filter_counts(decision), "candidates",
        af_fit_json_candidate_counts(decision), "publishers",
        af_fit_json_publishers(&request->fit), "catalog",
        af_fit_json_catalog(request->catalog));
    if (!answer->arena.failed)
        return json;
    json_decref(json); /* a command is missing */
    return NULL;
}
