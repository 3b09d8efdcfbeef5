/*
 * cmd_inspect.c: `anyflash inspect WHAT`: opens it, works out which libraries a
 * Python process would have there, proves each extension and shows the proofs.
 */
#include <string.h>

#include "base/file.h"
#include "cli/gpu_code_view.h"
#include "cli/json_parts.h"
#include "cli/load.h"
#include "cli/page.h"
#include "cli/proof_view.h"
#include "fit/proof.h"
#include "fit/tables.h"
#include "fit/torch_fitting.h"
#include "run/remote.h"
#include "run/subject.h"

#define STARTS_MAX 32u /* starts that are kept of what is far away */

/* All that one inspection holds. Zero-initialised it is empty. */
struct inspection {
    struct af_machines machines;
    struct af_tables tables;
    bool has_tables;
    struct af_torch_symbols symbols;
    bool has_symbols;
    struct af_torch_choice choice; /* of --torch; without it empty */
    struct af_scope scope;
    bool has_scope;
    struct af_subject subject;
    struct af_http *http;    /* NULL: nothing is far away */
    struct af_proof *proofs; /* one an extension; check_count 0: could not be read */
    enum af_answer answer;   /* of all extensions together */
};

static const struct af_machine *place_of(const struct inspection *inspection)
{
    return inspection->machines.pointers[0];
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

/* The build of the table that stands for --torch. */
static enum anyflash_status choose_torch(struct af_cli *cli, struct inspection *inspection,
                                         struct anyflash_error *err)
{
    const struct af_machine *machine = place_of(inspection);
    const char *arch = af_fact_text_or(&machine->platform.arch, "x86_64");
    const char *platform = af_arena_format(&cli->arena, "linux_%s", arch);
    if (platform == NULL)
        return af_fail_memory(err);
    return af_torch_symbols_choose(&inspection->symbols, cli->options.values[AF_OPTION_TORCH],
                                   platform, &cli->arena, &inspection->choice, err);
}

/* The libraries of the environment, of --torch, or none where neither can be known. */
static enum anyflash_status load_scope(struct af_cli *cli, struct inspection *inspection,
                                       struct anyflash_error *err)
{
    const struct af_machine *machine = place_of(inspection);
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

/* Machine, tables and the libraries in scope. */
static enum anyflash_status load_place(struct af_cli *cli, struct inspection *inspection,
                                       struct anyflash_error *err)
{
    enum anyflash_status status = af_machines_load(cli, &inspection->machines, err);
    if (status == ANYFLASH_OK) {
        status = af_tables_load(&inspection->tables, err);
        inspection->has_tables = status == ANYFLASH_OK;
    }
    if (status == ANYFLASH_OK) {
        status = af_torch_symbols_load(&inspection->symbols, err);
        inspection->has_symbols = status == ANYFLASH_OK;
    }
    return status == ANYFLASH_OK ? load_scope(cli, inspection, err) : status;
}

/* Whether the file lies in the folder of the torch that is installed there. */
static bool is_part_of_torch(const struct af_machine *machine, const char *file)
{
    const char *folder = af_fact_text_or(&machine->torch.path, NULL);
    size_t len = folder == NULL ? 0 : strlen(folder);
    return file != NULL && len > 0 && strncmp(file, folder, len) == 0 && file[len] == '/';
}

static enum anyflash_status prove_one(struct af_cli *cli, struct inspection *inspection,
                                      const struct af_subject_extension *extension,
                                      struct af_proof *proof, struct anyflash_error *err)
{
    struct af_load load;
    const struct af_subject_wheel *wheel = inspection->subject.wheel;
    struct af_proof_question question = {
        .binary = &extension->binary,
        .gpu_code = extension->gpu_code,
        .kernels = extension->kernels,
        .arch = cli->options.values[AF_OPTION_ARCH],
        .machine = place_of(inspection),
        .tables = &inspection->tables,
        .stated_torch = wheel != NULL ? wheel->stated_torch : NULL,
        .wheel = wheel != NULL && wheel->has_name ? &wheel->name : NULL,
        .is_torch = is_part_of_torch(place_of(inspection), extension->file),
        .fitting_torch =
            af_torch_fitting(&inspection->symbols, &inspection->tables, &extension->binary),
    };
    enum anyflash_status status = ANYFLASH_OK;
    if (inspection->has_scope) {
        inspection->scope.takes_siblings = inspection->subject.is_package;
        status = af_scope_load(&inspection->scope, &extension->binary, extension->folder,
                               &cli->arena, &load, err);
        question.scope = &inspection->scope;
        question.load = &load;
    }
    return status == ANYFLASH_OK ? af_proof_make(&question, &cli->arena, proof, err) : status;
}

/* The file name at the end of an address, "%2B" decoded. */
static const char *name_of_address(struct af_cli *cli, const char *address)
{
    size_t len = strcspn(address, "?#");
    char *name = af_arena_text_n(&cli->arena, address, len);
    if (name == NULL)
        return NULL;
    name += af_path_name(name) - name;
    char *to = name;
    for (const char *at = name; *at != '\0'; at++) {
        bool is_plus = strncmp(at, "%2B", 3) == 0 || strncmp(at, "%2b", 3) == 0;
        *to++ = is_plus ? '+' : *at;
        at += is_plus ? 2 : 0;
    }
    *to = '\0';
    return name;
}

/* A wheel behind an address: only the parts that are asked for are fetched. */
static enum anyflash_status open_remote(struct af_cli *cli, struct inspection *inspection,
                                        const char *address, struct anyflash_error *err)
{
    struct af_source source = {0};
    const struct af_http_options options = {
        .allow_http = af_option_given(&cli->options, AF_OPTION_ALLOW_HTTP),
        .offline = af_option_given(&cli->options, AF_OPTION_OFFLINE)};
    const char *name = name_of_address(cli, address);
    if (name == NULL)
        return af_fail_memory(err);
    enum anyflash_status status = af_http_open(&options, &inspection->http, err);
    if (status == ANYFLASH_OK)
        status = af_remote_open(inspection->http, address, &source, err);
    else
        cli->hint = af_http_hint();
    if (status == ANYFLASH_E_UNSUPPORTED && inspection->http != NULL)
        status = af_remote_download(&options, address, &cli->arena, &source, err);
    if (status == ANYFLASH_OK)
        status = af_subject_open_source(&source, name, &cli->arena, &inspection->subject, err);
    return status;
}

static enum anyflash_status open_subject(struct af_cli *cli, struct inspection *inspection,
                                         struct anyflash_error *err)
{
    const char *what = cli->options.words.items[0];
    if (af_http_is_url(what))
        return open_remote(cli, inspection, what, err);
    if (strcmp(what, "installed") == 0)
        return af_subject_installed(place_of(inspection), &cli->arena, &inspection->subject,
                                    err);
    return af_subject_open(what, &cli->arena, &inspection->subject, err);
}

/* From the start of its bytes: most that do not load show it there. */
static enum anyflash_status examine_start(struct af_cli *cli, struct inspection *inspection,
                                          size_t index, struct anyflash_error *err)
{
    struct af_subject_extension *extension = &inspection->subject.extensions[index];
    enum anyflash_status status =
        af_subject_read_start(&inspection->subject, index, &cli->arena, err);
    return status == ANYFLASH_OK && extension->has_facts
               ? prove_one(cli, inspection, extension, &inspection->proofs[index], err)
               : status;
}

/* From all of its bytes, unless their start was enough. */
static enum anyflash_status examine(struct af_cli *cli, struct inspection *inspection,
                                    size_t index, struct anyflash_error *err)
{
    struct af_subject *subject = &inspection->subject;
    struct af_subject_extension *extension = &subject->extensions[index];
    struct af_proof *proof = &inspection->proofs[index];
    if (extension->has_facts && proof->answer == AF_NO)
        return ANYFLASH_OK;
    enum anyflash_status status = af_subject_read(subject, index, &cli->arena, err);
    if (status == ANYFLASH_OK && !is_part_of_torch(place_of(inspection), extension->file))
        status = af_subject_read_kernels(subject, index, &cli->arena, err);
    if (status == ANYFLASH_OK && extension->problem == NULL)
        return prove_one(cli, inspection, extension, proof, err);
    proof->answer = AF_NO;
    return status;
}

/*
 * After extension `index`, which does not load, the rest is not worth its
 * download; their starts alone prove no more than a no.
 */
static enum anyflash_status leave_others(struct af_cli *cli, struct inspection *inspection,
                                         size_t index, struct anyflash_error *err)
{
    struct af_subject *subject = &inspection->subject;
    const char *why = af_arena_format(&cli->arena, "not read, because %s does not load",
                                      subject->extensions[index].path);
    if (why == NULL)
        return af_fail_memory(err);
    for (size_t i = 0; i < subject->count; i++) {
        struct af_proof *proof = &inspection->proofs[i];
        if (proof->check_count == 0 || proof->answer != AF_NO) {
            subject->extensions[i].unread = why;
            proof->answer = AF_UNKNOWN;
        }
    }
    return ANYFLASH_OK;
}

/* Starts of what is far away: true with the first that does not load. */
static enum anyflash_status examine_starts(struct af_cli *cli, struct inspection *inspection,
                                           bool *stop_out, struct anyflash_error *err)
{
    const struct af_subject *subject = &inspection->subject;
    enum anyflash_status status = ANYFLASH_OK;
    *stop_out = false;
    for (size_t i = 0; i < subject->count && i < STARTS_MAX; i++) {
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

/* All extensions together: one no is no, else one unknown unknown. */
static enum af_answer join_answers(const struct inspection *inspection)
{
    enum af_answer all = inspection->subject.count > 0 ? AF_YES : AF_NO;
    for (size_t i = 0; i < inspection->subject.count; i++) {
        enum af_answer answer = inspection->proofs[i].answer;
        if (answer == AF_NO || all == AF_NO)
            all = AF_NO;
        else if (answer == AF_UNKNOWN)
            all = AF_UNKNOWN;
    }
    return all;
}

static enum anyflash_status prove_all(struct af_cli *cli, struct inspection *inspection,
                                      struct anyflash_error *err)
{
    const struct af_subject *subject = &inspection->subject;
    enum anyflash_status status = ANYFLASH_OK;
    inspection->proofs =
        af_arena_array(&cli->arena, subject->count + 1, sizeof(struct af_proof));
    if (inspection->proofs == NULL)
        return af_fail_memory(err);
    bool is_far = inspection->http != NULL;
    bool stop = false;
    if (is_far)
        status = examine_starts(cli, inspection, &stop, err);
    for (size_t i = 0; status == ANYFLASH_OK && !stop && i < subject->count; i++) {
        if (!is_far)
            status = examine_start(cli, inspection, i, err);
        if (status == ANYFLASH_OK)
            status = examine(cli, inspection, i, err);
    }
    inspection->answer = join_answers(inspection);
    return status;
}

static const char *place_text(struct af_cli *cli, const struct inspection *inspection)
{
    const struct af_machine *machine = place_of(inspection);
    const char *torch = af_fact_text_or(&machine->torch.version, NULL);
    if (af_option_given(&cli->options, AF_OPTION_TORCH))
        torch = inspection->choice.version != NULL ? inspection->choice.version
                                                   : cli->options.values[AF_OPTION_TORCH];
    return af_arena_format(&cli->arena, "%s: Python %s, %s%s",
                           af_fact_text_or(&machine->python.prefix, machine->name),
                           af_fact_text_or(&machine->python.version, "not known"),
                           torch != NULL ? "torch " : "no torch", torch != NULL ? torch : "");
}

/* Of a wheel; what is read twice counts once. */
static uint64_t bytes_read(const struct af_subject *subject)
{
    const struct af_source *source = subject->source;
    return source->bytes_read < source->size_bytes ? source->bytes_read : source->size_bytes;
}

/* What the wheel says about itself, and where it lies. */
static void view_wheel(struct af_page *page, const struct inspection *inspection)
{
    const struct af_subject *subject = &inspection->subject;
    const struct af_subject_wheel *wheel = subject->wheel;
    if (wheel == NULL)
        return;
    af_page_format(page, 9, "wheel", AF_TONE_PLAIN, "%s", wheel->filename);
    if (subject->zip->members != NULL && inspection->http != NULL)
        af_page_format(page, 9, "", AF_TONE_PLAIN, "%.1f of %.1f MB were fetched",
                       (double)bytes_read(subject) / 1e6,
                       (double)subject->source->size_bytes / 1e6);
    for (size_t i = 0; i < wheel->lies.count; i++)
        af_page_format(page, 9, "", AF_TONE_BAD, "it lies: %s", wheel->lies.items[i]);
}

/* GPU code is shown of what is alone on the page or with `all`, if it is of use here. */
static void view_extension(struct af_page *page, const struct af_subject_extension *extension,
                           const struct af_proof *proof, bool alone, bool all)
{
    af_proof_view(page, extension->path, proof, alone, all);
    if (extension->gpu_code != NULL && (all || (alone && proof->loads != AF_NO)))
        af_gpu_code_show(page, 2, extension->gpu_code, extension->kernels);
}

static void view(struct af_cli *cli, const struct inspection *inspection)
{
    struct af_page page = {&cli->out, AF_PAGE_COLUMNS, af_cli_color(cli)};
    const struct af_subject *subject = &inspection->subject;
    bool all = af_option_given(&cli->options, AF_OPTION_VERBOSE);
    af_page_format(&page, 9, "against", AF_TONE_PLAIN, "%s", place_text(cli, inspection));
    view_wheel(&page, inspection);
    if (inspection->choice.note != NULL)
        af_page_add(&page, 9, "", AF_TONE_PLAIN, inspection->choice.note);
    if (subject->count == 0)
        af_page_add(&page, 0, "", AF_TONE_PLAIN, "no compiled extension is in it");
    for (size_t i = 0; i < subject->count; i++) {
        const struct af_subject_extension *extension = &subject->extensions[i];
        if (extension->unread != NULL) {
            af_page_format(&page, 2, "", AF_TONE_PLAIN, "%s: %s", extension->path,
                           extension->unread);
            continue;
        }
        if (extension->problem == NULL) {
            view_extension(&page, extension, &inspection->proofs[i], subject->count == 1, all);
            continue;
        }
        af_page_gap(&page);
        af_page_add(&page, 0, "", AF_TONE_STRONG, extension->path);
        af_page_format(&page, 2, "  ", AF_TONE_BAD, "does not load: %s", extension->problem);
    }
}

static json_t *extension_json(const struct af_subject_extension *extension,
                              const struct af_proof *proof)
{
    bool is_unread = extension->unread != NULL;
    if (extension->problem == NULL && !is_unread)
        return af_proof_json(extension->path, proof,
                             extension->gpu_code != NULL
                                 ? af_gpu_code_json(extension->gpu_code, extension->kernels)
                                 : json_null());
    return json_pack("{s:s, s:s, s:s, s:[], s:[], s:n}", "name", extension->path, "verdict",
                     is_unread ? "unknown" : "no", "problem",
                     is_unread ? extension->unread : extension->problem, "checks", "missing",
                     "gpu_code");
}

/* What a wheel says about itself, or null. */
static json_t *wheel_json(const struct af_subject *subject)
{
    const struct af_subject_wheel *wheel = subject->wheel;
    if (wheel == NULL)
        return json_null();
    json_t *lies = json_array();
    for (size_t i = 0; i < wheel->lies.count; i++)
        lies = af_json_append(lies, json_string(wheel->lies.items[i]));
    return json_pack("{s:s, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o}", "filename",
                     wheel->filename, "size_bytes", (json_int_t)subject->source->size_bytes,
                     "bytes_read", (json_int_t)bytes_read(subject), "metadata_name",
                     af_json_text(wheel->metadata_name), "metadata_version",
                     af_json_text(wheel->metadata_version), "tag", af_json_text(wheel->tag),
                     "needs_torch", af_json_text(wheel->needs_torch), "stated_torch",
                     af_json_text(wheel->stated_torch), "lies", lies);
}

/* The torch that the proofs are about; NULL: none is known. */
static const char *torch_of(const struct inspection *inspection)
{
    return inspection->has_scope ? inspection->scope.torch.version : NULL;
}

static enum anyflash_status write_json(struct af_cli *cli, const struct inspection *inspection,
                                       struct anyflash_error *err)
{
    const struct af_subject *subject = &inspection->subject;
    json_t *list = json_array();
    for (size_t i = 0; i < subject->count; i++)
        list = af_json_append(list,
                              extension_json(&subject->extensions[i], &inspection->proofs[i]));
    return af_cli_json_take(
        cli,
        json_pack("{s:s, s:s, s:o, s:o, s:s?, s:s?, s:o, s:o}", "schema", "anyflash-inspect/1",
                  "name", subject->name, "wheel", wheel_json(subject), "machine",
                  af_json_machine_name(place_of(inspection)), "torch", torch_of(inspection),
                  "torch_note", inspection->choice.note, "verdict",
                  af_json_answer(inspection->answer), "extensions", list),
        err);
}

static enum anyflash_status write_answer(struct af_cli *cli,
                                         const struct inspection *inspection,
                                         struct anyflash_error *err)
{
    if (af_option_given(&cli->options, AF_OPTION_JSON))
        return write_json(cli, inspection, err);
    if (af_option_given(&cli->options, AF_OPTION_QUIET))
        af_text_format(&cli->out, "%s\n", af_answer_text(inspection->answer));
    else
        view(cli, inspection);
    return af_cli_finish(cli, err);
}

static void release(struct inspection *inspection)
{
    af_subject_close(&inspection->subject);
    if (inspection->http != NULL)
        af_http_close(inspection->http);
    if (inspection->has_scope)
        af_scope_release(&inspection->scope);
    if (inspection->has_symbols)
        af_torch_symbols_release(&inspection->symbols);
    if (inspection->has_tables)
        af_tables_release(&inspection->tables);
    af_machines_release(&inspection->machines);
}

enum anyflash_status af_cmd_inspect(struct af_cli *cli, enum af_exit *exit_out,
                                    struct anyflash_error *err)
{
    struct inspection inspection = {.has_scope = false};
    enum anyflash_status status = check_words(cli, err);
    if (status == ANYFLASH_OK)
        status = load_place(cli, &inspection, err);
    if (status == ANYFLASH_OK)
        status = open_subject(cli, &inspection, err);
    if (status == ANYFLASH_OK)
        status = prove_all(cli, &inspection, err);
    if (status == ANYFLASH_OK)
        status = write_answer(cli, &inspection, err);
    *exit_out = inspection.answer == AF_YES ? AF_EXIT_YES : AF_EXIT_NO;
    release(&inspection);
    return status;
}
