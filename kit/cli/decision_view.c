/*
 * decision_view.c: prints rungs, reasons, near misses and steps as lines for people.
 */
#include "kit/cli/decision_view.h"

#include <stdio.h>
#include <string.h>

#define LABEL_COLUMNS 17
#define NEAR_MISSES_SHORT 2

/* "message: detail" */
static void add_reason(struct af_text *text, const struct af_reason *reason)
{
    af_text_add(text, af_reasons[reason->id].message);
    if (reason->detail != NULL && reason->detail[0] != '\0')
        af_text_format(text, ": %s", reason->detail);
}

static bool is_same(const struct af_reason *a, const struct af_reason *b)
{
    return a->id == b->id && (a->detail == b->detail || af_equal(a->detail, b->detail));
}

/* Whether an earlier one is the same, of another machine. */
static bool is_repeated(const struct af_reason *reasons, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (is_same(&reasons[i], &reasons[at]))
            return true;
    return false;
}

/* "node1, node2: ": which of several machines give reason `at`. */
static void add_machines(struct af_text *text, const struct af_reason *reasons, size_t count,
                         size_t at)
{
    const char *before = "";
    for (size_t i = at; i < count; i++) {
        if (reasons[i].machine == NULL || !is_same(&reasons[i], &reasons[at]))
            continue;
        af_text_format(text, "%s%s", before, reasons[i].machine->name);
        before = ", ";
    }
    if (before[0] != '\0')
        af_text_add(text, ": ");
}

void af_cli_reason_view(struct af_screen *screen, int indent, const struct af_reason *reasons,
                        size_t count, size_t at)
{
    char lead[64];
    struct af_text text = {0};
    const struct af_reason *reason = &reasons[at];
    const char *hint = af_reasons[reason->id].hint;
    if (is_repeated(reasons, at))
        return;
    add_machines(&text, reasons, count, at);
    add_reason(&text, reason);
    if (hint != NULL)
        af_text_format(&text, "\nhint: %s", hint);
    snprintf(lead, sizeof lead, "%*s", indent, "- ");
    af_screen_take(screen, indent, lead, AF_TONE_PLAIN, &text);
}

void af_cli_left_out_gpus_view(struct af_screen *screen, const struct af_decision *decision)
{
    const struct af_rung *rung = &decision->rungs[decision->recommended];
    for (size_t i = 0; decision->possible && i < rung->reason_count; i++) {
        struct af_text text = {0};
        if (rung->reasons[i].id != AF_REASON_GPU_PARTLY || is_repeated(rung->reasons, i))
            continue;
        add_machines(&text, rung->reasons, rung->reason_count, i);
        add_reason(&text, &rung->reasons[i]);
        af_text_format(&text, "; %s", af_reasons[AF_REASON_GPU_PARTLY].hint);
        af_screen_take(screen, 6, "Note: ", AF_TONE_PLAIN, &text);
    }
}

static void view_moves(struct af_screen *screen, const struct af_rung *rung)
{
    for (size_t i = 0; i < rung->move_count; i++) {
        const struct af_fit_package_change *move = &rung->moves[i];
        if (move->to == NULL)
            af_screen_format(screen, LABEL_COLUMNS, "", AF_TONE_PLAIN, "breaks: %s %s%s%s",
                             move->name, move->from != NULL ? move->from : "",
                             move->why != NULL ? ": " : "", move->why != NULL ? move->why : "");
        else
            af_screen_format(screen, LABEL_COLUMNS, "", AF_TONE_PLAIN, "changes: %s %s%s%s%s%s",
                             move->name, move->from != NULL ? move->from : "(not installed)",
                             " -> ", move->to, move->why != NULL ? ": " : "",
                             move->why != NULL ? move->why : "");
    }
}

static void view_prerequisite(struct af_screen *screen, const struct af_prerequisite *need)
{
    bool has_evidence = need->evidence != NULL && need->evidence[0] != '\0';
    af_screen_format(screen, LABEL_COLUMNS + 2, "                 - ", AF_TONE_PLAIN,
                     "%s: %s%s%s%s%s", need->name, af_answer_text(need->answer),
                     has_evidence ? ", " : "", has_evidence ? need->evidence : "",
                     need->fix != NULL ? "\nhint: " : "", need->fix != NULL ? need->fix : "");
}

/* The one of several machines that a rung was evaluated for; or NULL. */
static const struct af_machine *machine_of(const struct af_rung *rung)
{
    const struct af_machine *machine = NULL;
    for (size_t i = 0; i < rung->reason_count && machine == NULL; i++)
        machine = rung->reasons[i].machine;
    return machine;
}

static void view_prerequisites(struct af_screen *screen, const struct af_rung *rung)
{
    const struct af_machine *machine = machine_of(rung);
    if (rung->build.prerequisite_count > 0 && machine != NULL)
        af_screen_format(screen, LABEL_COLUMNS, "", AF_TONE_PLAIN, "on %s:", machine->name);
    for (size_t i = 0; i < rung->build.prerequisite_count; i++)
        view_prerequisite(screen, &rung->build.prerequisites[i]);
}

/* Reasons that this screen has already shown, by id. */
struct told {
    bool reasons[AF_REASON_COUNT];
};

static bool has_id_before(const struct af_reason *reasons, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (reasons[i].id == reasons[at].id)
            return true;
    return false;
}

/* Every reason; one that another rung showed is only named. For a build, its prerequisites. */
static void view_reasons(struct af_screen *screen, const struct af_rung *rung,
                         struct told *told)
{
    const struct told above = *told;
    for (size_t i = 0; i < rung->reason_count; i++) {
        const struct af_reason *reason = &rung->reasons[i];
        if (rung->build.prerequisite_count > 0 &&
            af_reasons[reason->id].effect != AF_REASON_NOTE)
            continue;
        if (above.reasons[reason->id] && has_id_before(rung->reasons, i))
            continue;
        if (above.reasons[reason->id])
            af_screen_format(screen, LABEL_COLUMNS + 2, "                 - ", AF_TONE_PLAIN,
                             "%s (as above)", af_reasons[reason->id].message);
        else
            af_cli_reason_view(screen, LABEL_COLUMNS + 2, rung->reasons, rung->reason_count, i);
        told->reasons[reason->id] = true;
    }
}

/* "yes: summary", or the summary alone where the answer is no */
static void view_line(struct af_screen *screen, const struct af_rung *rung, bool recommended)
{
    char lead[LABEL_COLUMNS + 8];
    snprintf(lead, sizeof lead, "  %s", af_rung_name(rung->kind));
    bool short_line = rung->answer == AF_NO && !recommended; /* the summary says no */
    af_screen_format(screen, LABEL_COLUMNS, lead, recommended ? AF_TONE_STRONG : AF_TONE_PLAIN,
                     "%s%s%s%s", short_line ? "" : af_answer_text(rung->answer),
                     recommended ? ", recommended" : "", short_line ? "" : ": ",
                     rung->summary == NULL ? "" : rung->summary);
}

static void view_offer(struct af_screen *screen, const struct af_offer_build_offer *offer,
                       struct af_arena *arena)
{
    const int indent = LABEL_COLUMNS + 2;
    const struct af_offer_build_needs *needs = &offer->needs;
    af_screen_format(screen, indent, "", AF_TONE_PLAIN, "%s build, %s: %s",
                     af_equal(offer->name, "slim") ? "partial" : offer->name,
                     af_offer_build_time_text(arena, needs),
                     offer->holds == NULL ? "" : offer->holds);
    af_screen_add(screen, indent, "", AF_TONE_PLAIN, af_offer_build_needs_text(arena, needs));
    af_screen_command(screen, indent, AF_SHELL_POSIX, af_offer_build_line(offer, arena));
}

void af_cli_rungs_view(struct af_screen *screen, const struct af_decision *decision,
                       const struct af_offer_build_offer *offers, struct af_arena *arena)
{
    struct told told = {{false}};
    for (int kind = 0; kind < AF_RUNG_COUNT; kind++) {
        const struct af_rung *rung = &decision->rungs[kind];
        view_line(screen, rung, decision->possible && kind == (int)decision->recommended);
        if (kind == AF_RUNG_BUILD && offers != NULL) {
            for (size_t i = 0; i < AF_OFFER_BUILD_OFFERS; i++)
                view_offer(screen, &offers[i], arena);
        } else if (rung->answer != AF_NO) {
            af_screen_format(screen, LABEL_COLUMNS, "", AF_TONE_PLAIN, "cost: %s",
                             af_rung_cost_text(arena, &rung->price));
            view_moves(screen, rung);
        }
        view_reasons(screen, rung, &told);
        view_prerequisites(screen, rung);
    }
}

/* The first reason with that effect, or NULL. */
static const struct af_reason *first_reason(const struct af_rung *rung,
                                            enum af_reason_effect effect)
{
    for (size_t i = 0; i < rung->reason_count; i++)
        if (af_reasons[rung->reasons[i].id].effect == effect)
            return &rung->reasons[i];
    return NULL;
}

/* The message, and where both fit the line the detail, or how to state an unknown fact. */
static const char *reason_text(struct af_arena *arena, const struct af_reason *reason,
                               int columns)
{
    const char *message = af_reasons[reason->id].message;
    const char *hint = af_reasons[reason->id].hint;
    if (reason->machine != NULL)
        message = af_arena_format(arena, "%s: %s", reason->machine->name, message);
    bool open = af_reasons[reason->id].effect == AF_REASON_OPEN && hint != NULL;
    const char *more = open ? hint : reason->detail;
    const char *both = more == NULL || more[0] == '\0'
                           ? NULL
                           : af_arena_format(arena, "%s: %s", message, more);
    return both != NULL && af_cli_text_columns(both, strlen(both)) <= columns ? both : message;
}

/* "about 10 min: torch 2.13.0+cu132 has ..." */
static const char *row_text(struct af_arena *arena, const struct af_rung *rung, int columns,
                            const struct af_offer_build_offer *offer)
{
    const char *summary = rung->summary != NULL ? rung->summary : "";
    const struct af_reason *reason = NULL;
    if (rung->answer == AF_NO)
        reason = first_reason(rung, AF_REASON_BLOCKS);
    else if (rung->answer == AF_UNKNOWN)
        reason = first_reason(rung, AF_REASON_OPEN);
    if (reason != NULL)
        return reason_text(arena, reason, columns);
    if (rung->kind == AF_RUNG_BUILD && offer != NULL)
        return af_arena_format(arena, "%s: %s", af_offer_build_time_text(arena, &offer->needs),
                               summary);
    if (rung->answer == AF_YES && rung->price.minutes > 1)
        return af_arena_format(arena, "about %d min: %s", (int)rung->price.minutes, summary);
    return summary;
}

void af_cli_rungs_table(struct af_screen *screen, const struct af_decision *decision,
                        bool others, const struct af_offer_build_offer *offer,
                        struct af_arena *arena)
{
    for (int kind = 0; kind < AF_RUNG_COUNT; kind++) {
        const struct af_rung *rung = &decision->rungs[kind];
        bool recommended = decision->possible && kind == (int)decision->recommended;
        char lead[LABEL_COLUMNS + 16];
        if (recommended && others)
            continue;
        int columns = snprintf(lead, sizeof lead, "%c %-14s %-8s", recommended ? '*' : ' ',
                               af_rung_name(rung->kind), af_answer_text(rung->answer));
        const char *text = row_text(arena, rung, screen->columns - columns, offer);
        if (text != NULL)
            af_screen_add(screen, columns, lead, recommended ? AF_TONE_STRONG : AF_TONE_PLAIN,
                          text);
    }
}

static void view_filter_counts(struct af_screen *screen, const struct af_decision *decision)
{
    struct af_text text = {0};
    for (size_t i = 0; i < decision->filter_count; i++)
        af_text_format(&text, "%s%zu %s", i > 0 ? " -> " : "", decision->filter_counts[i].left,
                       decision->filter_counts[i].what);
    if (decision->filter_count > 0)
        af_screen_take(screen, 2, "  ", AF_TONE_PLAIN, &text);
}

/* Where to look for a wheel that the catalog cannot know. */
static void view_newer_torch(struct af_screen *screen, const struct af_rung *wheel)
{
    for (size_t i = 0; i < wheel->reason_count; i++)
        if (wheel->reasons[i].id == AF_REASON_TORCH_NEWER)
            af_cli_reason_view(screen, 4, wheel->reasons, wheel->reason_count, i);
}

/* The first reason against it. */
static void add_first_reason(struct af_text *text, const struct af_near_miss *miss)
{
    for (size_t i = 0; i < miss->reason_count; i++) {
        const struct af_reason *reason = &miss->reasons[i];
        if (af_reasons[reason->id].effect != AF_REASON_BLOCKS)
            continue;
        af_text_add(text, "\n");
        add_machines(text, miss->reasons, miss->reason_count, i);
        add_reason(text, reason);
        return;
    }
}

static void view_short_misses(struct af_screen *screen, const struct af_decision *decision)
{
    view_newer_torch(screen, &decision->rungs[AF_RUNG_WHEEL]);
    for (size_t i = 0; i < decision->near_miss_count && i < NEAR_MISSES_SHORT; i++) {
        const struct af_near_miss *miss = &decision->near_misses[i];
        struct af_text text = {0};
        af_text_format(&text, "%s:\n%s", miss->what, miss->filename);
        add_first_reason(&text, miss);
        af_screen_take(screen, 4, "  - ", AF_TONE_PLAIN, &text);
    }
}

static void view_misses(struct af_screen *screen, const struct af_decision *decision)
{
    for (size_t i = 0; i < decision->near_miss_count; i++) {
        const struct af_near_miss *miss = &decision->near_misses[i];
        af_screen_format(screen, 4, "  - ", AF_TONE_PLAIN, "%s:\n%s", miss->what,
                         miss->filename);
        for (size_t j = 0; j < miss->reason_count; j++)
            if (af_reasons[miss->reasons[j].id].effect == AF_REASON_BLOCKS)
                af_cli_reason_view(screen, 6, miss->reasons, miss->reason_count, j);
    }
}

bool af_cli_has_near_misses(const struct af_decision *decision)
{
    const struct af_reason *problem = decision->environment_problem;
    return decision->near_miss_count > 0 &&
           (problem == NULL || problem->id != AF_REASON_PYTHON_NOT_FOUND);
}

void af_cli_near_misses_view(struct af_screen *screen, const struct af_decision *decision,
                             bool all)
{
    bool none_fits = decision->rungs[AF_RUNG_WHEEL].answer == AF_NO;
    af_screen_add(screen, 0, "", AF_TONE_STRONG,
                  none_fits ? "Why no published wheel fits" : "Wheels that do not fit");
    view_filter_counts(screen, decision);
    if (all)
        view_misses(screen, decision);
    else
        view_short_misses(screen, decision);
}

void af_cli_steps_view(struct af_screen *screen, const struct af_plan *plan, size_t max,
                       struct af_arena *arena)
{
    for (size_t i = 0; i < plan->step_count && i < max; i++) {
        const struct af_step *step = &plan->steps[i];
        char lead[32];
        if (max == 1)
            snprintf(lead, sizeof lead, "  ");
        else
            snprintf(lead, sizeof lead, "  %zu. ", i + 1);
        af_screen_add(screen, max == 1 ? 2 : 5, lead, AF_TONE_PLAIN, step->title);
        if (step->argc > 0)
            af_screen_command(screen, max == 1 ? 4 : 5, plan->shell,
                              af_step_command(step, plan->shell, arena));
    }
}
