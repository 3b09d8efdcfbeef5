/*
 * decision_view.c: rungs, reasons and steps as lines for people.
 */
#include "kit/cli/decision_view.h"

#include <stdio.h>
#include <string.h>

#include "kit/cli/facts_view.h"

#define LABEL_COLUMNS 17
#define NEAR_MISSES_SHORT 2
#define REASONS_SHORT 3

static void add_price(struct af_text *text, const char *what)
{
    if (text->len > 0)
        af_text_add(text, ", ");
    af_text_add(text, what);
}

const char *af_cli_rung_cost_text(struct af_arena *arena, const struct af_rung_cost *price)
{
    struct af_text text = {0};
    if (price->download_bytes > 0)
        af_text_format(&text, "%s to download", af_bytes_text(arena, price->download_bytes));
    else
        add_price(&text, price->download_bytes == 0 ? "nothing to download"
                                                    : "download of unknown size");
    if (price->minutes >= 120)
        af_text_format(&text, ", about %.1f hours", (double)price->minutes / 60);
    else if (price->minutes > 0)
        af_text_format(&text, ", about %d min", (int)price->minutes);
    if (price->memory_bytes > 0)
        af_text_format(&text, ", %s of memory", af_bytes_text(arena, price->memory_bytes));
    if (price->disk_bytes > 0)
        af_text_format(&text, ", %s of disk", af_bytes_text(arena, price->disk_bytes));
    const char *copy = af_arena_text(arena, af_text_get(&text));
    arena->failed |= text.failed;
    af_text_release(&text);
    return copy != NULL ? copy : "";
}

/* "message: detail" */
static void add_reason(struct af_text *text, const struct af_reason *reason, bool with_detail)
{
    af_text_add(text, af_reason_message(reason->id));
    if (with_detail && reason->detail != NULL && reason->detail[0] != '\0')
        af_text_format(text, ": %s", reason->detail);
}

void af_cli_reason_view(struct af_page *page, int indent, const struct af_reason *reason)
{
    char lead[64];
    struct af_text text = {0};
    const char *hint = af_reason_hint(reason->id);
    add_reason(&text, reason, true);
    if (hint != NULL)
        af_text_format(&text, "\nto do: %s", hint);
    snprintf(lead, sizeof lead, "%*s", indent, "- ");
    af_page_add(page, indent, lead, AF_TONE_PLAIN, af_text_get(&text));
    page->out->failed |= text.failed;
    af_text_release(&text);
}

static void view_moves(struct af_page *page, const struct af_rung *rung)
{
    for (size_t i = 0; i < rung->move_count; i++) {
        const struct af_fit_package_change *move = &rung->moves[i];
        if (move->to == NULL)
            af_page_format(page, LABEL_COLUMNS, "", AF_TONE_PLAIN, "breaks: %s %s%s%s",
                           move->name, move->from != NULL ? move->from : "",
                           move->why != NULL ? ": " : "", move->why != NULL ? move->why : "");
        else
            af_page_format(page, LABEL_COLUMNS, "", AF_TONE_PLAIN, "moves: %s %s%s%s%s%s",
                           move->name, move->from != NULL ? move->from : "(not installed)",
                           " -> ", move->to, move->why != NULL ? ": " : "",
                           move->why != NULL ? move->why : "");
    }
}

static void view_prerequisite(struct af_page *page, const struct af_prerequisite *need)
{
    bool has_evidence = need->evidence != NULL && need->evidence[0] != '\0';
    af_page_format(page, LABEL_COLUMNS + 2, "                 - ", AF_TONE_PLAIN,
                   "%s: %s%s%s%s%s", need->name, af_answer_text(need->answer),
                   has_evidence ? ", " : "", has_evidence ? need->evidence : "",
                   need->fix != NULL ? "\nto do: " : "", need->fix != NULL ? need->fix : "");
}

/* What is not there, and where the compiler comes from; the rest is counted. */
static void view_prerequisites(struct af_page *page, const struct af_rung *rung, bool all)
{
    size_t passed_over = 0;
    for (size_t i = 0; i < rung->prerequisite_count; i++) {
        const struct af_prerequisite *need = &rung->prerequisites[i];
        if (all || need->answer != AF_YES || strcmp(need->name, "cuda-toolkit") == 0)
            view_prerequisite(page, need);
        else
            passed_over++;
    }
    if (passed_over > 0)
        af_page_format(page, LABEL_COLUMNS + 2, "                 - ", AF_TONE_PLAIN,
                       "%zu more things that it needs: yes (--verbose lists them)",
                       passed_over);
}

/* Which reasons a reader has met above on this page, by id. */
struct told {
    bool reasons[AF_REASON_COUNT];
};

/* Every reason; what was told above is named only. A build's are its prerequisites. */
static void view_reasons(struct af_page *page, const struct af_rung *rung, struct told *told)
{
    for (size_t i = 0; i < rung->reason_count; i++) {
        const struct af_reason *reason = &rung->reasons[i];
        if (rung->prerequisite_count > 0 && af_reason_effect(reason->id) != AF_REASON_NOTE)
            continue;
        if (told->reasons[reason->id])
            af_page_format(page, LABEL_COLUMNS + 2, "                 - ", AF_TONE_PLAIN,
                           "%s (as above)", af_reason_message(reason->id));
        else
            af_cli_reason_view(page, LABEL_COLUMNS + 2, reason);
        told->reasons[reason->id] = true;
    }
}

/* "yes: summary" or "no: reason; reason": the reasons of a short line say more. */
static void view_line(struct af_page *page, const struct af_rung *rung, bool recommended,
                      bool with_reasons, struct told *told)
{
    char lead[LABEL_COLUMNS + 8];
    struct af_text text = {0};
    const char *separator = "";
    size_t shown = 0;
    snprintf(lead, sizeof lead, "  %s", af_rung_name(rung->kind));
    af_text_format(&text, "%s%s: ", af_answer_text(rung->answer),
                   recommended ? ", recommended" : "");
    for (size_t i = 0; with_reasons && i < rung->reason_count; i++) {
        const struct af_reason *reason = &rung->reasons[i];
        if (af_reason_effect(reason->id) == AF_REASON_NOTE)
            continue;
        if (shown++ == REASONS_SHORT) {
            af_text_add(&text, "; and more");
            break;
        }
        af_text_add(&text, separator);
        add_reason(&text, reason, !told->reasons[reason->id]);
        told->reasons[reason->id] = true;
        separator = "; ";
    }
    if (shown == 0 && rung->summary != NULL)
        af_text_add(&text, rung->summary);
    af_page_add(page, LABEL_COLUMNS, lead, recommended ? AF_TONE_STRONG : AF_TONE_PLAIN,
                af_text_get(&text));
    page->out->failed |= text.failed;
    af_text_release(&text);
}

void af_rungs_view(struct af_page *page, const struct af_decision *decision,
                   enum af_cli_rung_detail detail, const struct af_offer_build_offer *offers,
                   struct af_arena *arena)
{
    struct told told = {{false}};
    for (int kind = 0; kind < AF_RUNG_COUNT; kind++) {
        const struct af_rung *rung = &decision->rungs[kind];
        bool recommended = decision->possible && kind == (int)decision->recommended;
        bool passed_over = kind < (int)decision->recommended && rung->answer != AF_YES;
        view_line(page, rung, recommended, detail == AF_CLI_RUNG_SHORT && passed_over, &told);
        if (detail == AF_CLI_RUNG_SHORT)
            continue;
        if (kind == AF_RUNG_BUILD && offers != NULL) {
            af_cli_build_offers_view(page, LABEL_COLUMNS, offers, AF_OFFER_BUILD_OFFERS, arena);
        } else if (rung->answer != AF_NO) {
            af_page_format(page, LABEL_COLUMNS, "", AF_TONE_PLAIN, "price: %s",
                           af_cli_rung_cost_text(arena, &rung->price));
            view_moves(page, rung);
        }
        view_reasons(page, rung, &told);
        view_prerequisites(page, rung, detail == AF_CLI_RUNG_ALL);
    }
}

void af_cli_filter_counts_view(struct af_page *page, const struct af_decision *decision)
{
    struct af_text text = {0};
    for (size_t i = 0; i < decision->sieve_count; i++)
        af_text_format(&text, "%s%zu %s", i > 0 ? " -> " : "", decision->sieve[i].left,
                       decision->sieve[i].what);
    if (text.len > 0)
        af_page_add(page, 2, "  ", AF_TONE_PLAIN, af_text_get(&text));
    page->out->failed |= text.failed;
    af_text_release(&text);
}

static bool rung_has(const struct af_rung *rung, enum af_reason_id id)
{
    for (size_t i = 0; i < rung->reason_count; i++)
        if (rung->reasons[i].id == id)
            return true;
    return false;
}

/* The first reason against it, unless the wheel rung tells it. */
static void add_first_reason(struct af_text *text, const struct af_near_miss *miss,
                             const struct af_rung *rung)
{
    for (size_t i = 0; i < miss->reason_count; i++) {
        const struct af_reason *reason = &miss->reasons[i];
        if (af_reason_effect(reason->id) != AF_REASON_BLOCKS)
            continue;
        if (rung_has(rung, reason->id))
            return;
        af_text_add(text, "\n");
        add_reason(text, reason, true);
        return;
    }
}

void af_cli_near_misses_short(struct af_page *page, const struct af_decision *decision)
{
    for (size_t i = 0; i < decision->near_miss_count && i < NEAR_MISSES_SHORT; i++) {
        const struct af_near_miss *miss = &decision->near_misses[i];
        struct af_text text = {0};
        af_text_format(&text, "%s:\n%s", miss->what, miss->filename);
        add_first_reason(&text, miss, &decision->rungs[AF_RUNG_WHEEL]);
        af_page_add(page, 4, "  - ", AF_TONE_PLAIN, af_text_get(&text));
        page->out->failed |= text.failed;
        af_text_release(&text);
    }
}

void af_cli_near_misses_view(struct af_page *page, const struct af_decision *decision)
{
    for (size_t i = 0; i < decision->near_miss_count; i++) {
        const struct af_near_miss *miss = &decision->near_misses[i];
        af_page_format(page, 4, "  - ", AF_TONE_PLAIN, "%s:\n%s", miss->what, miss->filename);
        for (size_t j = 0; j < miss->reason_count; j++)
            if (af_reason_effect(miss->reasons[j].id) == AF_REASON_BLOCKS)
                af_cli_reason_view(page, 6, &miss->reasons[j]);
    }
}

void af_cli_steps_view(struct af_page *page, const struct af_plan *plan, size_t max,
                       struct af_arena *arena)
{
    for (size_t i = 0; i < plan->step_count && i < max; i++) {
        const struct af_step *step = &plan->steps[i];
        char lead[32];
        if (max == 1)
            snprintf(lead, sizeof lead, "  ");
        else
            snprintf(lead, sizeof lead, "  %zu. ", i + 1);
        af_page_add(page, max == 1 ? 2 : 5, lead, AF_TONE_PLAIN, step->title);
        const char *command = step->argc > 0 ? af_step_command(step, arena) : NULL;
        if (command != NULL)
            af_page_command(page, max == 1 ? 4 : 5, command);
    }
}
