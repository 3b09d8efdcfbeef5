/*
 * cmd_find.c: `anyflash find WORD...`: the wheels of the catalog that satisfy
 * all words, as a table, as URLs (--quiet) or JSON; judged, when a machine was
 * named.
 */
#include "kit/catalog/query.h"
#include "kit/cli/load.h"
#include "kit/cli/wheel_table.h"

/* What was found, and for whom. */
struct find {
    struct af_question question; /* machines and decision only when judging */
    const struct af_catalog_wheel **wheels;
    size_t count; /* all that match */
    size_t shown;
    const struct af_candidate **verdicts; /* by index in the catalog; NULL: not judged */
};

static const struct af_candidate *verdict_of(const struct find *find,
                                             const struct af_catalog_wheel *wheel)
{
    return find->verdicts != NULL ? find->verdicts[wheel - find->question.catalog.wheels]
                                  : NULL;
}

static void write_table(struct af_cli *cli, const struct find *find)
{
    bool verbose = af_option_given(&cli->options, AF_OPTION_VERBOSE);
    if (find->count > 0)
        af_cli_wheel_table_head(&cli->out, find->verdicts != NULL);
    for (size_t i = 0; i < find->shown; i++)
        af_cli_wheel_table_row(&cli->out, find->wheels[i], find->verdicts != NULL,
                               verdict_of(find, find->wheels[i]), verbose);
}

/* For other programs: one address a line, whole. */
static void write_addresses(struct af_cli *cli, const struct find *find)
{
    for (size_t i = 0; i < find->shown; i++) {
        const struct af_catalog_wheel *wheel = find->wheels[i];
        af_text_add(&cli->out, wheel->url != NULL ? wheel->url : wheel->filename);
        af_text_add(&cli->out, "\n");
    }
}

static enum anyflash_status write_json(struct af_cli *cli, const struct find *find,
                                       struct anyflash_error *err)
{
    json_t *wheels = json_array();
    for (size_t i = 0; i < find->shown; i++)
        wheels = af_cli_json_append(
            wheels,
            af_cli_wheel_table_json(find->wheels[i], verdict_of(find, find->wheels[i])));
    return af_cli_json_take(cli,
                            json_pack("{s:s, s:o, s:o, s:o}", "schema", "anyflash-find/1",
                                      "catalog", af_cli_json_catalog(&find->question.catalog),
                                      "count", af_cli_json_count((int64_t)find->count),
                                      "wheels", wheels),
                            err);
}

/* The wheels that match; with --official only those of the authors. */
static enum anyflash_status run_query(struct af_cli *cli, struct find *find,
                                      struct anyflash_error *err)
{
    const struct af_word_list *words = &cli->options.words;
    const struct af_catalog_wheel *const *wheels = NULL;
    size_t count = 0;
    struct af_query query;
    enum anyflash_status status =
        af_query_parse(words->items, words->count, &cli->arena, &query, err);
    if (status == ANYFLASH_OK)
        status =
            af_query_run(&query, &find->question.catalog, &cli->arena, &wheels, &count, err);
    if (status != ANYFLASH_OK)
        return status;
    find->wheels = af_arena_array(&cli->arena, count + 1, sizeof *find->wheels);
    if (find->wheels == NULL)
        return af_fail_memory(err);
    bool official_only = af_option_given(&cli->options, AF_OPTION_OFFICIAL);
    for (size_t i = 0; i < count; i++)
        if (wheels[i]->official || !official_only)
            find->wheels[find->count++] = wheels[i];
    status = af_cli_limit(cli, find->count, &find->shown, err);
    if (find->shown > find->count)
        find->shown = find->count;
    return status;
}

/* Verdicts by place in the catalog, so that each is found at once. */
static enum anyflash_status index_verdicts(struct af_cli *cli, struct find *find,
                                           struct anyflash_error *err)
{
    const struct af_decision *decision = &find->question.decision;
    const struct af_catalog *catalog = &find->question.catalog;
    find->verdicts = af_arena_array(&cli->arena, catalog->count + 1, sizeof *find->verdicts);
    if (find->verdicts == NULL)
        return af_fail_memory(err);
    for (size_t i = 0; i < decision->candidate_count; i++)
        find->verdicts[decision->candidates[i].wheel - catalog->wheels] =
            &decision->candidates[i];
    return ANYFLASH_OK;
}

static enum anyflash_status load(struct af_cli *cli, struct find *find,
                                 struct anyflash_error *err)
{
    if (af_machines_named(&cli->options)) {
        enum anyflash_status status = af_question_answer(cli, &find->question, err);
        return status == ANYFLASH_OK ? index_verdicts(cli, find, err) : status;
    }
    enum anyflash_status status = af_cli_catalog_load(cli, &find->question.catalog, err);
    find->question.has_catalog = status == ANYFLASH_OK;
    return status;
}

/* An updated catalog may say something else than the one that others have. */
static void remark_catalog(struct af_cli *cli, const struct af_catalog *catalog)
{
    const char *remark =
        af_arena_format(&cli->arena, "catalog %s: %zu wheels, state of %s",
                        af_text_scrub(&cli->arena, catalog->name, 200), catalog->count,
                        catalog->date != NULL ? catalog->date : "an unknown date");
    if (remark != NULL)
        af_cli_remark(cli, remark);
}

static enum anyflash_status write_answer(struct af_cli *cli, const struct find *find,
                                         struct anyflash_error *err)
{
    if (af_option_given(&cli->options, AF_OPTION_JSON))
        return write_json(cli, find, err);
    if (af_option_given(&cli->options, AF_OPTION_QUIET))
        write_addresses(cli, find);
    else
        write_table(cli, find);
    if (find->count == 0)
        af_cli_remark(cli, "no wheel of the catalog matches all words");
    else
        af_cli_remark(cli, "-v shows the file names, -q only the addresses");
    remark_catalog(cli, &find->question.catalog);
    return af_cli_finish(cli, err);
}

enum anyflash_status af_cmd_find(struct af_cli *cli, enum af_exit *exit_out,
                                 struct anyflash_error *err)
{
    struct find find = {0};
    enum anyflash_status status = load(cli, &find, err);
    if (status == ANYFLASH_OK)
        status = run_query(cli, &find, err);
    if (status == ANYFLASH_OK)
        status = write_answer(cli, &find, err);
    *exit_out = find.count > 0 ? AF_EXIT_YES : AF_EXIT_NO;
    af_question_release(&find.question);
    return status;
}
