/*
 * cmd_find.c: `anyflash find WORD...`: the wheels of the catalog that match all
 * words, as a table, as URLs (--quiet) or as JSON, each with a verdict if a
 * machine was named. With --html, --svg or --matrix the best way for every torch
 * and CUDA build. plan/ makes the answers and their JSON.
 */
#include <stdio.h>

#include "kit/base/url.h"
#include "kit/cli/grid_view.h"
#include "kit/cli/load.h"
#include "kit/cli/wheel_table.h"
#include "kit/plan/find_answer.h"
#include "kit/system/output.h"

static void write_table(struct af_cli *cli, const struct af_plan_find_answer *answer)
{
    bool verbose = af_option_given(&cli->options, AF_OPTION_VERBOSE);
    bool with_verdict = answer->candidates != NULL;
    if (answer->count > 0)
        af_cli_wheel_table_head(&cli->out, with_verdict);
    for (size_t i = 0; i < answer->shown; i++)
        af_cli_wheel_table_row(&cli->out, answer->wheels[i], with_verdict,
                               af_plan_find_candidate(answer, answer->wheels[i]), verbose);
}

/* For other programs: one complete URL per line, with its hash if that is known. */
static void write_addresses(struct af_cli *cli, const struct af_plan_find_answer *answer)
{
    for (size_t i = 0; i < answer->shown; i++) {
        const struct af_catalog_wheel *wheel = answer->wheels[i];
        const char *url = wheel->url == NULL
                              ? wheel->filename
                              : af_url_with_sha256(&cli->arena, wheel->url,
                                                   af_catalog_sha256(&cli->arena, wheel));
        af_text_add(&cli->out, url == NULL ? "" : url);
        af_text_add(&cli->out, "\n");
    }
}

/* How many wheels match, and in which catalog: an updated one may give another answer. */
static void remark_count(struct af_cli *cli, const struct af_plan_find_answer *answer)
{
    const struct af_catalog *catalog = answer->request->plan.catalog;
    char shown[64] = "";
    if (answer->shown < answer->count)
        snprintf(shown, sizeof shown, "; the first %zu are shown", answer->shown);
    const char *remark = af_arena_format(
        &cli->arena, "%zu of %zu wheels match%s (catalog: %s, as of %s)", answer->count,
        catalog->count, shown, af_text_scrub(&cli->arena, catalog->name, 200),
        catalog->date != NULL ? catalog->date : "an unknown date");
    if (remark != NULL)
        af_cli_remark(cli, remark);
}

static enum anyflash_status write_answer(struct af_cli *cli,
                                         const struct af_plan_find_answer *answer,
                                         struct anyflash_error *err)
{
    if (af_option_given(&cli->options, AF_OPTION_JSON))
        return af_cli_json_take(cli, af_plan_find_json(answer), err);
    if (af_option_given(&cli->options, AF_OPTION_QUIET))
        write_addresses(cli, answer);
    else
        write_table(cli, answer);
    if (answer->count == 0)
        af_cli_remark(cli, "no wheel in the catalog matches all of these words");
    else
        af_cli_remark(cli, "use -v for file names, -q for URLs only");
    remark_count(cli, answer);
    return af_cli_finish(cli, err);
}

static enum anyflash_status list_wheels(struct af_cli *cli, enum af_exit *exit_out,
                                        struct anyflash_error *err)
{
    struct af_cli_inputs inputs = {0};
    struct af_plan_find_request request = {.words = cli->options.words.items,
                                           .word_count = cli->options.words.count};
    struct af_plan_find_answer answer = {0};
    unsigned parts =
        af_machines_named(&cli->options) ? AF_CLI_INPUT_MACHINES | AF_CLI_INPUT_PROOFS : 0;
    enum anyflash_status status = af_cli_limit(cli, &request.limit, err);
    if (status == ANYFLASH_OK)
        status = af_cli_inputs_load(cli, parts, &inputs, err);
    request.plan = inputs.request;
    if (status == ANYFLASH_OK)
        status = af_plan_find_make(&request, &answer, err);
    *exit_out = answer.count > 0 ? AF_EXIT_YES : AF_EXIT_NO;
    if (status == ANYFLASH_OK)
        status = write_answer(cli, &answer, err);
    af_plan_find_release(&answer);
    af_cli_inputs_release(&inputs);
    return status;
}

/*
 * Stores which of --html, --svg and --matrix is given; AF_OPTION_COUNT if none, for the
 * list of wheels. Fails if two are given, or an option that the chosen output does not use.
 */
static enum anyflash_status read_form(const struct af_options *options,
                                      enum af_option_id *form_out, struct anyflash_error *err)
{
    static const enum af_option_id forms[] = {AF_OPTION_HTML, AF_OPTION_SVG, AF_OPTION_MATRIX};
    const char *name = NULL;
    *form_out = AF_OPTION_COUNT;
    for (size_t i = 0; i < AF_COUNT(forms); i++) {
        if (!af_option_given(options, forms[i]))
            continue;
        if (name != NULL)
            return af_fail(err, ANYFLASH_E_ARGUMENT, "--%s cannot be used with --%s", name,
                           af_option_rows[forms[i]].name);
        name = af_option_rows[forms[i]].name;
        *form_out = forms[i];
    }
    bool is_document = *form_out == AF_OPTION_HTML || *form_out == AF_OPTION_SVG;
    if (af_option_given(options, AF_OPTION_OUTPUT) && !is_document)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "--output only works with --html or --svg");
    const char *conflict = name == NULL                                ? NULL
                           : options->words.count > 0                  ? "search words"
                           : af_option_given(options, AF_OPTION_LIMIT) ? "--limit"
                           : is_document && af_option_given(options, AF_OPTION_JSON) ? "--json"
                                                                                     : NULL;
    if (conflict != NULL)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "--%s cannot be used with %s", name, conflict);
    return ANYFLASH_OK;
}

/* Moves the document in cli->out to the file of --output, if there is one. */
static enum anyflash_status write_document(struct af_cli *cli, enum af_option_id form,
                                           struct anyflash_error *err)
{
    const char *start = form == AF_OPTION_SVG ? AF_CLI_GRID_SVG_START : AF_CLI_GRID_HTML_START;
    const char *path = cli->options.values[AF_OPTION_OUTPUT];
    enum anyflash_status status = af_cli_finish(cli, err);
    if (status != ANYFLASH_OK || path == NULL)
        return status;
    const char *shown = af_text_scrub(&cli->arena, path, 200);
    const char *remark = af_arena_format(&cli->arena, "wrote '%s'", shown);
    bool may_write = af_file_may_replace(&cli->arena, path, start);
    if (cli->arena.failed)
        return af_fail_memory(err);
    if (!may_write) {
        cli->hint = "name another file with --output";
        return af_fail(err, ANYFLASH_E_IO, "'%s' exists and was not written by `find --%s`",
                       shown, af_option_rows[form].name);
    }
    status = af_file_write_text(&cli->arena, path, af_text_get(&cli->out), err);
    cli->out.len = 0;
    if (status == ANYFLASH_OK)
        af_cli_remark(cli, remark);
    return status;
}

static enum anyflash_status write_grid(struct af_cli *cli, enum af_option_id form,
                                       const struct af_plan_grid *grid,
                                       const struct af_plan_request *request,
                                       struct anyflash_error *err)
{
    if (form == AF_OPTION_MATRIX)
        return af_cli_json_take(cli, af_plan_grid_json(grid, request), err);
    if (form == AF_OPTION_HTML)
        af_cli_grid_html(grid, request, &cli->arena, &cli->out);
    else
        af_cli_grid_svg(grid, request, &cli->arena, &cli->out);
    return write_document(cli, form, err);
}

static enum anyflash_status show_grid(struct af_cli *cli, enum af_option_id form,
                                      struct anyflash_error *err)
{
    struct af_cli_inputs inputs;
    struct af_plan_grid grid;
    enum anyflash_status status = af_cli_inputs_load(cli, AF_CLI_INPUT_MACHINES, &inputs, err);
    if (status != ANYFLASH_OK)
        return status;
    status = af_plan_grid_make(&inputs.request, &cli->arena, &grid, err);
    if (status == ANYFLASH_OK)
        status = write_grid(cli, form, &grid, &inputs.request, err);
    af_cli_inputs_release(&inputs);
    return status;
}

enum anyflash_status af_cmd_find(struct af_cli *cli, enum af_exit *exit_out,
                                 struct anyflash_error *err)
{
    enum af_option_id form;
    enum anyflash_status status = read_form(&cli->options, &form, err);
    if (status != ANYFLASH_OK)
        return status;
    return form == AF_OPTION_COUNT ? list_wheels(cli, exit_out, err)
                                   : show_grid(cli, form, err);
}
