/*
 * diagnosis_view.c: prints the answer in one sentence, then the next step, then
 * the evidence.
 */
#include "kit/cli/diagnosis_view.h"

#include <stdio.h>

#define OTHERS_SHOWN 3
#define LINE_BYTES 200

static const char *sure_text(enum af_diagnosis_confidence confidence)
{
    static const char *const texts[] = {"", "probably: ", "possibly: "};
    return texts[confidence];
}

static void view_text(struct af_page *page, const char *label, const char *text)
{
    af_page_gap(page);
    af_page_add(page, 0, "", AF_TONE_STRONG, label);
    af_page_add(page, 2, "  ", AF_TONE_PLAIN, text);
}

static void view_line(struct af_page *page, const struct af_diagnosis_evidence *row,
                      bool with_file)
{
    char lead[32];
    char line[LINE_BYTES];
    snprintf(line, sizeof line, "%s", row->text);
    snprintf(lead, sizeof lead, "  line %llu", (unsigned long long)row->line);
    int indent = (int)strlen(lead) + 2;
    if (with_file)
        af_page_format(page, indent, lead, AF_TONE_PLAIN, "of %s: %s", row->file, line);
    else
        af_page_add(page, indent, lead, AF_TONE_PLAIN, line);
}

static void view_evidence(struct af_page *page, const struct af_diagnosed *found,
                          bool with_file)
{
    af_page_gap(page);
    af_page_add(page, 0, "", AF_TONE_STRONG, "Evidence");
    for (size_t i = 0; i < found->evidence_count; i++) {
        const struct af_diagnosis_evidence *row = &found->evidence[i];
        if (row->fact == NULL)
            view_line(page, row, with_file);
        else
            af_page_format(page, 2, "  ", AF_TONE_PLAIN, "%s is %s (%s)", row->fact, row->text,
                           row->source);
    }
}

static void view_questions(struct af_page *page, const struct af_diagnosis *diagnosis)
{
    if (diagnosis->question_count == 0)
        return;
    af_page_gap(page);
    af_page_add(page, 0, "", AF_TONE_STRONG, "What would settle it");
    for (size_t i = 0; i < diagnosis->question_count; i++) {
        const struct af_diagnosis_question *row = &diagnosis->questions[i];
        if (row->command != NULL)
            af_page_format(page, 2, "  ", AF_TONE_PLAIN, "%s, which `%s` shows (for %s)",
                           row->fact, row->command, row->cause);
        else
            af_page_format(page, 2, "  ", AF_TONE_PLAIN, "%s (for %s)", row->fact, row->cause);
    }
}

static void view_others(struct af_page *page, const struct af_diagnosis *diagnosis, bool all)
{
    size_t shown = all ? diagnosis->count : 1 + OTHERS_SHOWN;
    bool decided = diagnosis->causes[0].confidence == AF_DIAGNOSIS_PROVED;
    if (diagnosis->count < 2 || (decided && !all))
        return;
    af_page_gap(page);
    af_page_add(page, 0, "", AF_TONE_STRONG, "Other causes");
    for (size_t i = 1; i < diagnosis->count && i < shown; i++)
        af_page_format(page, 2, "  ", AF_TONE_PLAIN, "%s: %s", diagnosis->causes[i].cause->id,
                       diagnosis->causes[i].title);
}

static void view_nothing(struct af_page *page, const struct af_log_evidence *evidence)
{
    af_page_format(
        page, 0, "", AF_TONE_STRONG, "no known failure of flash-attn was found in %llu line%s",
        (unsigned long long)evidence->line_count, evidence->line_count == 1 ? "" : "s");
    view_text(page, "Next step",
              "if this is an excerpt, pass the complete log: the first error matters, and it "
              "is often far above the last one");
}

void af_cli_diagnosis_view(struct af_page *page, const struct af_diagnosis *diagnosis,
                           const struct af_log_evidence *evidence, const char *facts, bool all)
{
    const struct af_diagnosed *best = &diagnosis->causes[0];
    if (diagnosis->count == 0) {
        view_nothing(page, evidence);
        return;
    }
    af_page_format(page, 0, "", AF_TONE_STRONG, "%s%s", sure_text(best->confidence),
                   best->title);
    if (best->detail != NULL)
        af_page_add(page, 0, "", AF_TONE_PLAIN, best->detail);
    af_page_gap(page);
    af_page_add(page, 0, "", AF_TONE_STRONG, "Next step");
    af_page_command(page, 2, AF_SHELL_POSIX, best->next);
    af_page_add(page, 2, "  ", AF_TONE_PLAIN, best->fix);
    view_evidence(page, best, evidence->file_count > 1);
    view_text(page, "Why", best->why);
    if (best->avoid != NULL)
        view_text(page, "What not to do", best->avoid);
    view_questions(page, diagnosis);
    view_others(page, diagnosis, all);
    af_page_gap(page);
    af_page_format(page, 2, "", AF_TONE_DIM, "%s (%s); facts: %s", best->cause->id,
                   af_diagnosis_confidence_text(best->confidence), facts);
}

void af_cli_cause_view(struct af_page *page, const struct af_cause *cause)
{
    af_page_format(page, 0, "", AF_TONE_STRONG, "%s: %s", cause->id, cause->title);
    view_text(page, "Why", cause->why);
    af_page_gap(page);
    af_page_add(page, 0, "", AF_TONE_STRONG, "Next step");
    af_page_command(page, 2, AF_SHELL_POSIX, cause->next);
    af_page_add(page, 2, "  ", AF_TONE_PLAIN, cause->fix);
    if (cause->avoid != NULL)
        view_text(page, "What not to do", cause->avoid);
}
