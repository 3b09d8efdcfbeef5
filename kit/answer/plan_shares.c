/*
 * plan_shares.c: what the answer for several machines means for each of them: its steps, whose
 * steps are the same, and what would be best for it alone.
 */
#include "kit/answer/plan_answer.h"

#include "kit/base/text.h"

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
enum anyflash_status af_plan_answer_share(struct af_plan_answer *answer,
                                          struct anyflash_error *err)
{
    size_t count = answer->request->machine_count;
    if (count < 2)
        return ANYFLASH_OK;
    answer->shares = af_arena_array(&answer->arena, count, sizeof *answer->shares);
    enum anyflash_status status = ANYFLASH_OK;
    for (size_t i = 0; i < count && status == ANYFLASH_OK; i++) {
        status = make_share(answer, i, err);
        answer->share_count++;
    }
    return status;
}
