/*
 * cmd_inspect.c: `anyflash inspect WHAT`: opens it, works out which libraries a
 * Python process would have there, and proves each extension against them.
 */
#include "kit/cli/inspect_view.h"

#include <string.h>

#include "kit/base/url.h"
#include "kit/proof/torch_fitting.h"
#include "kit/system/file.h"

#define STARTS_MAX 32u /* starts that are kept of what is far away */

const struct af_machine *af_inspection_machine(const struct af_inspection *inspection)
{
    return inspection->machines.pointers[0];
}

/* The build of the table that stands for --torch. */
static enum anyflash_status choose_torch(struct af_cli *cli, struct af_inspection *inspection,
                                         struct anyflash_error *err)
{
    const struct af_machine *machine = af_inspection_machine(inspection);
    const char *arch = af_fact_text_or(&machine->platform.arch, "x86_64");
    const char *platform = af_arena_format(&cli->arena, "linux_%s", arch);
    if (platform == NULL)
        return af_fail_memory(err);
    return af_catalog_torch_symbols_choose(&inspection->symbols,
                                           cli->options.values[AF_OPTION_TORCH], platform,
                                           &cli->arena, &inspection->choice, err);
}

/* The libraries of the environment, of --torch, or none where neither can be known. */
static enum anyflash_status load_scope(struct af_cli *cli, struct af_inspection *inspection,
                                       struct anyflash_error *err)
{
    const struct af_machine *machine = af_inspection_machine(inspection);
    bool is_here = cli->options.machines.count == 0 && cli->options.givens.count == 0;
    enum anyflash_status status = ANYFLASH_OK;
    if (af_option_given(&cli->options, AF_OPTION_TORCH)) {
        status = choose_torch(cli, inspection, err);
        inspection->has_scope = status == ANYFLASH_OK && inspection->choice.build != NULL;
        if (inspection->has_scope)
            status = af_scope_of_torch(&inspection->symbols, &inspection->choice, machine,
                                       is_here, &inspection->scope, err);
    } else if (is_here) {
        inspection->has_scope = true;
        status = af_scope_installed(machine, &inspection->scope, err);
    }
    return status;
}

/* What is known of earlier times; without it everything is read. */
static enum anyflash_status open_state(struct af_cli *cli, struct af_inspection *inspection,
                                       struct anyflash_error *err)
{
    const char *remark;
    struct anyflash_error why;
    enum anyflash_status status =
        af_state_open(AF_STATE_FACTS, &cli->arena, &inspection->state, &remark, &why);
    if (status == ANYFLASH_E_NO_MEMORY)
        return af_fail_memory(err);
    if (status != ANYFLASH_OK && af_option_given(&cli->options, AF_OPTION_VERBOSE))
        af_cli_remark(cli, why.message);
    return ANYFLASH_OK;
}

static enum anyflash_status load(struct af_inspection *inspection, struct af_cli *cli,
                                 struct anyflash_error *err)
{
    enum anyflash_status status = af_machines_load(cli, &inspection->machines, err);
    if (status == ANYFLASH_OK) {
        status = af_tables_load(&inspection->tables, err);
        inspection->has_tables = status == ANYFLASH_OK;
    }
    if (status == ANYFLASH_OK) {
        status = af_catalog_torch_symbols_load(&inspection->symbols, err);
        inspection->has_symbols = status == ANYFLASH_OK;
    }
    if (status == ANYFLASH_OK)
        status = open_state(cli, inspection, err);
    return status == ANYFLASH_OK ? load_scope(cli, inspection, err) : status;
}

/* Whether the file lies in the folder of the torch that is installed there. */
static bool is_part_of_torch(const struct af_machine *machine, const char *file)
{
    const char *folder = af_fact_text_or(&machine->torch.path, NULL);
    size_t len = folder == NULL ? 0 : strlen(folder);
    return file != NULL && len > 0 && strncmp(file, folder, len) == 0 && file[len] == '/';
}

static enum anyflash_status prove_one(struct af_cli *cli, struct af_inspection *inspection,
                                      const struct af_inspect_extension *extension,
                                      struct af_proof *proof, struct anyflash_error *err)
{
    struct af_load load;
    const struct af_inspect_wheel *wheel = inspection->target.wheel;
    /* The wheel's tags speak of its modules, not of the libraries beside them. */
    bool has_tags = wheel != NULL && wheel->has_name && !extension->is_bundled;
    struct af_proof_question question = {
        .binary = &extension->facts.binary,
        .gpu_code = extension->facts.gpu_code,
        .kernels = extension->facts.kernels,
        .arch = cli->options.values[AF_OPTION_ARCH],
        .machine = af_inspection_machine(inspection),
        .tables = &inspection->tables,
        .stated_torch = wheel != NULL ? wheel->stated_torch : NULL,
        .wheel = has_tags ? &wheel->name : NULL,
        .is_torch = is_part_of_torch(af_inspection_machine(inspection), extension->file),
        .fitting_torch = af_proof_torch_fitting(&inspection->symbols, &inspection->tables,
                                                &extension->facts.binary),
    };
    enum anyflash_status status = ANYFLASH_OK;
    if (inspection->has_scope) {
        inspection->scope.takes_siblings = inspection->target.is_package;
        status = af_scope_load(&inspection->scope, &extension->facts.binary, extension->folder,
                               &cli->arena, &load, err);
        question.scope = &inspection->scope;
        question.load = &load;
    }
    return status == ANYFLASH_OK ? af_proof_make(&question, &cli->arena, proof, err) : status;
}

/* A wheel behind an address: only the parts that are asked for are fetched. */
static enum anyflash_status open_remote(struct af_cli *cli, struct af_inspection *inspection,
                                        const char *address, struct anyflash_error *err)
{
    struct af_source source = {0};
    struct af_place place = {0};
    const struct af_http_options options = {
        .allow_http = af_option_given(&cli->options, AF_OPTION_ALLOW_HTTP),
        .offline = af_option_given(&cli->options, AF_OPTION_OFFLINE)};
    const char *name = af_url_file_name(&cli->arena, address);
    if (name == NULL)
        return af_fail_memory(err);
    enum anyflash_status status = af_http_open(&options, &inspection->http, err);
    if (status == ANYFLASH_OK)
        status = af_remote_open(inspection->http, address, &source, err);
    else
        cli->hint = af_http_hint();
    if (status == ANYFLASH_OK)
        place = af_remote_place(&source, &cli->arena);
    if (status == ANYFLASH_E_UNSUPPORTED && inspection->http != NULL)
        status = af_remote_download(&options, address, &cli->arena, &source, &place, err);
    if (status == ANYFLASH_OK)
        status = af_inspect_target_open_source(&source, name, &place, inspection->state,
                                               &cli->arena, &inspection->target, err);
    return status;
}

static enum anyflash_status open_target(struct af_inspection *inspection, struct af_cli *cli,
                                        struct anyflash_error *err)
{
    const char *what = cli->options.words.items[0];
    if (af_url_is_http(what))
        return open_remote(cli, inspection, what, err);
    if (strcmp(what, "installed") == 0)
        return af_inspect_target_open_installed(af_inspection_machine(inspection),
                                                inspection->state, &cli->arena,
                                                &inspection->target, err);
    enum anyflash_status status =
        af_inspect_target_open(what, inspection->state, &cli->arena, &inspection->target, err);
    if (status == ANYFLASH_E_DATA && cli->hint == NULL)
        cli->hint = "get the file again; `--sha256` of `anyflash install` compares its hash";
    return status;
}

/*
 * From the start of its bytes: most that do not load show it there. What is
 * known whole is proved later, beside the libraries that it brings.
 */
static enum anyflash_status examine_start(struct af_cli *cli, struct af_inspection *inspection,
                                          size_t index, struct anyflash_error *err)
{
    struct af_inspect_extension *extension = &inspection->target.extensions[index];
    enum anyflash_status status =
        af_inspect_target_read_start(&inspection->target, index, &cli->arena, err);
    return status == ANYFLASH_OK && extension->has_facts && !extension->facts.binary.is_complete
               ? prove_one(cli, inspection, extension, &inspection->proofs[index], err)
               : status;
}

/* From all of its bytes, unless their start was enough. */
static enum anyflash_status examine(struct af_cli *cli, struct af_inspection *inspection,
                                    size_t index, struct anyflash_error *err)
{
    struct af_inspect_target *target = &inspection->target;
    struct af_inspect_extension *extension = &target->extensions[index];
    struct af_proof *proof = &inspection->proofs[index];
    if (proof->check_count > 0 && proof->answer == AF_NO)
        return ANYFLASH_OK;
    enum anyflash_status status = af_inspect_target_read(target, index, &cli->arena, err);
    if (status == ANYFLASH_OK &&
        !is_part_of_torch(af_inspection_machine(inspection), extension->file))
        status = af_inspect_target_read_kernels(target, index, &cli->arena, err);
    if (status == ANYFLASH_OK && extension->problem == NULL)
        return prove_one(cli, inspection, extension, proof, err);
    proof->answer = AF_NO;
    return status;
}

/*
 * After extension `index`, which does not load, the rest is not worth its
 * download; their starts alone prove no more than a no.
 */
static enum anyflash_status leave_others(struct af_cli *cli, struct af_inspection *inspection,
                                         size_t index, struct anyflash_error *err)
{
    struct af_inspect_target *target = &inspection->target;
    const char *why = af_arena_format(&cli->arena, "not read, because %s does not load",
                                      target->extensions[index].path);
    if (why == NULL)
        return af_fail_memory(err);
    for (size_t i = 0; i < target->count; i++) {
        struct af_proof *proof = &inspection->proofs[i];
        if (proof->check_count == 0 || proof->answer != AF_NO) {
            target->extensions[i].unread = why;
            proof->answer = AF_UNKNOWN;
        }
    }
    return ANYFLASH_OK;
}

/* Starts of what is far away: true with the first that does not load. */
static enum anyflash_status examine_starts(struct af_cli *cli, struct af_inspection *inspection,
                                           bool *stop_out, struct anyflash_error *err)
{
    const struct af_inspect_target *target = &inspection->target;
    enum anyflash_status status = ANYFLASH_OK;
    *stop_out = false;
    for (size_t i = 0; i < target->count && i < STARTS_MAX; i++) {
        status = examine_start(cli, inspection, i, err);
        *stop_out =
            inspection->proofs[i].check_count > 0 && inspection->proofs[i].loads == AF_NO;
        if (status == ANYFLASH_OK && *stop_out)
            status = leave_others(cli, inspection, i, err);
        if (status != ANYFLASH_OK || *stop_out)
            break;
    }
    return status;
}

bool af_inspection_is_pure(const struct af_inspection *inspection)
{
    const struct af_inspect_wheel *wheel = inspection->target.wheel;
    return inspection->target.count == 0 && wheel != NULL && wheel->has_name &&
           strcmp(wheel->name.platform, "any") == 0;
}

/*
 * All extensions together: one no is no, else one unknown unknown. Where there
 * is none, that is right for a wheel of Python code only.
 */
static enum af_answer join_answers(const struct af_inspection *inspection)
{
    bool has_answer = inspection->target.count > 0 || af_inspection_is_pure(inspection);
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

static enum anyflash_status prove(struct af_inspection *inspection, struct af_cli *cli,
                                  struct anyflash_error *err)
{
    const struct af_inspect_target *target = &inspection->target;
    enum anyflash_status status = ANYFLASH_OK;
    inspection->proofs =
        af_arena_array(&cli->arena, target->count + 1, sizeof(struct af_proof));
    if (inspection->proofs == NULL)
        return af_fail_memory(err);
    bool is_far = inspection->http != NULL;
    bool stop = false;
    if (is_far)
        status = examine_starts(cli, inspection, &stop, err);
    for (size_t i = 0; status == ANYFLASH_OK && !stop && i < target->count; i++) {
        if (!is_far)
            status = examine_start(cli, inspection, i, err);
        if (status == ANYFLASH_OK)
            status = examine(cli, inspection, i, err);
    }
    inspection->answer = join_answers(inspection);
    return status;
}

static void release(struct af_inspection *inspection)
{
    af_inspect_target_close(&inspection->target);
    af_state_close(inspection->state);
    if (inspection->http != NULL)
        af_http_close(inspection->http);
    if (inspection->has_scope)
        af_scope_release(&inspection->scope);
    if (inspection->has_symbols)
        af_catalog_torch_symbols_release(&inspection->symbols);
    if (inspection->has_tables)
        af_tables_release(&inspection->tables);
    af_machines_release(&inspection->machines);
}

static enum anyflash_status check_words(struct af_cli *cli, struct anyflash_error *err)
{
    struct af_options *options = &cli->options;
    if (options->words.count != 1) {
        cli->hint = "`anyflash inspect FILE` takes one file or folder";
        return af_fail(err, ANYFLASH_E_ARGUMENT, "'inspect' takes one word: what to inspect");
    }
    if (options->values[AF_OPTION_AGAINST] != NULL)
        options->values[AF_OPTION_PYTHON] = options->values[AF_OPTION_AGAINST];
    return ANYFLASH_OK;
}

static enum anyflash_status write_answer(struct af_cli *cli,
                                         const struct af_inspection *inspection,
                                         struct anyflash_error *err)
{
    if (af_option_given(&cli->options, AF_OPTION_JSON))
        return af_cli_inspect_json(cli, inspection, err);
    if (af_option_given(&cli->options, AF_OPTION_QUIET))
        af_text_format(&cli->out, "%s\n", af_answer_text(inspection->answer));
    else
        af_cli_inspect_view(cli, inspection);
    return af_cli_finish(cli, err);
}

enum anyflash_status af_cmd_inspect(struct af_cli *cli, enum af_exit *exit_out,
                                    struct anyflash_error *err)
{
    struct af_inspection inspection = {.has_scope = false};
    enum anyflash_status status = check_words(cli, err);
    if (status == ANYFLASH_OK)
        status = load(&inspection, cli, err);
    if (status == ANYFLASH_OK)
        status = open_target(&inspection, cli, err);
    if (status == ANYFLASH_OK)
        status = prove(&inspection, cli, err);
    if (status == ANYFLASH_OK)
        status = write_answer(cli, &inspection, err);
    if (status == ANYFLASH_OK)
        af_inspect_target_store_facts(&inspection.target, &cli->arena);
    *exit_out = inspection.answer == AF_YES ? AF_EXIT_YES : AF_EXIT_NO;
    release(&inspection);
    return status;
}
