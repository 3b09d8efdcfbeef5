/*
 * decision.c: from machines and catalog to a decision: views, verdicts, order,
 * rungs, recommendation. Each step is in a file of its own.
 */
#include "base/text.h"
#include "fit/rank.h"
#include "fit/rung.h"

#include <string.h>

static const char *const rung_names[AF_RUNG_COUNT] = {"wheel", "torch-kernels", "torch-change",
                                                      "build", "engine"};

const char *af_rung_name(enum af_rung_kind kind)
{
    return rung_names[kind];
}

bool af_rung_parse(const char *name, enum af_rung_kind *kind_out)
{
    for (size_t i = 0; i < AF_RUNG_COUNT; i++) {
        if (af_equal(name, rung_names[i])) {
            *kind_out = (enum af_rung_kind)i;
            return true;
        }
    }
    return false;
}

/* Names are compared as PEP 503 normalises them: '-' and '_' are alike. */
static bool is_package(const char *wheel, const char *wanted)
{
    for (; *wheel != '\0' && *wanted != '\0'; wheel++, wanted++) {
        if (*wheel != *wanted && !(*wheel == '_' && *wanted == '-'))
            return false;
    }
    return *wheel == *wanted;
}

static bool is_asked_for(const struct af_fit_options *options, const struct af_wheel *wheel)
{
    const char *package = options->package == NULL ? "flash_attn" : options->package;
    return is_package(wheel->package, package) &&
           (options->version == NULL || strcmp(options->version, wheel->version) == 0) &&
           (!options->official_only || wheel->official);
}

static void judge_catalog(const struct af_judge *judge, struct af_decision *decision)
{
    const struct af_catalog *catalog = judge->catalog;
    struct af_trial trial = {.judge = judge};
    decision->candidates =
        af_arena_array(&decision->arena, catalog->count + 1, sizeof *decision->candidates);
    if (decision->candidates == NULL)
        return;
    for (size_t i = 0; i < catalog->count; i++) {
        const struct af_wheel *wheel = &catalog->wheels[i];
        if (is_asked_for(judge->options, wheel))
            decision->candidates[decision->candidate_count++].wheel = wheel;
    }
    for (size_t v = 0; v < judge->view_count; v++) {
        for (size_t i = 0; i < decision->candidate_count; i++)
            decision->candidates[i].reason_bits |=
                af_verdict(&trial, &judge->views[v], decision->candidates[i].wheel);
    }
    for (size_t i = 0; i < decision->candidate_count; i++)
        decision->candidates[i].answer = af_verdict_answer(decision->candidates[i].reason_bits);
    af_rank_sort(judge, decision->candidates, decision->candidate_count,
                 &decision->fitting_count, &decision->unknown_count);
}

/* The key fact that is missing on some machine, NULL when all are known. */
static const char *missing_fact(const struct af_judge *judge)
{
    for (size_t i = 0; i < judge->view_count; i++) {
        const struct af_view *view = &judge->views[i];
        if (view->os == NULL || view->arch == NULL)
            return "platform";
        if (!view->python_known)
            return "Python version";
        if (view->torch.state == AF_FACT_UNKNOWN)
            return "torch version";
    }
    return NULL;
}

/* Open only because a fact of the machine is missing, which the reader can state. */
static bool open_by_facts(const struct af_rung *rung)
{
    for (size_t i = 0; i < rung->reason_count; i++) {
        if (af_reason_effect(rung->reasons[i].id) == AF_REASON_OPEN &&
            !af_starts_with(af_reason_text_id(rung->reasons[i].id), "unknown-"))
            return false;
    }
    return true;
}

static void recommend(const struct af_judge *judge, struct af_decision *decision)
{
    const char *missing = missing_fact(judge);
    if (judge->options->has_preference) {
        decision->recommended = judge->options->preference;
        decision->possible = decision->rungs[decision->recommended].answer != AF_NO;
        return;
    }
    decision->recommended = AF_RUNG_ENGINE;
    for (int kind = 0; kind < AF_RUNG_COUNT; kind++) {
        const struct af_rung *rung = &decision->rungs[kind];
        bool unknown = rung->answer == AF_UNKNOWN && open_by_facts(rung);
        if (unknown && missing != NULL) {
            decision->missing_fact = missing;
            return; /* a fact decides between this rung and those below */
        }
        if (rung->answer == AF_YES || unknown) {
            decision->recommended = (enum af_rung_kind)kind;
            decision->possible = true;
            return;
        }
    }
}

static void climb_ladder(const struct af_judge *judge, struct af_decision *decision)
{
    struct af_climb climb = {.judge = judge, .decision = decision, .arena = &decision->arena};
    af_rung_wheel(&climb);
    af_rung_torch_kernels(&climb);
    af_rung_torch_change(&climb);
    af_rung_build(&climb);
    af_rung_engine(&climb);
    recommend(judge, decision);
}

static void make_views(struct af_judge *judge, const struct af_machine *const *machines,
                       struct af_arena *arena)
{
    judge->views = af_arena_array(arena, judge->view_count, sizeof *judge->views);
    for (size_t i = 0; judge->views != NULL && i < judge->view_count; i++)
        af_view_make(machines[i], judge->tables, judge->options->arch, arena, &judge->views[i]);
}

static enum anyflash_status check(size_t machine_count, const struct af_fit_options *options,
                                  struct anyflash_error *err)
{
    if (machine_count == 0)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "no machine to decide for");
    if (options->arch != NULL && af_sm_parse(options->arch) < 0) {
        char shown[40];
        af_text_quote(shown, sizeof shown, options->arch, strlen(options->arch));
        return af_fail(err, ANYFLASH_E_ARGUMENT, "'%s' is no compute capability, as 8.9 or 9.0",
                       shown);
    }
    return ANYFLASH_OK;
}

enum anyflash_status af_fit_decide(const struct af_catalog *catalog,
                                   const struct af_machine *const *machines,
                                   size_t machine_count, const struct af_fit_options *options,
                                   struct af_decision *decision, struct anyflash_error *err)
{
    static const struct af_fit_options no_options;
    struct af_tables tables;
    struct af_decision made = {.possible = false};
    struct af_judge judge = {.catalog = catalog,
                             .tables = &tables,
                             .options = options == NULL ? &no_options : options,
                             .view_count = machine_count};
    enum anyflash_status status = check(machine_count, judge.options, err);
    if (status == ANYFLASH_OK)
        status = af_tables_load(&tables, err);
    if (status != ANYFLASH_OK)
        return status;
    af_arena_init(&made.arena);
    make_views(&judge, machines, &made.arena);
    if (!made.arena.failed)
        judge_catalog(&judge, &made);
    if (!made.arena.failed)
        climb_ladder(&judge, &made);
    af_tables_release(&tables);
    if (made.arena.failed) {
        af_arena_release(&made.arena);
        return af_fail_memory(err);
    }
    *decision = made;
    return ANYFLASH_OK;
}

enum anyflash_status af_fit_build(const struct af_machine *machine,
                                  const struct af_fit_options *options, struct af_arena *arena,
                                  struct af_rung *rung_out, struct anyflash_error *err)
{
    struct af_tables tables;
    struct af_judge judge = {.tables = &tables, .options = options, .view_count = 1};
    struct af_decision *decision = af_arena_alloc(arena, sizeof *decision);
    enum anyflash_status status = check(1, options, err);
    if (status == ANYFLASH_OK)
        status = decision == NULL ? af_fail_memory(err) : af_tables_load(&tables, err);
    if (status != ANYFLASH_OK)
        return status;
    struct af_climb climb = {.judge = &judge, .decision = decision, .arena = arena};
    make_views(&judge, &machine, arena);
    if (!arena->failed)
        af_rung_build(&climb);
    af_tables_release(&tables);
    if (arena->failed)
        return af_fail_memory(err);
    *rung_out = decision->rungs[AF_RUNG_BUILD];
    return ANYFLASH_OK;
}

void af_decision_release(struct af_decision *decision)
{
    af_arena_release(&decision->arena);
    *decision = (struct af_decision){.possible = false};
}

enum anyflash_status af_fit_explain(const struct af_catalog *catalog,
                                    const struct af_machine *machine,
                                    const struct af_fit_options *options,
                                    const struct af_wheel *wheel, struct af_arena *arena,
                                    const struct af_reason **reasons_out, size_t *count_out,
                                    struct anyflash_error *err)
{
    static const struct af_fit_options no_options;
    struct af_tables tables;
    struct af_judge judge = {.catalog = catalog,
                             .tables = &tables,
                             .options = options == NULL ? &no_options : options,
                             .view_count = 1};
    enum anyflash_status status = check(1, judge.options, err);
    if (status == ANYFLASH_OK)
        status = af_tables_load(&tables, err);
    if (status != ANYFLASH_OK)
        return status;
    size_t count = 0;
    const struct af_reason *reasons = NULL;
    make_views(&judge, &machine, arena);
    if (!arena->failed)
        reasons = af_verdict_explain(&judge, wheel, arena, &count);
    af_tables_release(&tables);
    if (arena->failed)
        return af_fail_memory(err);
    *reasons_out = reasons;
    *count_out = count;
    return ANYFLASH_OK;
}
