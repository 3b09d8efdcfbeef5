/*
 * diagnosis_view.c: prints the diagnosis of a log, and the page of a cause, for people.
 */
#include "kit/cli/diagnosis_view.h"

#include <stdio.h>
#include <string.h>

#include "kit/base/text.h"
#include "kit/cli/decision_view.h"

#define OTHERS_SHOWN 3
#define STEPS_SHOWN 4
#define LINE_BYTES 200

static const char *sure_text(enum af_diagnosis_confidence confidence)
{
    static const char *const texts[] = {"", "probably: ", "possibly: "};
    return texts[confidence];
}

static void view_text(struct af_screen *screen, const char *label, const char *text)
{
    af_screen_heading(screen, label);
    af_screen_add(screen, 2, "  ", AF_TONE_PLAIN, text);
}

static void view_line(struct af_screen *screen, const struct af_diagnosis_evidence *row,
                      bool with_file)
{
    char lead[32];
    char line[LINE_BYTES];
    af_text_quote(line, sizeof line, row->text, strlen(row->text)); /* cuts whole characters */
    snprintf(lead, sizeof lead, "  line %llu", (unsigned long long)row->line);
    int indent = (int)strlen(lead) + 2;
    if (with_file)
        af_screen_format(screen, indent, lead, AF_TONE_PLAIN, "of %s: %s", row->file, line);
    else
        af_screen_add(screen, indent, lead, AF_TONE_PLAIN, line);
}

static void view_evidence(struct af_screen *screen, const struct af_diagnosed *found,
                          bool with_file)
{
    af_screen_heading(screen, "Evidence");
    for (size_t i = 0; i < found->evidence_count; i++) {
        const struct af_diagnosis_evidence *row = &found->evidence[i];
        if (row->fact == NULL)
            view_line(screen, row, with_file);
        else
            af_screen_format(screen, 2, "  ", AF_TONE_PLAIN, "%s is %s (%s)", row->fact,
                             row->text, row->source);
    }
}

#define ASKS_TORCH "python -c \"import torch; print("

/* One command for all that torch prints: "python -c "import torch; print(A, B)"". */
static const char *torch_command(const struct af_diagnosis *diagnosis, struct af_arena *arena)
{
    const char *made = NULL;
    for (size_t i = 0; i < diagnosis->question_count; i++) {
        const char *command = diagnosis->questions[i].command;
        if (command == NULL || !af_starts_with(command, ASKS_TORCH))
            continue;
        command += strlen(ASKS_TORCH);
        made = af_arena_format(arena, "%s%s%.*s", made == NULL ? ASKS_TORCH : made,
                               made == NULL ? "" : ", ", (int)(strlen(command) - 2), command);
    }
    return made == NULL ? NULL : af_arena_format(arena, "%s)\"", made);
}

/* What tells the causes apart: a test of torch alone, or facts and the commands that show
   them. */
static void view_questions(struct af_screen *screen, const struct af_diagnosis *diagnosis,
                           struct af_arena *arena)
{
    const char *torch = torch_command(diagnosis, arena);
    bool is_open = diagnosis->causes[0].confidence != AF_DIAGNOSIS_PROVED;
    for (size_t i = 0; is_open && i < diagnosis->count && i < 3; i++)
        if (diagnosis->causes[i].cause->test != NULL) {
            af_screen_heading(screen, "What would settle it");
            af_screen_command(screen, 2, AF_SHELL_POSIX, diagnosis->causes[i].cause->test);
            af_screen_format(screen, 2, "  ", AF_TONE_PLAIN, "fails as well if %s",
                             diagnosis->causes[i].title);
            return;
        }
    if (diagnosis->question_count == 0)
        return;
    af_screen_heading(screen, "What would settle it");
    for (size_t i = 0; i < diagnosis->question_count; i++) {
        const struct af_diagnosis_question *row = &diagnosis->questions[i];
        bool is_torch = row->command != NULL && af_starts_with(row->command, ASKS_TORCH);
        if (row->command == NULL)
            af_screen_format(screen, 2, "  ", AF_TONE_PLAIN, "%s (for %s)", row->fact,
                             row->cause);
        else
            af_screen_format(screen, 2, "  ", AF_TONE_PLAIN, "%s, which `%s` shows (for %s)",
                             row->fact, is_torch ? torch : row->command, row->cause);
    }
}

static void view_others(struct af_screen *screen, const struct af_diagnosis *diagnosis,
                        bool all)
{
    size_t shown = all ? diagnosis->count : 1 + OTHERS_SHOWN;
    bool decided = diagnosis->causes[0].confidence == AF_DIAGNOSIS_PROVED;
    if (diagnosis->count < 2 || (decided && !all))
        return;
    af_screen_heading(screen, "Other causes");
    for (size_t i = 1; i < diagnosis->count && i < shown; i++)
        af_screen_format(screen, 2, "  ", AF_TONE_PLAIN, "%s: %s",
                         diagnosis->causes[i].cause->id, diagnosis->causes[i].title);
}

static void view_cut(struct af_screen *screen, const struct af_log_evidence *evidence)
{
    char line[LINE_BYTES];
    af_screen_format(
        screen, 2, "  ", AF_TONE_PLAIN,
        "the text ends at line %llu (%s), and the error follows there: pass the 30 "
        "lines after it as well",
        (unsigned long long)evidence->end.line,
        af_text_quote(line, sizeof line, evidence->end.text, strlen(evidence->end.text)));
}

/* The steps for the machine of the log, or the facts that are missing for them. */
static void view_plan(struct af_screen *screen, const struct af_cli_diagnosis *shown,
                      struct af_arena *arena)
{
    const struct af_plan_of_log *plan = shown->plan;
    if (!af_plan_of_log_decides(plan)) {
        af_screen_format(screen, 2, "  ", AF_TONE_PLAIN,
                         "which wheel fits depends on the %s: add what `%s` prints to the log",
                         plan->missing, plan->command);
        return;
    }
    const struct af_rung *rung = af_plan_answer_rung(&plan->answer);
    bool has_file = rung->kind == AF_RUNG_WHEEL || rung->kind == AF_RUNG_TORCH_CHANGE;
    if (has_file)
        af_screen_format(screen, 2, "  ", AF_TONE_PLAIN, "for %s: %s", shown->machine->name,
                         plan->answer.headline);
    else /* what was assumed matters less */
        af_screen_add(screen, 2, "  ", AF_TONE_PLAIN, plan->answer.headline);
    if (plan->answer.has_plan)
        af_cli_steps_view(screen, &plan->answer.plan, STEPS_SHOWN, arena);
}

/* Whether some sentence about flash-attn has one of these concepts. */
static bool says(const struct af_log_evidence *evidence, const char *concepts)
{
    struct af_sentence_rule rule = {0};
    return af_sentence_rule_parse(concepts, &rule) && (evidence->said & rule.needed) != 0;
}

static bool names_flash_attn(const struct af_log_evidence *evidence)
{
    const struct af_log_hits *subject = af_log_evidence_hits(evidence, AF_SIGNATURE_SUBJECT);
    return subject != NULL && subject->count > 0;
}

/* Whether the text is about flash-attn, and reports no error. */
static bool wants_flash_attn(const struct af_cli_diagnosis *shown)
{
    return names_flash_attn(shown->evidence) && !shown->diagnosis->has_failure &&
           (af_plan_of_log_decides(shown->plan) || shown->plan->missing != NULL);
}

/* The line of the error that a program printed last. */
static void view_error_line(struct af_screen *screen, const struct af_log_evidence *evidence)
{
    uint64_t line;
    const struct af_log_file *file =
        af_log_evidence_file(evidence, evidence->end.error_line, &line);
    const struct af_diagnosis_evidence row = {
        .file = file->name, .line = line, .text = evidence->end.error};
    view_line(screen, &row, evidence->file_count > 1);
}

/* That error, which is none of flash-attn's known ones. */
static void view_error(struct af_screen *screen, const struct af_log_evidence *evidence)
{
    af_screen_heading(screen, "What failed");
    view_error_line(screen, evidence);
    view_text(screen, "Next step",
              names_flash_attn(evidence)
                  ? "search for this message, without your own names and numbers, in the "
                    "issues of the program that printed it"
                  : "search for this message, without your own names and numbers, in the "
                    "issues of the program that printed it: flash-attn is not known to cause "
                    "it");
}

static void view_nothing(struct af_screen *screen, const struct af_cli_diagnosis *shown,
                         struct af_arena *arena)
{
    const struct af_log_evidence *evidence = shown->evidence;
    af_screen_format(screen, 0, "", AF_TONE_STRONG,
                     "no known failure of flash-attn was found in %llu line%s",
                     (unsigned long long)evidence->line_count,
                     evidence->line_count == 1 ? "" : "s");
    if (evidence->end.error_line != 0) {
        view_error(screen, evidence);
        return;
    }
    af_screen_heading(screen, "Next step");
    if (af_log_end_is_cut(&evidence->end)) {
        view_cut(screen, evidence);
    } else if (wants_flash_attn(shown)) {
        static const char without[] =
            "most programs also run without flash-attn: with transformers, set "
            "attn_implementation=\"sdpa\"; others have an option for it";
        bool is_unwanted = says(evidence, "avoid"); /* whether it is needed comes first */
        if (is_unwanted)
            af_screen_add(screen, 2, "  ", AF_TONE_PLAIN, without);
        view_plan(screen, shown, arena);
        if (!is_unwanted)
            af_screen_add(screen, 2, "  ", AF_TONE_PLAIN, without);
    } else {
        af_screen_add(screen, 2, "  ", AF_TONE_PLAIN,
                      "if this is an excerpt, pass the complete log: the first error matters, "
                      "and it is often far above the last one; an error that no package "
                      "flash-attn made is best searched in its own project's issues");
    }
}

static void view_other(struct af_screen *screen, const struct af_diagnosis *diagnosis,
                       const struct af_log_evidence *evidence)
{
    af_screen_format(screen, 0, "", AF_TONE_STRONG,
                     "what failed here is %s (line %llu), for a reason that is not known here",
                     diagnosis->other.package, (unsigned long long)diagnosis->other.line);
    view_text(screen, "Next step",
              "search for the first error above that line in that project's issues");
    if (evidence->end.error_line != 0) {
        af_screen_heading(screen, "Evidence");
        view_error_line(screen, evidence);
    }
}

static void view_harmless(struct af_screen *screen, const struct af_diagnosis *diagnosis,
                          const struct af_log_evidence *evidence)
{
    af_screen_add(screen, 0, "", AF_TONE_STRONG,
                  "nothing in this log is a failure of flash-attn");
    view_text(screen, "Why", diagnosis->harmless.why);
    af_screen_heading(screen, "Evidence");
    view_line(screen, &diagnosis->harmless.seen, evidence->file_count > 1);
    if (evidence->end.error_line != 0)
        view_error(screen, evidence);
}

/* Leaves out the clauses that name anyflash: the program does not run on Windows. */
static const char *for_windows(const char *text, struct af_arena *arena)
{
    struct af_text kept = {0};
    while (*text != '\0') {
        size_t len = strcspn(text, ".;");
        while (text[len] != '\0' && text[len + 1] != ' ' && text[len + 1] != '\0')
            len += 1 + strcspn(text + len + 1, ".;");
        len += text[len] != '\0';
        len += text[len] == ' ';
        bool is_ours = memmem(text, len, "anyflash", 8) != NULL;
        af_text_add_n(&kept, text, is_ours ? 0 : len);
        text += len;
    }
    return af_text_take(&kept, arena);
}

/* The next step: a command for this machine, the plan for the log's machine, or advice. */
static void view_next(struct af_screen *screen, const struct af_cli_diagnosis *shown,
                      struct af_arena *arena)
{
    const struct af_diagnosed *best = &shown->diagnosis->causes[0];
    bool is_planned = shown->is_elsewhere && af_plan_of_log_serves(best->next);
    bool is_windows =
        shown->is_elsewhere && af_fact_is(&shown->machine->platform.os, "windows");
    const char *fix = is_windows ? for_windows(best->fix, arena) : best->fix;
    af_screen_heading(screen, "Next step");
    if (best->confidence == AF_DIAGNOSIS_POSSIBLE && af_log_end_is_cut(&shown->evidence->end))
        view_cut(screen, shown->evidence);
    if (is_planned && af_plan_of_log_decides(shown->plan)) {
        view_plan(screen, shown, arena);
        return;
    }
    bool is_of_run = best->cause->phases == 1u << AF_CAUSE_RUN; /* no wheel changes that */
    bool is_asked = is_planned && shown->plan->missing != NULL && !is_of_run;
    if (is_asked && best->doubt != NULL) { /* the answer does not depend on the guess */
        view_plan(screen, shown, arena);
        af_screen_format(screen, 2, "  ", AF_TONE_PLAIN, "if the guess is right: %s",
                         fix == NULL ? "" : fix);
        return;
    }
    if (best->next != NULL && !is_planned && !(is_windows && af_starts_with(best->next, "any")))
        af_screen_command(screen, 2, AF_SHELL_POSIX, best->next);
    af_screen_add(screen, 2, "  ", AF_TONE_PLAIN, fix == NULL ? "" : fix);
    if (is_asked)
        view_plan(screen, shown, arena);
}

void af_cli_diagnosis_view(struct af_screen *screen, const struct af_cli_diagnosis *shown,
                           bool all, struct af_arena *arena)
{
    const struct af_diagnosis *diagnosis = shown->diagnosis;
    const struct af_log_evidence *evidence = shown->evidence;
    const struct af_diagnosed *best = &diagnosis->causes[0];
    if (diagnosis->count == 0 && diagnosis->harmless.why != NULL) {
        view_harmless(screen, diagnosis, evidence);
        return;
    }
    if (diagnosis->count == 0 && diagnosis->other.package != NULL) {
        view_other(screen, diagnosis, evidence);
        return;
    }
    if (diagnosis->count == 0) {
        view_nothing(screen, shown, arena);
        return;
    }
    af_screen_format(screen, 0, "", AF_TONE_STRONG, "%s%s", sure_text(best->confidence),
                     best->title);
    if (best->detail != NULL)
        af_screen_add(screen, 0, "", AF_TONE_PLAIN, best->detail);
    else if (best->doubt != NULL)
        af_screen_add(screen, 0, "", AF_TONE_PLAIN, best->doubt);
    view_next(screen, shown, arena);
    view_evidence(screen, best, evidence->file_count > 1);
    if (best->doubt != NULL && evidence->end.error_line != 0) {
        af_screen_heading(screen, "Printed error");
        view_error_line(screen, evidence);
    }
    if (best->why != NULL)
        view_text(screen, "Why", best->why);
    if (best->avoid != NULL)
        view_text(screen, "What not to do", best->avoid);
    view_questions(screen, diagnosis, arena);
    view_others(screen, diagnosis, all);
    af_screen_gap(screen);
    af_screen_format(screen, 2, "", AF_TONE_DIM, "%s (%s); facts: %s", best->cause->id,
                     af_diagnosis_confidence_text(best->confidence), shown->facts);
}

void af_cli_cause_view(struct af_screen *screen, const struct af_cause *cause)
{
    af_screen_format(screen, 0, "", AF_TONE_STRONG, "%s: %s", cause->id, cause->title);
    view_text(screen, "Why", cause->why);
    af_screen_heading(screen, "Next step");
    af_screen_command(screen, 2, AF_SHELL_POSIX, cause->next);
    af_screen_add(screen, 2, "  ", AF_TONE_PLAIN, cause->fix);
    if (cause->avoid != NULL)
        view_text(screen, "What not to do", cause->avoid);
}
