/*
 * find_answer.c: searches of the catalog and verdicts on single wheels.
 */
#include "kit/answer/find_answer.h"

#include <string.h>

#include "kit/base/text.h"
#include "kit/base/url.h"
#include "kit/catalog/query.h"
#include "kit/fit/fit.h"
#include "kit/fit/verdict.h"

const struct af_candidate *af_plan_find_candidate(const struct af_plan_find_answer *answer,
                                                  const struct af_catalog_wheel *wheel)
{
    return answer->candidates != NULL
               ? answer->candidates[wheel - answer->request->plan.catalog->wheels]
               : NULL;
}

/* What fits a named machine comes first, then what may fit, then what was not checked. */
static int order_of(const struct af_plan_find_answer *answer,
                    const struct af_catalog_wheel *wheel)
{
    static const int orders[] = {[AF_YES] = 0, [AF_UNKNOWN] = 1, [AF_NO] = 3};
    const struct af_candidate *candidate = af_plan_find_candidate(answer, wheel);
    return candidate == NULL ? 2 : orders[candidate->answer];
}

/* Keeps those wheels whose publishers the options allow; otherwise in the order found. */
static void take_wheels(struct af_plan_find_answer *answer,
                        const struct af_catalog_wheel *const *wheels, size_t count)
{
    const struct af_fit_options *fit = &answer->request->plan.fit;
    for (int order = 0; order <= 3; order++)
        for (size_t i = 0; i < count; i++)
            if (order_of(answer, wheels[i]) == order &&
                af_fit_publisher_is_allowed(fit, wheels[i]))
                answer->wheels[answer->count++] = wheels[i];
}

/* The wheels that match all words and whose publishers the options allow. */
static enum anyflash_status search(struct af_plan_find_answer *answer,
                                   struct anyflash_error *err)
{
    const struct af_plan_find_request *request = answer->request;
    const struct af_catalog_wheel *const *wheels = NULL;
    size_t count = 0;
    struct af_query query;
    enum anyflash_status status =
        af_query_parse(request->words, request->word_count, &answer->arena, &query, err);
    if (status != ANYFLASH_OK)
        return status;
    af_query_run(&query, request->plan.catalog, &answer->arena, &wheels, &count);
    answer->wheels = af_arena_array(&answer->arena, count + 1, sizeof *answer->wheels);
    take_wheels(answer, wheels, count);
    answer->unbuilt_torch =
        af_query_unbuilt_torch(&query, request->plan.catalog, &answer->arena);
    answer->shown =
        request->limit > 0 && request->limit < answer->count ? request->limit : answer->count;
    return ANYFLASH_OK;
}

/* Decides, and stores the verdicts by index in the catalog for direct access. */
static enum anyflash_status check(struct af_plan_find_answer *answer,
                                  struct anyflash_error *err)
{
    const struct af_plan_request *request = &answer->request->plan;
    const struct af_catalog *catalog = request->catalog;
    enum anyflash_status status =
        af_fit_decide(catalog, request->machines, request->machine_count, &request->fit,
                      &answer->decision, err);
    answer->has_decision = status == ANYFLASH_OK;
    if (status != ANYFLASH_OK)
        return status;
    answer->candidates =
        af_arena_array(&answer->arena, catalog->count + 1, sizeof *answer->candidates);
    for (size_t i = 0; i < answer->decision.candidate_count; i++) {
        const struct af_candidate *candidate = &answer->decision.candidates[i];
        answer->candidates[candidate->wheel - catalog->wheels] = candidate;
    }
    return ANYFLASH_OK;
}

enum anyflash_status af_plan_find_make(const struct af_plan_find_request *request,
                                       struct af_plan_find_answer *answer,
                                       struct anyflash_error *err)
{
    struct af_plan_find_answer made = {.request = request};
    af_arena_init(&made.arena);
    enum anyflash_status status =
        request->plan.machine_count > 0 ? check(&made, err) : ANYFLASH_OK;
    if (status == ANYFLASH_OK)
        status = search(&made, err);
    if (status == ANYFLASH_OK)
        *answer = made;
    else
        af_plan_find_release(&made);
    return status;
}

void af_plan_find_release(struct af_plan_find_answer *answer)
{
    if (answer->has_decision)
        af_decision_release(&answer->decision);
    af_arena_release(&answer->arena);
    *answer = (struct af_plan_find_answer){0};
}

json_t *af_plan_find_json(const struct af_plan_find_answer *answer)
{
    json_t *wheels = json_array();
    for (size_t i = 0; i < answer->shown; i++)
        wheels = af_json_append(
            wheels, af_fit_json_candidate(answer->wheels[i],
                                          af_plan_find_candidate(answer, answer->wheels[i])));
    return json_pack("{s:s, s:o, s:o, s:o, s:o}", "schema", "anyflash-find/1", "catalog",
                     af_fit_json_catalog(answer->request->plan.catalog), "publishers",
                     af_fit_json_publishers(&answer->request->plan.fit), "count",
                     af_json_count((int64_t)answer->count), "wheels", wheels);
}

json_t *af_plan_candidates_json(const struct af_plan_answer *answer, size_t count)
{
    const struct af_decision *decision = &answer->decision;
    json_t *list = json_array();
    for (size_t i = 0; i < count && i < decision->candidate_count; i++)
        list = af_json_append(list, af_fit_json_candidate(decision->candidates[i].wheel,
                                                          &decision->candidates[i]));
    return json_pack("{s:s, s:o, s:o}", "schema", "anyflash-candidates/1", "catalog",
                     af_fit_json_catalog(answer->request->catalog), "candidates", list);
}

/* The best ranked candidate with that file name, or NULL. */
static const struct af_candidate *candidate_called(const struct af_decision *decision,
                                                   const char *name)
{
    for (size_t i = 0; i < decision->candidate_count; i++)
        if (strcmp(decision->candidates[i].wheel->filename, name) == 0)
            return &decision->candidates[i];
    return NULL;
}

static enum anyflash_status explain(struct af_plan_wheel_answer *answer, const char *text,
                                    struct anyflash_error *err)
{
    const struct af_plan_request *request = answer->plan->request;
    const char *name = af_url_file_name(&answer->arena, text);
    answer->machines =
        af_arena_array(&answer->arena, request->machine_count + 1, sizeof *answer->machines);
    answer->candidate = candidate_called(&answer->plan->decision, name);
    if (answer->candidate == NULL)
        return af_fail(err, ANYFLASH_E_NOT_FOUND, "the catalog has no wheel '%s'",
                       af_text_scrub(&answer->arena, name, 200));
    enum anyflash_status status = ANYFLASH_OK;
    for (size_t i = 0; status == ANYFLASH_OK && i < request->machine_count; i++)
        status = af_fit_explain(request->catalog, request->machines[i], &request->fit,
                                answer->candidate->wheel, &answer->arena,
                                &answer->machines[i].reasons, &answer->machines[i].count, err);
    return status;
}

enum anyflash_status af_plan_wheel_make(const struct af_plan_answer *plan, const char *text,
                                        struct af_plan_wheel_answer *answer,
                                        struct anyflash_error *err)
{
    struct af_plan_wheel_answer made = {.plan = plan};
    af_arena_init(&made.arena);
    enum anyflash_status status = explain(&made, text, err);
    if (status == ANYFLASH_OK)
        *answer = made;
    else
        af_plan_wheel_release(&made);
    return status;
}

void af_plan_wheel_release(struct af_plan_wheel_answer *answer)
{
    af_arena_release(&answer->arena);
    *answer = (struct af_plan_wheel_answer){0};
}

json_t *af_plan_wheel_json(const struct af_plan_wheel_answer *answer)
{
    const struct af_plan_request *request = answer->plan->request;
    json_t *machines = json_array();
    for (size_t i = 0; i < request->machine_count; i++)
        machines = af_json_append(
            machines, json_pack("{s:s, s:o}", "name", request->machines[i]->name, "reasons",
                                af_fit_json_reasons(answer->machines[i].reasons,
                                                    answer->machines[i].count)));
    return json_pack("{s:s, s:o, s:o, s:o}", "schema", "anyflash-wheel/1", "verdict",
                     af_json_answer(answer->candidate->answer), "wheel",
                     af_fit_json_wheel(answer->candidate->wheel), "machines", machines);
}
