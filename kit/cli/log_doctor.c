/*
 * log_doctor.c: reads logs, decides whose facts count, and writes the diagnosis: the answer in
 * one sentence, the next step, the evidence. The log's own facts always count. Facts of this
 * machine count only if the log shows that it was written here (it names the environment's
 * folder), or with --here; --machine and --given describe the machine that wrote the log. On
 * another machine the next step is that of its plan.
 */
#include <stdio.h>
#include <string.h>

#include "kit/answer/plan_of_log.h"
#include "kit/base/text.h"
#include "kit/cli/command_inputs.h"
#include "kit/cli/decision_view.h"
#include "kit/cli/machine_inputs.h"
#include "kit/cli/screen.h"
#include "kit/doctor/diagnosis.h"
#include "kit/system/file.h"

#define CAUSE_COLUMNS 28 /* for the longest id */
#define COLUMNS_MAX 80
#define OTHERS_SHOWN 3
#define STEPS_SHOWN 4
#define LINE_BYTES 200
#define STREAM_BYTES_MAX (UINT64_C(1) << 30)
#define NEEDLE_BYTES_MIN 10u /* "/usr" and "/usr/local" are on every machine */

struct log_doctor {
    struct af_log_matcher matcher;
    struct af_catalog catalog;
    bool has_catalog;
    struct af_machines machines; /* this one, or those that the options name */
    struct af_machine empty;     /* when only the log's facts count */
    struct af_machine *machine;  /* whose facts are used */
    struct af_log_evidence *evidence;
    const char *facts; /* says whose */
    bool is_elsewhere; /* they are not those of this machine */
    struct af_diagnosis diagnosis;
    struct af_plan_of_log plan; /* of another machine */
};

static void feed(void *context, const char *bytes, size_t len)
{
    const struct log_doctor *doctor = context;
    af_log_evidence_feed(doctor->evidence, bytes, len);
}

static enum anyflash_status read_logs(struct af_cli *cli, struct log_doctor *doctor,
                                      struct anyflash_error *err)
{
    const struct af_word_list *words = &cli->options.words;
    enum anyflash_status status = ANYFLASH_OK;
    for (size_t i = 0; status == ANYFLASH_OK && i < words->count; i++) {
        const char *name = strcmp(words->items[i], "-") == 0
                               ? "standard input"
                               : af_text_scrub(&cli->arena, af_path_name(words->items[i]), 200);
        if (name == NULL)
            return af_fail_memory(err);
        af_log_evidence_begin(doctor->evidence, name);
        status =
            af_file_read_input_pieces(words->items[i], STREAM_BYTES_MAX, feed, doctor, err);
        enum anyflash_status ended =
            af_log_evidence_end(doctor->evidence, status == ANYFLASH_OK ? err : NULL);
        status = status == ANYFLASH_OK ? ended : status;
    }
    return status;
}

/*
 * The folder whose name in a log shows that it was written on this machine; NULL: none is
 * specific enough, or another machine is named.
 */
static enum anyflash_status find_needle(struct af_cli *cli, const char **needle_out,
                                        struct anyflash_error *err)
{
    enum anyflash_status status = af_cli_python_prefix(cli, needle_out, err);
    if (*needle_out != NULL &&
        (strlen(*needle_out) < NEEDLE_BYTES_MIN || strcmp(*needle_out, "/usr/local") == 0))
        *needle_out = NULL;
    return status;
}

static void choose_facts(struct af_cli *cli, struct log_doctor *doctor, bool named)
{
    doctor->machine = doctor->machines.count > 0 ? &doctor->machines.items[0] : &doctor->empty;
    doctor->is_elsewhere = !af_option_given(&cli->options, AF_OPTION_HERE) &&
                           (named || doctor->evidence->needle_line == 0);
    if (af_option_given(&cli->options, AF_OPTION_HERE))
        doctor->facts = "the log, then this machine (--here)";
    else if (cli->options.machines.count > 0)
        doctor->facts = "the log, then the machine given by --machine";
    else if (named)
        doctor->facts = "the log, then --given";
    else if (doctor->evidence->needle_line != 0)
        doctor->facts = "the log, then this machine, because the log names its environment";
    else
        doctor->facts = "the log";
}

/* What the user states counts more than what the log says. */
static enum anyflash_status apply_given(const struct af_cli *cli, struct af_machine *machine,
                                        struct anyflash_error *err)
{
    const struct af_word_list *words = &cli->options.givens;
    enum anyflash_status status = ANYFLASH_OK;
    const char *remark; /* was printed when the machine was made */
    for (size_t i = 0; status == ANYFLASH_OK && i < words->count; i++)
        status = af_machine_given(machine, words->items[i], &remark, err);
    return status;
}

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

/* What separates the causes: a test of torch alone, or facts, each with what shows it. */
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

/* Whether a text that ends so ends before its error: within a call stack, or within a build. */
static bool is_cut(const struct af_log_evidence *evidence)
{
    static const char *const ends[] = {"File \"",     "Traceback (most", "running b",
                                       "creating ",   "copying ",        "building '",
                                       "Building wh", "[end of output",  "[1/"};
    const char *text = evidence->last_text;
    for (size_t i = 0; i < AF_COUNT(ends); i++)
        if (af_starts_with(text, ends[i]))
            return true;
    size_t len = strlen(text);
    return len > 3 && strcmp(text + len - 3, "...") == 0;
}

static void view_cut(struct af_screen *screen, const struct af_log_evidence *evidence)
{
    char line[LINE_BYTES];
    af_screen_format(
        screen, 2, "  ", AF_TONE_PLAIN,
        "the text ends at line %llu (%s), and the error follows there: pass the 30 "
        "lines after it as well",
        (unsigned long long)evidence->last_line,
        af_text_quote(line, sizeof line, evidence->last_text, strlen(evidence->last_text)));
}

/* The steps on the machine of the log, or what is missing for them. */
static void view_plan(struct af_screen *screen, const struct log_doctor *doctor,
                      struct af_arena *arena)
{
    const struct af_plan_of_log *plan = &doctor->plan;
    if (!af_plan_of_log_decides(plan)) {
        af_screen_format(screen, 2, "  ", AF_TONE_PLAIN,
                         "which wheel fits depends on the %s: add what `%s` prints to the log",
                         plan->missing, plan->command);
        return;
    }
    const struct af_rung *rung = af_plan_answer_rung(&plan->answer);
    bool has_file = rung->kind == AF_RUNG_WHEEL || rung->kind == AF_RUNG_TORCH_CHANGE;
    if (has_file)
        af_screen_format(screen, 2, "  ", AF_TONE_PLAIN, "for %s: %s", doctor->machine->name,
                         plan->answer.headline);
    else /* what was assumed matters less */
        af_screen_add(screen, 2, "  ", AF_TONE_PLAIN, plan->answer.headline);
    if (plan->answer.has_plan)
        af_cli_steps_view(screen, &plan->answer.plan, STEPS_SHOWN, arena);
}

/* Whether somebody wants to have flash-attn, and no error is in the way. */
static bool wants_flash_attn(const struct log_doctor *doctor)
{
    const struct af_log_evidence *evidence = doctor->evidence;
    const struct af_log_hits *subject = af_log_evidence_hits(evidence, AF_SIGNATURE_SUBJECT);
    struct af_sentence_rule wish = {0};
    return subject != NULL && subject->count > 0 && !doctor->diagnosis.has_failure &&
           af_sentence_rule_parse("install build download which support need ask", &wish) &&
           (evidence->said & wish.needed) != 0 &&
           (af_plan_of_log_decides(&doctor->plan) || doctor->plan.missing != NULL);
}

static void view_nothing(struct af_screen *screen, const struct log_doctor *doctor,
                         struct af_arena *arena)
{
    const struct af_log_evidence *evidence = doctor->evidence;
    af_screen_format(screen, 0, "", AF_TONE_STRONG,
                     "no known failure of flash-attn was found in %llu line%s",
                     (unsigned long long)evidence->line_count,
                     evidence->line_count == 1 ? "" : "s");
    af_screen_heading(screen, "Next step");
    if (is_cut(evidence)) {
        view_cut(screen, evidence);
    } else if (wants_flash_attn(doctor)) {
        view_plan(screen, doctor, arena);
        af_screen_add(screen, 2, "  ", AF_TONE_PLAIN,
                      "most programs also run without flash-attn: with transformers, set "
                      "attn_implementation=\"sdpa\"; others have an option for it");
    } else {
        af_screen_add(screen, 2, "  ", AF_TONE_PLAIN,
                      "if this is an excerpt, pass the complete log: the first error matters, "
                      "and it is often far above the last one; an error that no package "
                      "flash-attn made is best searched in its own project's issues");
    }
}

static void view_other(struct af_screen *screen, const struct af_diagnosis *diagnosis)
{
    af_screen_format(screen, 0, "", AF_TONE_STRONG,
                     "what failed here is %s (line %llu), for a reason that is not known here",
                     diagnosis->other.package, (unsigned long long)diagnosis->other.line);
    view_text(screen, "Next step",
              "search for the first error above that line in that project's issues");
}

static void view_harmless(struct af_screen *screen, const struct af_diagnosis *diagnosis,
                          const struct af_log_evidence *evidence)
{
    af_screen_add(screen, 0, "", AF_TONE_STRONG,
                  "nothing in this log is a failure of flash-attn");
    view_text(screen, "Why", diagnosis->harmless.why);
    af_screen_heading(screen, "Evidence");
    view_line(screen, &diagnosis->harmless.seen, evidence->file_count > 1);
}

/* Without the parts of sentences that name a program which does not run on Windows. */
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

/* What to do now: a command here, the plan of the machine that wrote the log, or words. */
static void view_next(struct af_screen *screen, const struct log_doctor *doctor,
                      struct af_arena *arena)
{
    const struct af_diagnosed *best = &doctor->diagnosis.causes[0];
    bool is_planned = doctor->is_elsewhere && af_plan_of_log_serves(best->next);
    bool is_windows =
        doctor->is_elsewhere && af_fact_is(&doctor->machine->platform.os, "windows");
    const char *fix = is_windows ? for_windows(best->fix, arena) : best->fix;
    af_screen_heading(screen, "Next step");
    if (best->confidence == AF_DIAGNOSIS_POSSIBLE && is_cut(doctor->evidence))
        view_cut(screen, doctor->evidence);
    if (is_planned && af_plan_of_log_decides(&doctor->plan)) {
        view_plan(screen, doctor, arena);
        return;
    }
    if (best->next != NULL && !is_planned && !(is_windows && af_starts_with(best->next, "any")))
        af_screen_command(screen, 2, AF_SHELL_POSIX, best->next);
    af_screen_add(screen, 2, "  ", AF_TONE_PLAIN, fix == NULL ? "" : fix);
    bool is_of_run = best->cause->phases == 1u << AF_CAUSE_RUN; /* no wheel changes that */
    if (is_planned && doctor->plan.missing != NULL && !is_of_run)
        view_plan(screen, doctor, arena);
}

/* The answer, the next step, the evidence; `all` also describes the other causes. */
static void view_diagnosis(struct af_screen *screen, const struct log_doctor *doctor, bool all,
                           struct af_arena *arena)
{
    const struct af_diagnosis *diagnosis = &doctor->diagnosis;
    const struct af_log_evidence *evidence = doctor->evidence;
    const struct af_diagnosed *best = &diagnosis->causes[0];
    if (diagnosis->count == 0 && diagnosis->harmless.why != NULL) {
        view_harmless(screen, diagnosis, evidence);
        return;
    }
    if (diagnosis->count == 0 && diagnosis->other.package != NULL) {
        view_other(screen, diagnosis);
        return;
    }
    if (diagnosis->count == 0) {
        view_nothing(screen, doctor, arena);
        return;
    }
    af_screen_format(screen, 0, "", AF_TONE_STRONG, "%s%s", sure_text(best->confidence),
                     best->title);
    if (best->detail != NULL)
        af_screen_add(screen, 0, "", AF_TONE_PLAIN, best->detail);
    view_next(screen, doctor, arena);
    view_evidence(screen, best, evidence->file_count > 1);
    if (best->why != NULL)
        view_text(screen, "Why", best->why);
    if (best->avoid != NULL)
        view_text(screen, "What not to do", best->avoid);
    view_questions(screen, diagnosis, arena);
    view_others(screen, diagnosis, all);
    af_screen_gap(screen);
    af_screen_format(screen, 2, "", AF_TONE_DIM, "%s (%s); facts: %s", best->cause->id,
                     af_diagnosis_confidence_text(best->confidence), doctor->facts);
}

static enum anyflash_status answer(struct af_cli *cli, struct log_doctor *doctor,
                                   enum af_exit *exit_out, struct anyflash_error *err)
{
    struct af_diagnosis *diagnosis = &doctor->diagnosis;
    enum anyflash_status status = af_log_evidence_apply(doctor->evidence, doctor->machine, err);
    if (status == ANYFLASH_OK)
        status = apply_given(cli, doctor->machine, err);
    if (status == ANYFLASH_OK)
        status = af_diagnosis_make(doctor->evidence, doctor->machine, &doctor->catalog,
                                   &cli->arena, diagnosis, err);
    if (status == ANYFLASH_OK && doctor->is_elsewhere)
        status = af_plan_of_log_make(&doctor->plan, &doctor->catalog, doctor->machine,
                                     af_diagnosis_shows_installed(diagnosis), &cli->arena, err);
    if (status != ANYFLASH_OK)
        return status;
    bool named =
        diagnosis->count > 0 && diagnosis->causes[0].confidence != AF_DIAGNOSIS_POSSIBLE;
    *exit_out = named ? AF_EXIT_YES : AF_EXIT_NO;
    if (af_option_given(&cli->options, AF_OPTION_JSON))
        return af_cli_json_take(
            cli,
            af_plan_of_log_add(&doctor->plan,
                               af_diagnosis_json(diagnosis, doctor->evidence, doctor->facts)),
            err);
    struct af_screen screen = {&cli->out, af_screen_columns(), af_cli_color(cli)};
    if (screen.columns > COLUMNS_MAX)
        screen.columns = COLUMNS_MAX;
    view_diagnosis(&screen, doctor, af_option_given(&cli->options, AF_OPTION_VERBOSE),
                   &cli->arena);
    return af_cli_finish(cli, err);
}

enum anyflash_status af_cli_doctor_logs(struct af_cli *cli, enum af_exit *exit_out,
                                        struct anyflash_error *err)
{
    struct log_doctor doctor = {.evidence = NULL};
    bool named = af_machines_named(&cli->options);
    const char *needle = NULL;
    af_machine_init(&doctor.empty, "the log", "not stated in the log");
    enum anyflash_status status = af_cli_catalog_load(cli, &doctor.catalog, err);
    doctor.has_catalog = status == ANYFLASH_OK;
    if (status == ANYFLASH_OK && named)
        status = af_machines_load(cli, &doctor.machines, err);
    else if (status == ANYFLASH_OK)
        status = find_needle(cli, &needle, err);
    if (status == ANYFLASH_OK)
        status =
            af_log_matcher_build(&af_signatures, needle, &cli->arena, &doctor.matcher, err);
    if (status == ANYFLASH_OK)
        status = af_log_evidence_new(&doctor.matcher, &cli->arena, &doctor.evidence, err);
    if (status == ANYFLASH_OK)
        status = read_logs(cli, &doctor, err);
    /* this machine is looked at only if the log was written here */
    if (status == ANYFLASH_OK && !named && doctor.evidence->needle_line != 0)
        status = af_machines_load(cli, &doctor.machines, err);
    if (status == ANYFLASH_OK) {
        choose_facts(cli, &doctor, named);
        status = answer(cli, &doctor, exit_out, err);
    }
    af_plan_of_log_release(&doctor.plan);
    if (doctor.evidence != NULL)
        af_log_evidence_release(doctor.evidence);
    if (doctor.has_catalog)
        af_catalog_release(&doctor.catalog);
    af_machines_release(&doctor.machines);
    af_machine_release(&doctor.empty);
    return status;
}

static enum anyflash_status list_causes(struct af_cli *cli, struct anyflash_error *err)
{
    if (af_option_given(&cli->options, AF_OPTION_JSON)) {
        json_t *list = json_array();
        for (size_t i = 0; i < af_causes.rows_count; i++)
            list = af_json_append(list, af_diagnosis_cause_json(&af_causes.rows[i]));
        return af_cli_json_take(
            cli, json_pack("{s:s, s:o}", "schema", "anyflash-causes/1", "causes", list), err);
    }
    struct af_screen screen = {&cli->out, COLUMNS_MAX, false};
    for (size_t i = 0; i < af_causes.rows_count; i++)
        af_screen_add(&screen, CAUSE_COLUMNS, af_causes.rows[i].id, AF_TONE_PLAIN,
                      af_causes.rows[i].title);
    return af_cli_finish(cli, err);
}

/* The screen of a cause. */
static void view_cause(struct af_screen *screen, const struct af_cause *cause)
{
    af_screen_format(screen, 0, "", AF_TONE_STRONG, "%s: %s", cause->id, cause->title);
    view_text(screen, "Why", cause->why);
    af_screen_heading(screen, "Next step");
    af_screen_command(screen, 2, AF_SHELL_POSIX, cause->next);
    af_screen_add(screen, 2, "  ", AF_TONE_PLAIN, cause->fix);
    if (cause->avoid != NULL)
        view_text(screen, "What not to do", cause->avoid);
}

enum anyflash_status af_cli_doctor_explain(struct af_cli *cli, const char *id,
                                           struct anyflash_error *err)
{
    struct af_screen screen = {&cli->out, COLUMNS_MAX, af_cli_color(cli)};
    if (strcmp(id, "all") == 0)
        return list_causes(cli, err);
    const struct af_cause *cause = af_cause_find(&af_causes, id);
    if (cause == NULL) {
        char shown[80];
        cli->hint = "`anyflash doctor --explain all` lists the causes";
        return af_fail(err, ANYFLASH_E_ARGUMENT, "--explain: there is no cause '%s'",
                       af_text_quote(shown, sizeof shown, id, strlen(id)));
    }
    if (af_option_given(&cli->options, AF_OPTION_JSON))
        return af_cli_json_take(
            cli,
            json_pack("{s:s, s:o}", "schema", "anyflash-causes/1", "causes",
                      af_json_append(json_array(), af_diagnosis_cause_json(cause))),
            err);
    view_cause(&screen, cause);
    return af_cli_finish(cli, err);
}
