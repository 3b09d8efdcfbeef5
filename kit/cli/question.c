/*
 * question.c: all that a decision rests on, loaded in order, and the decision.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "kit/cli/apply_proofs.h"
#include "kit/cli/load.h"
#include "kit/cli/selection_options.h"
#include "kit/formats/version.h"
#include "kit/plan/decide.h"

/* "9.0", "90" or "sm_90" as "9.0"; NULL when it is none of them. */
static const char *sm_text(struct af_cli *cli, const char *text)
{
    const char *digits = af_starts_with(text, "sm_") ? text + 3 : text;
    int64_t number = 0;
    char joined[8];
    size_t len = strlen(digits);
    if (len >= 3 && len <= 4 && digits[len - 2] == '.')
        snprintf(joined, sizeof joined, "%.*s%c", (int)(len - 2), digits, digits[len - 1]);
    else
        snprintf(joined, sizeof joined, "%.7s", digits);
    if (!isdigit((unsigned char)joined[0]) || !af_parse_i64(joined, 30, 199, &number))
        return NULL;
    return af_arena_format(&cli->arena, "%d.%d", (int)(number / 10), (int)(number % 10));
}

/* *name as wheels spell it: lower case, '_' between words; false for no name. */
static bool package_name(struct af_cli *cli, const char **name)
{
    char *copy = af_arena_text(&cli->arena, *name);
    for (char *at = copy; at != NULL && *at != '\0'; at++) {
        if (!isalnum((unsigned char)*at) && strchr("-_.", *at) == NULL)
            return false;
        *at = isalnum((unsigned char)*at) ? (char)tolower((unsigned char)*at) : '_';
    }
    *name = copy;
    return true;
}

/* *text as versions are written in the catalog; false for no version. */
static bool version_text(struct af_cli *cli, const char **text)
{
    char normal[160];
    struct af_version version;
    if (!af_version_parse(*text, strlen(*text), &version))
        return false;
    *text =
        af_arena_text(&cli->arena, af_version_format(&version, false, normal, sizeof normal));
    return true;
}

enum anyflash_status af_cli_fit_options(struct af_cli *cli, struct af_fit_options *options_out,
                                        struct anyflash_error *err)
{
    const char *const *values = cli->options.values;
    struct af_fit_options options = {
        .package = values[AF_OPTION_PACKAGE],
        .version = values[AF_OPTION_RELEASE],
        .official_only = values[AF_OPTION_OFFICIAL] != NULL,
        .has_preference = values[AF_OPTION_PREFER] != NULL,
    };
    if (options.has_preference && !af_rung_parse(values[AF_OPTION_PREFER], &options.preference))
        return af_fail(err, ANYFLASH_E_ARGUMENT,
                       "--prefer takes wheel, torch-kernels, torch-change, build or engine");
    if (values[AF_OPTION_ARCH] != NULL) {
        options.arch = sm_text(cli, values[AF_OPTION_ARCH]);
        if (options.arch == NULL)
            return af_fail(err, ANYFLASH_E_ARGUMENT,
                           "--arch takes a compute capability, as 9.0");
    }
    if (options.package != NULL && !package_name(cli, &options.package))
        return af_fail(err, ANYFLASH_E_ARGUMENT, "--package takes a name, as flash_attn");
    if (options.version != NULL && !version_text(cli, &options.version))
        return af_fail(err, ANYFLASH_E_ARGUMENT, "--version takes a version, as 2.8.3");
    *options_out = options;
    return cli->arena.failed ? af_fail_memory(err) : ANYFLASH_OK;
}

/* `plan` says what a build would hold: the rung is judged for that. */
static enum anyflash_status read_selection(struct af_cli *cli, struct af_question *question,
                                           struct anyflash_error *err)
{
    struct af_slim_total total;
    struct af_fit_options *options = &question->options;
    enum anyflash_status status = af_cli_read_selection(cli, false, &question->slim, err);
    if (status != ANYFLASH_OK || !af_cli_selection_said(&cli->options))
        return status;
    af_slim_total(&question->slim, &total);
    options->build_peak_bytes = (int64_t)total.peak_bytes;
    options->needs_softcap = (question->slim.features & AF_FLASH_SOFTCAP) != 0 &&
                             (af_option_given(&cli->options, AF_OPTION_FOR) ||
                              af_option_given(&cli->options, AF_OPTION_FEATURES));
    options->build_words = af_cli_selection_words(cli, &options->build_word_count);
    return cli->arena.failed ? af_fail_memory(err) : ANYFLASH_OK;
}

enum anyflash_status af_question_answer(struct af_cli *cli, struct af_question *question_out,
                                        struct anyflash_error *err)
{
    struct af_question question = {0};
    enum anyflash_status status = af_cli_fit_options(cli, &question.options, err);
    if (status == ANYFLASH_OK && cli->options.command == AF_COMMAND_PLAN)
        status = read_selection(cli, &question, err);
    if (status == ANYFLASH_OK)
        status = af_machines_load(cli, &question.machines, err);
    if (status == ANYFLASH_OK) {
        status = af_cli_catalog_load(cli, &question.catalog, err);
        question.has_catalog = status == ANYFLASH_OK;
    }
    if (status == ANYFLASH_OK) {
        status =
            af_plan_decide(&question.catalog, question.machines.pointers,
                           question.machines.count, &question.options, &question.decision, err);
        question.has_decision = status == ANYFLASH_OK;
    }
    if (status == ANYFLASH_OK)
        status = af_cli_apply_proofs(cli, &question, err);
    if (status != ANYFLASH_OK)
        af_question_release(&question);
    else
        *question_out = question;
    return status;
}

void af_question_release(struct af_question *question)
{
    if (question->has_decision)
        af_decision_release(&question->decision);
    if (question->has_catalog)
        af_catalog_release(&question->catalog);
    af_machines_release(&question->machines);
    *question = (struct af_question){0};
}
