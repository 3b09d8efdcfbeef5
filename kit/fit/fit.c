/*
 * fit.c: makes a decision from machines and catalog: which wheels were asked for, verdicts on
 * them, their order, the rungs, the recommendation.
 */
#include "kit/base/text.h"

#include <string.h>

#include "kit/catalog/publisher.h"
#include "kit/fit/rung.h"
#include "kit/fit/verdict.h"
#include "kit/formats/version.h"

static const struct af_fit_options no_options;

enum anyflash_status af_fit_context_open(struct af_fit_context *fit,
                                         const struct af_catalog *catalog,
                                         const struct af_machine *const *machines,
                                         size_t machine_count,
                                         const struct af_fit_options *options,
                                         struct af_arena *arena, struct anyflash_error *err)
{
    *fit = (struct af_fit_context){.catalog = catalog,
                                   .options = options == NULL ? &no_options : options,
                                   .view_count = machine_count};
    const char *arch = fit->options->arch;
    char shown[40];
    if (machine_count == 0)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "no machine to decide for");
    if (arch != NULL && af_sm_parse(arch) < 0)
        return af_fail(err, ANYFLASH_E_ARGUMENT,
                       "'%s' is not a compute capability, such as 8.9 or 9.0",
                       af_text_quote(shown, sizeof shown, arch, strlen(arch)));
    fit->views = af_arena_array(arena, machine_count, sizeof *fit->views);
    for (size_t i = 0; i < machine_count; i++)
        af_view_make(machines[i], arch, arena, &fit->views[i]);
    return ANYFLASH_OK;
}

/* Compares names as PEP 503 normalises them: '-' and '_' are the same. */
static bool is_package(const char *wheel, const char *wanted)
{
    for (; *wheel != '\0' && *wanted != '\0'; wheel++, wanted++) {
        if (*wheel != *wanted && !(*wheel == '_' && *wanted == '-'))
            return false;
    }
    return *wheel == *wanted;
}

bool af_fit_publisher_is_allowed(const struct af_fit_options *options,
                                 const struct af_catalog_wheel *wheel)
{
    bool all = !options->official_only || wheel->official;
    for (size_t i = 0; i < options->publisher_list_count && all; i++) {
        const struct af_publishers *list = &options->publishers[i];
        bool any = wheel->path != NULL; /* it is the user's own */
        for (size_t n = 0; n < list->count && !any; n++)
            any = af_publisher_is(wheel, list->names[n]);
        all = any;
    }
    return all;
}

/* Whether the public version of the wheel is in the range that was asked for. */
static bool is_in_range(const char *range, const struct af_catalog_wheel *wheel)
{
    struct af_version version;
    return range == NULL ||
           (af_version_parse(wheel->version, strlen(wheel->version), &version) &&
            af_specifier_contains(range, &version) == AF_YES);
}

bool af_fit_wheel_is_asked_for(const struct af_fit_options *options,
                               const struct af_catalog_wheel *wheel)
{
    const char *package = options->package == NULL ? "flash_attn" : options->package;
    return is_package(wheel->package, package) &&
           (options->version == NULL || strcmp(options->version, wheel->version) == 0) &&
           af_fit_publisher_is_allowed(options, wheel) && is_in_range(options->range, wheel);
}

enum anyflash_status af_fit_provable_wheels(const struct af_catalog *catalog,
                                            const struct af_machine *machine,
                                            const struct af_fit_options *options,
                                            const struct af_catalog_wheel **wheels,
                                            size_t *count, struct af_arena *arena,
                                            struct anyflash_error *err)
{
    struct af_fit_context fit;
    size_t asked = 0;
    size_t fitting;
    size_t unknown;
    enum anyflash_status status =
        af_fit_context_open(&fit, catalog, &machine, 1, options, arena, err);
    if (status != ANYFLASH_OK)
        return status;
    struct af_candidate *candidates = af_arena_array(arena, *count + 1, sizeof *candidates);
    for (size_t i = 0; i < *count; i++)
        if (af_fit_wheel_is_asked_for(fit.options, wheels[i]))
            candidates[asked++].wheel = wheels[i];
    af_fit_candidates_check(&fit, candidates, asked, &fitting, &unknown);
    *count = 0;
    for (size_t i = 0; i < asked; i++)
        if (af_candidate_is_provable(&candidates[i]))
            wheels[(*count)++] = candidates[i].wheel;
    return ANYFLASH_OK;
}

enum anyflash_status af_fit_explain(const struct af_catalog *catalog,
                                    const struct af_machine *machine,
                                    const struct af_fit_options *options,
                                    const struct af_catalog_wheel *wheel,
                                    struct af_arena *arena,
                                    const struct af_reason **reasons_out, size_t *count_out,
                                    struct anyflash_error *err)
{
    struct af_fit_context fit;
    enum anyflash_status status =
        af_fit_context_open(&fit, catalog, &machine, 1, options, arena, err);
    if (status != ANYFLASH_OK)
        return status;
    *reasons_out = af_verdict_explain(&fit, wheel, arena, count_out);
    return ANYFLASH_OK;
}

#define NAMES_MAX 8u /* enough to see what kind of names there are */

struct names {
    const char *items[NAMES_MAX];
    size_t count;
};

/* Whether the catalog has a wheel that the package and version of `options` select. */
static bool is_there(const struct af_catalog *catalog, const struct af_fit_options *options)
{
    for (size_t i = 0; i < catalog->count; i++)
        if (af_fit_wheel_is_asked_for(options, &catalog->wheels[i]))
            return true;
    return false;
}

/* Sorted, so that "flash_attn" comes first. */
static void list_packages(const struct af_catalog *catalog, struct names *names)
{
    const char *last = "";
    for (; names->count < NAMES_MAX; names->items[names->count++] = last) {
        const char *next = NULL;
        for (size_t i = 0; i < catalog->count; i++) {
            const char *package = catalog->wheels[i].package;
            if (strcmp(package, last) > 0 && (next == NULL || strcmp(package, next) < 0))
                next = package;
        }
        if (next == NULL)
            break;
        last = next;
    }
}

/* The newest versions of the package, newest first. */
static void list_versions(const struct af_catalog *catalog,
                          const struct af_fit_options *package, struct names *names)
{
    const struct af_catalog_wheel *last = NULL;
    for (; names->count < NAMES_MAX; names->items[names->count++] = last->version) {
        const struct af_catalog_wheel *next = NULL;
        for (size_t i = 0; i < catalog->count; i++) {
            const struct af_catalog_wheel *wheel = &catalog->wheels[i];
            if ((last == NULL || wheel->version_rank < last->version_rank) &&
                (next == NULL || wheel->version_rank > next->version_rank) &&
                af_fit_wheel_is_asked_for(package, wheel))
                next = wheel;
        }
        if (next == NULL)
            break;
        last = next;
    }
}

/* "it has 2.8.3, 2.8.2 and others" */
static const char *hint_text(struct af_arena *arena, const struct names *names)
{
    const char *text = "it has ";
    for (size_t i = 0; i < names->count; i++)
        text = af_arena_format(arena, "%s%s%s", text, i > 0 ? ", " : "", names->items[i]);
    return af_arena_format(arena, "%s%s", text, names->count == NAMES_MAX ? " and others" : "");
}

enum anyflash_status af_fit_check_asked(const struct af_catalog *catalog,
                                        const struct af_fit_options *options,
                                        struct af_arena *arena, const char **hint_out,
                                        struct anyflash_error *err)
{
    struct af_fit_options package = {.package = options->package};
    struct af_fit_options asked = {.package = options->package, .version = options->version};
    const char *name = options->package == NULL ? "flash_attn" : options->package;
    struct names names = {.count = 0};
    if (options->package != NULL && !is_there(catalog, &package)) {
        list_packages(catalog, &names);
        *hint_out = hint_text(arena, &names);
        return af_fail(err, ANYFLASH_E_ARGUMENT, "the catalog has no package '%s'", name);
    }
    if (options->version == NULL || is_there(catalog, &asked))
        return ANYFLASH_OK;
    /* a release of flash-attn 2 can be built if it has no wheel */
    if (strcmp(name, "flash_attn") == 0 && af_tables_flash(options->version) != NULL)
        return ANYFLASH_OK;
    list_versions(catalog, &package, &names);
    *hint_out = hint_text(arena, &names);
    return af_fail(err, ANYFLASH_E_ARGUMENT, "the catalog has no version '%s' of %s",
                   options->version, name);
}

static void check_catalog(const struct af_fit_context *fit, struct af_decision *decision)
{
    const struct af_catalog *catalog = fit->catalog;
    decision->candidates =
        af_arena_array(&decision->arena, catalog->count + 1, sizeof *decision->candidates);
    for (size_t i = 0; i < catalog->count; i++) {
        const struct af_catalog_wheel *wheel = &catalog->wheels[i];
        if (af_fit_wheel_is_asked_for(fit->options, wheel))
            decision->candidates[decision->candidate_count++].wheel = wheel;
    }
    af_fit_candidates_check(fit, decision->candidates, decision->candidate_count,
                            &decision->fitting_count, &decision->unknown_count);
}

/* The key fact that is missing on some machine; NULL if all are known. */
static const char *missing_fact(const struct af_fit_context *fit)
{
    for (size_t i = 0; i < fit->view_count; i++) {
        const struct af_view *view = &fit->views[i];
        if (view->os == NULL || view->arch == NULL)
            return af_reasons[af_view_unknown_platform(view)].missing_fact;
        if (!view->python_known)
            return af_reasons[AF_REASON_UNKNOWN_PYTHON].missing_fact;
        if (view->torch.state == AF_FACT_UNKNOWN)
            return af_reasons[AF_REASON_UNKNOWN_TORCH].missing_fact;
    }
    return NULL;
}

/* The key fact that this rung misses first; NULL: none. */
static const char *missing_of(const struct af_rung *rung)
{
    for (size_t i = 0; i < rung->reason_count; i++)
        if (af_reasons[rung->reasons[i].id].missing_fact != NULL)
            return af_reasons[rung->reasons[i].id].missing_fact;
    return NULL;
}

/* The answer is open only because the machine lacks a fact, which the user can state. */
static bool open_by_facts(const struct af_rung *rung)
{
    for (size_t i = 0; i < rung->reason_count; i++) {
        enum af_reason_id id = rung->reasons[i].id;
        if (af_reasons[id].effect == AF_REASON_OPEN && !af_reason_lacks_fact(id))
            return false;
    }
    return true;
}

/* Torch's kernels where no missing fact could make a wheel, another torch or a build fit. */
static bool is_only_way(const struct af_decision *decision, enum af_rung_kind kind)
{
    return kind == AF_RUNG_TORCH_KERNELS && decision->rungs[AF_RUNG_WHEEL].answer == AF_NO &&
           decision->rungs[AF_RUNG_TORCH_CHANGE].answer == AF_NO &&
           decision->rungs[AF_RUNG_BUILD].answer == AF_NO;
}

/* Then a build that may lack memory or disk is not what to begin with. */
static bool torch_can_change(const struct af_decision *decision)
{
    return decision->rungs[AF_RUNG_TORCH_CHANGE].answer == AF_YES;
}

static void recommend(const struct af_fit_context *fit, struct af_decision *decision)
{
    const char *missing = missing_fact(fit);
    decision->recommended = AF_RUNG_ENGINE;
    if (decision->environment_problem != NULL)
        return;
    if (fit->options->has_preference) {
        const struct af_rung *rung = &decision->rungs[fit->options->preference];
        bool nothing = rung->kind == AF_RUNG_WHEEL && rung->wheel == NULL;
        decision->recommended = rung->kind;
        decision->possible = rung->answer != AF_NO && !nothing;
        return;
    }
    for (int kind = 0; kind < AF_RUNG_COUNT; kind++) {
        const struct af_rung *rung = &decision->rungs[kind];
        bool unknown = rung->answer == AF_UNKNOWN && open_by_facts(rung);
        if (unknown && kind == AF_RUNG_BUILD && torch_can_change(decision))
            continue;
        if (unknown && missing != NULL && !is_only_way(decision, (enum af_rung_kind)kind)) {
            decision->missing_fact = missing_of(rung) != NULL ? missing_of(rung) : missing;
            return; /* the choice between this rung and lower ones depends on this fact */
        }
        if (rung->answer == AF_YES || unknown) {
            decision->recommended = (enum af_rung_kind)kind;
            decision->possible = true;
            return;
        }
    }
}

static void check_rungs(const struct af_fit_context *fit, bool only_wheels,
                        struct af_decision *decision)
{
    struct af_rung_context context = {
        .fit = fit, .decision = decision, .arena = &decision->arena};
    af_rung_wheel(&context);
    if (only_wheels)
        return;
    af_rung_torch_kernels(&context);
    af_rung_torch_change(&context);
    af_rung_build(&context);
    af_rung_engine(&context);
    decision->environment_problem =
        af_fit_environment_problem(fit->views[0].machine, &decision->arena);
    recommend(fit, decision);
}

static enum anyflash_status make(const struct af_catalog *catalog,
                                 const struct af_machine *const *machines, size_t machine_count,
                                 const struct af_fit_options *options, bool only_wheels,
                                 struct af_decision *decision, struct anyflash_error *err)
{
    struct af_fit_context fit;
    struct af_decision made = {.possible = false};
    af_arena_init(&made.arena);
    enum anyflash_status status =
        af_fit_context_open(&fit, catalog, machines, machine_count, options, &made.arena, err);
    if (status != ANYFLASH_OK) {
        af_arena_release(&made.arena);
        return status;
    }
    check_catalog(&fit, &made);
    check_rungs(&fit, only_wheels, &made);
    *decision = made;
    return ANYFLASH_OK;
}

enum anyflash_status af_fit_decide(const struct af_catalog *catalog,
                                   const struct af_machine *const *machines,
                                   size_t machine_count, const struct af_fit_options *options,
                                   struct af_decision *decision, struct anyflash_error *err)
{
    return make(catalog, machines, machine_count, options, false, decision, err);
}

enum anyflash_status af_fit_has_wheel(const struct af_catalog *catalog,
                                      const struct af_machine *const *machines,
                                      size_t machine_count,
                                      const struct af_fit_options *options, bool *has_out,
                                      struct anyflash_error *err)
{
    struct af_decision decision;
    enum anyflash_status status =
        make(catalog, machines, machine_count, options, true, &decision, err);
    if (status != ANYFLASH_OK)
        return status;
    *has_out = decision.rungs[AF_RUNG_WHEEL].answer == AF_YES;
    af_decision_release(&decision);
    return ANYFLASH_OK;
}

void af_decision_release(struct af_decision *decision)
{
    af_arena_release(&decision->arena);
    *decision = (struct af_decision){.possible = false};
}
