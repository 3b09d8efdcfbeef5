/*
 * find_answer.h: answers about wheels: the result of a search, all wheels that
 * were checked for a plan, or one wheel with its reasons; and each as JSON.
 * Pure.
 */
#ifndef AF_KIT_ANSWER_FIND_ANSWER_H
#define AF_KIT_ANSWER_FIND_ANSWER_H

#include "kit/answer/plan_answer.h"

struct af_plan_find_request {
    struct af_plan_request plan; /* without machines the wheels get no verdict */
    const char *const *words;    /* of the search: catalog/query.h */
    size_t word_count;
    size_t limit; /* number of wheels; 0: all */
};

/* Empty when zero-initialised. */
struct af_plan_find_answer {
    struct af_arena arena;
    const struct af_plan_find_request *request;
    struct af_decision decision;
    bool has_decision;                      /* false: no machine was named */
    const struct af_catalog_wheel **wheels; /* all that match */
    size_t count;
    size_t shown;              /* the first of them, within the limit */
    const char *unbuilt_torch; /* asked for, but no wheel was built for it; or NULL */
    const struct af_candidate **candidates; /* by index in the catalog; NULL: no verdicts */
};

/*
 * Searches, and checks the wheels for the machines. The request must outlive
 * the answer. Fails with ARGUMENT (a word is not a valid query); then there is
 * nothing to release.
 */
enum anyflash_status af_plan_find_make(const struct af_plan_find_request *request,
                                       struct af_plan_find_answer *answer,
                                       struct anyflash_error *err);
void af_plan_find_release(struct af_plan_find_answer *answer);

/* The verdict on a wheel of the catalog; NULL: it was not checked. */
const struct af_candidate *af_plan_find_candidate(const struct af_plan_find_answer *answer,
                                                  const struct af_catalog_wheel *wheel);

/* "anyflash-find/1", a new object. */
json_t *af_plan_find_json(const struct af_plan_find_answer *answer);

/* "anyflash-candidates/1": the first `count` wheels that were checked, best first. */
json_t *af_plan_candidates_json(const struct af_plan_answer *answer, size_t count);

/* One wheel, with its verdict and reasons on each machine. Empty when zero-initialised. */
struct af_plan_wheel_answer {
    struct af_arena arena;
    const struct af_plan_answer *plan;
    const struct af_candidate *candidate;
    struct af_plan_wheel_reasons {
        const struct af_reason *reasons;
        size_t count;
    } * machines; /* one for each machine of the request */
};

/*
 * Finds the wheel named by `text` (a file name, path or URL) among those that
 * were checked. Fails with NOT_FOUND; then there is nothing to release.
 */
enum anyflash_status af_plan_wheel_make(const struct af_plan_answer *plan, const char *text,
                                        struct af_plan_wheel_answer *answer,
                                        struct anyflash_error *err);
void af_plan_wheel_release(struct af_plan_wheel_answer *answer);

/* "anyflash-wheel/1", a new object. */
json_t *af_plan_wheel_json(const struct af_plan_wheel_answer *answer);

#endif
