/*
 * plan_wheels.c: verdicts on wheels: one of them with every reason, or all of
 * them in rank order.
 */
#include "kit/cli/plan_wheels.h"

#include <string.h>

#include "kit/cli/decision_view.h"
#include "kit/cli/wheel_table.h"
#include "kit/system/file.h"

/*
 * The file name that a path, a URL or a name means: what stands behind the last
 * slash, with "%2B" as '+', without '#' and '?'.
 */
static const char *wheel_file_name(struct af_arena *arena, const char *text)
{
    char *name = af_arena_text(arena, af_path_name(text));
    if (name == NULL)
        return "";
    name[strcspn(name, "#?")] = '\0';
    size_t len = 0;
    for (const char *at = name; *at != '\0'; at++) {
        bool is_plus = at[0] == '%' && at[1] == '2' && (at[2] == 'B' || at[2] == 'b');
        name[len++] = is_plus ? '+' : *at;
        at += is_plus ? 2 : 0;
    }
    name[len] = '\0';
    return name;
}

/* The best ranked candidate of that name, or NULL. */
static const struct af_candidate *candidate_called(const struct af_decision *decision,
                                                   const char *name)
{
    for (size_t i = 0; i < decision->candidate_count; i++)
        if (strcmp(decision->candidates[i].wheel->filename, name) == 0)
            return &decision->candidates[i];
    return NULL;
}

static enum anyflash_status explain(struct af_cli *cli, const struct af_question *question,
                                    size_t machine, const struct af_catalog_wheel *wheel,
                                    const struct af_reason **reasons_out, size_t *count_out,
                                    struct anyflash_error *err)
{
    return af_fit_explain(&question->catalog, question->machines.pointers[machine],
                          &question->options, wheel, &cli->arena, reasons_out, count_out, err);
}

static enum anyflash_status view_wheel(struct af_cli *cli, const struct af_question *question,
                                       const struct af_candidate *candidate,
                                       struct anyflash_error *err)
{
    static const char *const sentences[] = {"does not fit", "fits", "may fit"};
    struct af_page page = {&cli->out, af_page_columns(), af_cli_color(cli)};
    af_page_format(&page, 2, "", AF_TONE_PLAIN, "%s %s", candidate->wheel->filename,
                   sentences[candidate->answer]);
    for (size_t i = 0; i < question->machines.count; i++) {
        const struct af_reason *reasons = NULL;
        size_t count = 0;
        enum anyflash_status status =
            explain(cli, question, i, candidate->wheel, &reasons, &count, err);
        if (status != ANYFLASH_OK)
            return status;
        af_page_format(&page, 2, "", AF_TONE_PLAIN, "%s: %s", question->machines.items[i].name,
                       count == 0 ? "nothing speaks against it" : "to know about it:");
        for (size_t j = 0; j < count; j++)
            af_cli_reason_view(&page, 4, &reasons[j]);
    }
    return ANYFLASH_OK;
}

static enum anyflash_status wheel_json(struct af_cli *cli, const struct af_question *question,
                                       const struct af_candidate *candidate,
                                       struct anyflash_error *err)
{
    json_t *machines = json_array();
    for (size_t i = 0; i < question->machines.count; i++) {
        const struct af_reason *reasons = NULL;
        size_t count = 0;
        enum anyflash_status status =
            explain(cli, question, i, candidate->wheel, &reasons, &count, err);
        if (status != ANYFLASH_OK) {
            json_decref(machines);
            return status;
        }
        machines = af_cli_json_append(
            machines, json_pack("{s:s, s:o}", "name", question->machines.items[i].name,
                                "reasons", af_cli_json_reasons(reasons, count)));
    }
    return af_cli_json_take(cli,
                            json_pack("{s:s, s:o, s:o, s:o}", "schema", "anyflash-wheel/1",
                                      "verdict", af_cli_json_answer(candidate->answer), "wheel",
                                      af_cli_json_wheel(candidate->wheel), "machines",
                                      machines),
                            err);
}

enum anyflash_status af_cli_plan_one(struct af_cli *cli, const struct af_question *question,
                                     enum af_exit *exit_out, struct anyflash_error *err)
{
    const char *name = wheel_file_name(&cli->arena, cli->options.values[AF_OPTION_WHEEL]);
    const struct af_candidate *candidate = candidate_called(&question->decision, name);
    if (candidate == NULL) {
        cli->hint = "`anyflash find` lists the wheels; --package names another package";
        return af_fail(err, ANYFLASH_E_NOT_FOUND, "the catalog has no wheel '%s'",
                       af_text_scrub(&cli->arena, name, 200));
    }
    *exit_out = candidate->answer == AF_YES ? AF_EXIT_YES : AF_EXIT_NO;
    if (af_option_given(&cli->options, AF_OPTION_JSON))
        return wheel_json(cli, question, candidate, err);
    enum anyflash_status status = view_wheel(cli, question, candidate, err);
    return status == ANYFLASH_OK ? af_cli_finish(cli, err) : status;
}

enum anyflash_status af_cli_plan_all(struct af_cli *cli, const struct af_question *question,
                                     enum af_exit *exit_out, struct anyflash_error *err)
{
    const struct af_decision *decision = &question->decision;
    size_t limit = 0;
    enum anyflash_status status = af_cli_limit(cli, decision->candidate_count, &limit, err);
    if (status != ANYFLASH_OK)
        return status;
    size_t count = limit < decision->candidate_count ? limit : decision->candidate_count;
    *exit_out = decision->fitting_count > 0 ? AF_EXIT_YES : AF_EXIT_NO;
    bool verbose = af_option_given(&cli->options, AF_OPTION_VERBOSE);
    if (af_option_given(&cli->options, AF_OPTION_JSON)) {
        json_t *list = json_array();
        for (size_t i = 0; i < count; i++)
            list =
                af_cli_json_append(list, af_cli_wheel_table_json(decision->candidates[i].wheel,
                                                                 &decision->candidates[i]));
        return af_cli_json_take(cli,
                                json_pack("{s:s, s:o, s:o}", "schema", "anyflash-candidates/1",
                                          "catalog", af_cli_json_catalog(&question->catalog),
                                          "candidates", list),
                                err);
    }
    af_cli_wheel_table_head(&cli->out, true);
    for (size_t i = 0; i < count; i++)
        af_cli_wheel_table_row(&cli->out, decision->candidates[i].wheel, true,
                               &decision->candidates[i], verbose);
    return af_cli_finish(cli, err);
}
