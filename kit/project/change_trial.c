/*
 * change_trial.c: whether the changes that are proposed leave the project better. They are
 * applied to a copy of its files, which is checked again. If all together do not pass, they
 * are tried in blocks, and those of a block that does not pass one by one, each time with all
 * that were kept before. What was not tried is not shown.
 */
#include <string.h>

#include "kit/formats/toml.h"
#include "kit/project/checker.h"
#include "kit/project/published.h"

#define TRIALS_MAX 48u
#define BLOCKS 16u
#define CHANGES_MAX 300u /* with more of them nothing is tried, nor shown */
#define WEIGHTS 4

struct trial {
    const struct af_project_source *sources;
    size_t count;
    struct af_project_wheels *wheels;
    const struct af_project_options *options;
    const struct af_project_asks *asks;
    const struct af_project_findings *before;
};

/* How many findings have at least each weight. */
static void weigh(const struct af_project_findings *findings, size_t counts[WEIGHTS])
{
    memset(counts, 0, WEIGHTS * sizeof *counts);
    for (const struct af_project_finding *at = findings->first; at != NULL; at = at->next)
        for (int weight = 1; weight <= af_project_finding_rows[at->id].weight; weight++)
            counts[weight]++;
}

static bool is_toml(struct af_span text)
{
    struct af_arena arena;
    struct af_toml toml;
    af_arena_init(&arena);
    bool is_one = af_toml_parse(&toml, &arena, text, "project", NULL) == ANYFLASH_OK;
    af_arena_release(&arena);
    return is_one;
}

/* The file with the changes of all findings. It must still parse if it did. */
static bool change(const struct trial *trial, struct af_arena *arena, size_t i,
                   struct af_project_source *changed)
{
    const struct af_project_source *source = &trial->sources[i];
    const struct af_project_edit *edits;
    struct af_text made = {0};
    size_t count = af_project_findings_edits(trial->before, source, arena, &edits);
    *changed = *source;
    if (count == 0)
        return true;
    af_project_apply(source->text, edits, count, &made);
    changed->text.len = made.len;
    changed->text.data = af_text_take(&made, arena);
    const bool has_toml =
        source->kind == AF_PROJECT_PYPROJECT || source->kind == AF_PROJECT_PIXI;
    return !has_toml || !is_toml(source->text) || is_toml(changed->text);
}

/* Whether the index has each version that the changed files pin, unless they did before. */
static bool are_published(const struct trial *trial, const struct af_project_asks *asks)
{
    for (const struct af_project_ask *ask = asks->first; ask != NULL; ask = ask->next) {
        const char *package = ask->is_torch ? "torch" : "flash-attn";
        if (ask->pinned == NULL || ask->url[0] != '\0' ||
            af_published_has(package, ask->pinned) != AF_NO)
            continue;
        const struct af_project_ask *old = trial->asks->first;
        while (old != NULL &&
               (old->is_torch != ask->is_torch || !af_equal(old->pinned, ask->pinned)))
            old = old->next;
        if (old == NULL)
            return false;
    }
    return true;
}

/* How many requirements on flash-attn a usual installation takes. */
static size_t count_required(const struct af_project_asks *asks)
{
    size_t count = 0;
    for (const struct af_project_ask *ask = asks->first; ask != NULL; ask = ask->next)
        count += !ask->is_torch && !ask->is_optional;
    return count;
}

/* Whether the files with the changes are better, and at least as good in each respect. */
static bool passes(const struct trial *trial)
{
    struct af_project_findings after;
    struct af_project_asks asks;
    struct af_arena arena;
    size_t old[WEIGHTS], new[WEIGHTS];
    af_arena_init(&arena);
    struct af_project_source *changed =
        af_arena_array(&arena, trial->count + 1, sizeof *changed);
    bool is_fine = true;
    for (size_t i = 0; i < trial->count && is_fine; i++)
        is_fine = change(trial, &arena, i, &changed[i]);
    if (is_fine) {
        af_project_find(&arena, changed, trial->count, trial->wheels, trial->options, &after,
                        &asks);
        is_fine = after.limit == AF_PROJECT_LIMIT_NONE && are_published(trial, &asks);
    }
    if (is_fine) {
        const struct af_project_checker checker = {
            .sources = changed, .count = trial->count, .options = trial->options, .asks = asks};
        weigh(trial->before, old);
        weigh(&after, new);
        for (int weight = 1; weight < WEIGHTS; weight++)
            is_fine &= new[weight] <= old[weight];
        is_fine &= count_required(&asks) >= count_required(trial->asks) ||
                   !af_project_code_needs(&checker);
    }
    af_arena_release(&arena);
    return is_fine;
}

void af_project_try_changes(struct af_project_findings *findings,
                            const struct af_project_source *sources, size_t count,
                            struct af_project_wheels *wheels,
                            const struct af_project_options *options,
                            const struct af_project_asks *asks)
{
    const struct trial trial = {sources, count, wheels, options, asks, findings};
    size_t changes = 0, tried = 0;
    for (struct af_project_finding *at = findings->first; at != NULL; at = at->next)
        changes += at->edit_count > 0;
    if (changes == 0)
        return;
    const bool may_try = findings->limit == AF_PROJECT_LIMIT_NONE && changes <= CHANGES_MAX;
    if (may_try && passes(&trial))
        return;
    for (struct af_project_finding *at = findings->first; at != NULL; at = at->next) {
        at->untried_count = at->edit_count;
        at->edit_count = 0;
    }
    const size_t block = changes / BLOCKS + 1;
    if (changes == 1)
        return;
    struct af_project_finding *at = findings->first;
    while (at != NULL && may_try && tried < TRIALS_MAX) {
        struct af_project_finding *const first = at;
        for (size_t taken = 0; at != NULL && taken < block; at = at->next) {
            at->edit_count = at->untried_count;
            taken += at->edit_count > 0;
        }
        tried++;
        if (passes(&trial))
            continue;
        for (struct af_project_finding *each = first; each != at; each = each->next)
            each->edit_count = 0;
        for (struct af_project_finding *each = first; each != at; each = each->next) {
            each->edit_count = block > 1 && tried < TRIALS_MAX ? each->untried_count : 0;
            tried += each->edit_count > 0;
            if (each->edit_count > 0 && !passes(&trial))
                each->edit_count = 0;
        }
    }
}
