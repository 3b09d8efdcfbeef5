/*
 * cmd_find.c: `anyflash find WORD...`: the wheels of the catalog that match all words: as a
 * table, as URLs (--quiet) or as JSON, each with a verdict if a machine was named. kit/answer
 * makes the answers and their JSON.
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "kit/answer/find_answer.h"
#include "kit/base/url.h"
#include "kit/cli/command_inputs.h"
#include "kit/cli/wheel_table.h"

/* The verdicts if there are some, and the package if the rows are of several. */
static unsigned columns_of(const struct af_plan_find_answer *answer)
{
    unsigned columns = answer->candidates != NULL ? AF_CLI_WHEEL_VERDICT : 0;
    for (size_t i = 1; i < answer->shown; i++)
        if (strcmp(answer->wheels[i]->package, answer->wheels[0]->package) != 0)
            columns |= AF_CLI_WHEEL_PACKAGE;
    return columns;
}

static void write_table(struct af_cli *cli, const struct af_plan_find_answer *answer)
{
    bool verbose = af_option_given(&cli->options, AF_OPTION_VERBOSE);
    unsigned columns = columns_of(answer);
    if (answer->count > 0)
        af_cli_wheel_table_head(&cli->out, columns);
    for (size_t i = 0; i < answer->shown; i++)
        af_cli_wheel_table_row(&cli->out, answer->wheels[i], columns,
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
    af_cli_remark(cli, "%zu of %zu wheels match%s (catalog: %s, as of %s)", answer->count,
                  catalog->count, shown, af_text_scrub(&cli->arena, catalog->name, 200),
                  catalog->date != NULL ? catalog->date : "an unknown date");
}

/* Whether a word is about the package. */
static bool names_package(const struct af_cli *cli)
{
    const struct af_word_list *words = &cli->options.words;
    for (size_t i = 0; i < words->count; i++)
        if (af_starts_with(words->items[i], "package"))
            return true;
    return false;
}

/* Whether only other packages match, for somebody who did not ask for them. */
static bool lacks_flash_attn(const struct af_cli *cli, const struct af_plan_find_answer *answer)
{
    if (answer->count == 0 || answer->shown < answer->count || names_package(cli))
        return false;
    for (size_t i = 0; i < answer->shown; i++)
        if (strcmp(answer->wheels[i]->package, "flash_attn") == 0)
            return false;
    return true;
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
    if (lacks_flash_attn(cli, answer))
        af_cli_remark(cli,
                      "no wheel of flash_attn is among them, only of other packages, such "
                      "as %s",
                      answer->wheels[0]->package);
    if (answer->count > 0 && answer->unbuilt_torch != NULL)
        af_cli_remark(cli, "no wheel was built for torch %s; these match any torch",
                      answer->unbuilt_torch);
    remark_count(cli, answer);
    return ANYFLASH_OK;
}

/* "gpu=h100" is "sm=9.0"; the search itself knows gpu=cuda and gpu=rocm. */
static const char *word_of(struct af_cli *cli, const char *word)
{
    size_t key_len = strcspn(word, "=!<>");
    const char *value = word + key_len + strspn(word + key_len, "=!");
    if (key_len != 3 || strncasecmp(word, "gpu", 3) != 0 || *value == '\0')
        return word;
    const char *sm = af_cli_arch(&cli->arena, value);
    if (sm == NULL || strchr(sm, '.') == NULL)
        return word;
    return af_arena_format(&cli->arena, "sm%.*s%s", (int)(value - word - 3), word + 3, sm);
}

static const char *const *words_of(struct af_cli *cli)
{
    const struct af_word_list *given = &cli->options.words;
    const char **words = af_arena_array(&cli->arena, given->count + 1, sizeof *words);
    for (size_t i = 0; i < given->count; i++)
        words[i] = word_of(cli, given->items[i]);
    return words;
}

enum anyflash_status af_cmd_find(struct af_cli *cli, enum af_exit *exit_out,
                                 struct anyflash_error *err)
{
    struct af_cli_inputs inputs = {0};
    struct af_plan_find_request request = {.words = words_of(cli),
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
