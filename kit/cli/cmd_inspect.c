/*
 * cmd_inspect.c: `anyflash inspect WHAT`: opens the target, works out which
 * libraries a Python process would have there, and checks each extension
 * against them. inspect_next.c says what to do now.
 */
#include "kit/cli/inspect_view.h"

#include <string.h>

#include "kit/base/url.h"
#include "kit/catalog/publisher.h"
#include "kit/formats/version.h"
#include "kit/probe/probe.h"
#include "kit/proof/prover.h"
#include "kit/system/file.h"
#include "kit/system/progress.h"
#include "kit/system/state.h"

static enum anyflash_status open_prover(struct af_cli *cli, struct af_inspection *inspection,
                                        struct anyflash_error *err)
{
    const struct af_prover_options options = {
        .machine = inspection->machine,
        .is_here = cli->options.machines.count == 0 && cli->options.givens.count == 0,
        .torch = cli->options.values[AF_OPTION_TORCH],
        .arch = cli->options.values[AF_OPTION_ARCH],
        .reads_kernels = true,
    };
    return af_prover_open(&options, &cli->arena, &inspection->prover, err);
}

static enum anyflash_status load(struct af_inspection *inspection, struct af_cli *cli,
                                 struct anyflash_error *err)
{
    enum anyflash_status status = af_machines_load(cli, &inspection->machines, err);
    if (status != ANYFLASH_OK)
        return status;
    inspection->machine = inspection->machines.pointers[0];
    return open_prover(cli, inspection, err);
}

/* Downloads and opens a wheel behind a URL. */
static enum anyflash_status open_address(struct af_cli *cli, struct af_inspection *inspection,
                                         const char *address, struct anyflash_error *err)
{
    const struct af_http http = {.allow_http =
                                     af_option_given(&cli->options, AF_OPTION_ALLOW_HTTP),
                                 .offline = af_option_given(&cli->options, AF_OPTION_OFFLINE)};
    inspection->publisher = af_publisher_of_url(&cli->arena, address);
    inspection->is_far = true;
    return af_inspect_target_open_url(&http, address, &cli->arena, &inspection->target, err);
}

static enum anyflash_status open_target(struct af_inspection *inspection, struct af_cli *cli,
                                        struct anyflash_error *err)
{
    const char *what = cli->options.words.items[0];
    if (af_url_is_http(what))
        return open_address(cli, inspection, what, err);
    if (strcmp(what, "installed") == 0) {
        af_inspect_target_open_installed(inspection->machine, &cli->arena, &inspection->target);
        return ANYFLASH_OK;
    }
    enum anyflash_status status =
        af_inspect_target_open(what, &cli->arena, &inspection->target, err);
    if (status == ANYFLASH_E_DATA && cli->hint == NULL)
        cli->hint = "download the file again; `anyflash install --sha256 HASH` checks "
                    "its hash";
    return status;
}

static bool is_pure(const struct af_inspect_target *target)
{
    return target->count == 0 && target->wheel != NULL && target->wheel->has_name &&
           strcmp(target->wheel->name.platform, "any") == 0;
}

/*
 * The answer for all extensions: NO if one is NO, else UNKNOWN if one is
 * UNKNOWN. If there is none, a wheel of Python code only is right.
 */
static enum af_answer join_answers(const struct af_inspection *inspection)
{
    bool has_answer = inspection->target.count > 0 || inspection->is_pure;
    enum af_answer all = has_answer ? AF_YES : AF_NO;
    for (size_t i = 0; i < inspection->target.count; i++) {
        enum af_answer answer = inspection->proofs[i].answer;
        if (answer == AF_NO || all == AF_NO)
            all = AF_NO;
        else if (answer == AF_UNKNOWN)
            all = AF_UNKNOWN;
    }
    return all;
}

/* The proof that decides the answer: the first that says no, else the first that is unknown. */
static const struct af_proof *deciding(const struct af_inspection *inspection)
{
    const struct af_proof *open = NULL;
    for (size_t i = 0; i < inspection->target.count; i++) {
        const struct af_proof *proof = &inspection->proofs[i];
        if (proof->check_count > 0 && proof->answer == AF_NO)
            return proof;
        if (open == NULL && proof->check_count > 0 && proof->answer == AF_UNKNOWN)
            open = proof;
    }
    return open;
}

static enum anyflash_status prove(struct af_inspection *inspection, struct af_cli *cli,
                                  struct anyflash_error *err)
{
    struct af_inspect_target *target = &inspection->target;
    enum anyflash_status status = ANYFLASH_OK;
    inspection->proofs =
        af_arena_array(&cli->arena, target->count + 1, sizeof(struct af_proof));
    for (size_t i = 0; status == ANYFLASH_OK && i < target->count; i++) {
        status =
            af_prover_prove(&inspection->prover, target, i, NULL, &inspection->proofs[i], err);
        if (status == ANYFLASH_OK && af_interrupted())
            status = af_fail(err, ANYFLASH_E_TIMEOUT, "interrupted: the wheel was not read");
    }
    inspection->is_pure = is_pure(target);
    inspection->answer = join_answers(inspection);
    inspection->deciding = deciding(inspection);
    if (inspection->prover.has_scope)
        inspection->torch = inspection->prover.scope.torch.version;
    return status;
}

/* Compares what else a wheel contains; the proof has read the run paths. */
static void compare_content(struct af_inspection *inspection, struct af_cli *cli)
{
    struct af_content *content = &inspection->content;
    if (inspection->target.wheel != NULL)
        af_content_find(&inspection->target, &cli->arena, content);
    inspection->is_refused = content->unlisted_refused_count > 0;
    for (size_t i = 0; i < content->count; i++)
        inspection->is_refused |= content->findings[i].is_refused;
}

static void release(struct af_inspection *inspection)
{
    af_inspect_target_close(&inspection->target);
    af_prover_release(&inspection->prover);
    af_machines_release(&inspection->machines);
}

static enum anyflash_status check_words(struct af_cli *cli, struct anyflash_error *err)
{
    struct af_options *options = &cli->options;
    if (options->words.count != 1) {
        cli->hint = "give a wheel, its URL, a shared library, a folder, or the word "
                    "'installed'";
        return af_fail(err, ANYFLASH_E_ARGUMENT, "'inspect' takes exactly one argument");
    }
    const char *torch = options->values[AF_OPTION_TORCH];
    struct af_version version;
    if (torch != NULL && !af_version_parse(torch, strlen(torch), &version))
        return af_fail(err, ANYFLASH_E_ARGUMENT,
                       "--torch takes a version, for example 2.9.1+cu128");
    if (options->values[AF_OPTION_AGAINST] != NULL)
        options->values[AF_OPTION_PYTHON] = options->values[AF_OPTION_AGAINST];
    return ANYFLASH_OK;
}

static enum anyflash_status write_answer(struct af_cli *cli, struct af_inspection *inspection,
                                         struct anyflash_error *err)
{
    if (af_option_given(&cli->options, AF_OPTION_JSON))
        return af_cli_inspect_json(cli, inspection, err);
    if (af_option_given(&cli->options, AF_OPTION_QUIET))
        af_text_format(&cli->out, "%s\n", af_answer_text(inspection->answer));
    else {
        inspection->next = af_cli_inspect_next(cli, inspection);
        af_cli_inspect_view(cli, inspection);
    }
    return ANYFLASH_OK;
}

/*
 * Stores the conclusion about a wheel at an address, so that `plan` can use it; but not one for
 * another torch, processor or machine than those of this environment.
 */
static void store(struct af_cli *cli, const struct af_inspection *inspection)
{
    const struct af_options *options = &cli->options;
    struct af_environment_hash hash;
    struct anyflash_error why;
    struct af_state *state;
    const char *remark;
    if (!inspection->is_far || inspection->target.count == 0 ||
        !inspection->prover.options.is_here || options->values[AF_OPTION_TORCH] != NULL ||
        options->values[AF_OPTION_ARCH] != NULL)
        return;
    if (af_state_open(AF_STATE_CACHE, &cli->arena, &state, &remark, &why) != ANYFLASH_OK) {
        if (af_option_given(options, AF_OPTION_VERBOSE))
            af_cli_remark(cli, "%s", why.message);
        return;
    }
    const struct af_proof_conclusion conclusion =
        af_proof_conclude(&inspection->target, inspection->proofs, &cli->arena);
    af_probe_environment_hash(inspection->machine, &hash);
    const struct af_state_proof proof = {
        .address = options->words.items[0],
        .environment = hash.loading,
        .surroundings = conclusion.may_change ? hash.surroundings : NULL,
        .answer = conclusion.loads,
        .reason = conclusion.reason,
        .built_for = conclusion.built_for,
    };
    af_state_proof_put(state, &proof);
    af_state_close(state);
}

enum anyflash_status af_cmd_inspect(struct af_cli *cli, enum af_exit *exit_out,
                                    struct anyflash_error *err)
{
    struct af_inspection inspection = {0};
    enum anyflash_status status = check_words(cli, err);
    af_interrupt_catch(); /* so that what was unpacked is removed */
    if (status == ANYFLASH_OK)
        status = load(&inspection, cli, err);
    if (status == ANYFLASH_OK)
        status = open_target(&inspection, cli, err);
    if (status == ANYFLASH_OK)
        status = prove(&inspection, cli, err);
    if (status == ANYFLASH_OK)
        compare_content(&inspection, cli);
    const struct af_inspect_wheel *wheel = inspection.target.wheel;
    if (status == ANYFLASH_OK && wheel != NULL)
        af_cli_remark_advisory(cli, wheel->metadata_name, wheel->metadata_version);
    if (status == ANYFLASH_OK)
        status = write_answer(cli, &inspection, err);
    if (status == ANYFLASH_OK)
        store(cli, &inspection);
    *exit_out = inspection.answer == AF_YES ? AF_EXIT_YES : AF_EXIT_NO;
    release(&inspection);
    return status;
}
