/*
 * config_fetch.c: downloads the wheels of a lock and checks them: the hash, if
 * one is known; name and version in the metadata; and that the extensions load
 * on the machine that the pin is for. An interrupted download stays in the cache
 * and is resumed by the next run.
 */
#include "kit/cli/config_fetch.h"

#include <unistd.h>

#include "kit/base/sha256.h"
#include "kit/base/text.h"
#include "kit/catalog/index_page.h"
#include "kit/cli/environment_change.h"
#include "kit/install/fetch.h"
#include "kit/proof/prover.h"
#include "kit/system/http.h"
#include "kit/system/interrupt.h"

static const struct af_proof_check *first_no(const struct af_proof *proof)
{
    for (size_t i = 0; i < proof->check_count; i++)
        if (proof->checks[i].answer == AF_NO)
            return &proof->checks[i];
    return NULL;
}

/* What a file is proved for. */
struct proving {
    struct af_cli *cli;
    struct af_config_lock *lock;
    const struct af_pin *pin;
    struct af_prover prover;
    struct af_inspect_target target;
    bool is_noted; /* that something could not be proved */
};

static enum anyflash_status prove_extension(struct proving *proving, size_t index,
                                            struct anyflash_error *err)
{
    struct af_proof proof;
    const struct af_inspect_extension *extension = &proving->target.extensions[index];
    enum anyflash_status status =
        af_prover_prove(&proving->prover, &proving->target, index, NULL, &proof, err);
    if (status != ANYFLASH_OK)
        return status;
    const struct af_proof_check *no = first_no(&proof);
    if (extension->problem != NULL || proof.answer == AF_NO)
        return af_fail(err, ANYFLASH_E_UNSUPPORTED, "'%s' in '%s' would not load on '%s': %s",
                       extension->path, proving->pin->file, proving->pin->machine->name,
                       extension->problem != NULL ? extension->problem
                       : no == NULL               ? "a check says no"
                                                  : no->evidence);
    if (proof.answer == AF_UNKNOWN && !extension->is_bundled && !proving->is_noted) {
        af_config_lock_note(proving->lock,
                            "'%s' was not proved to load on '%s': `anyflash inspect` says "
                            "what is missing",
                            proving->pin->file, proving->pin->machine->name);
        proving->is_noted = true;
    }
    return ANYFLASH_OK;
}

static enum anyflash_status prove_all(struct proving *proving, struct anyflash_error *err)
{
    const struct af_options *options = &proving->cli->options;
    const struct af_machine *machine = proving->pin->machine;
    bool is_here = options->machines.count == 0 && options->givens.count == 0;
    const struct af_prover_options of = {
        .machine = machine,
        .is_here = is_here,
        .torch = is_here ? NULL : af_fact_text_or(&machine->torch.version, NULL),
        .reads_kernels = machine->gpus.count > 0};
    enum anyflash_status status =
        af_prover_open(&of, &proving->cli->arena, &proving->prover, err);
    for (size_t i = 0; status == ANYFLASH_OK && i < proving->target.count; i++)
        status = prove_extension(proving, i, err);
    af_prover_release(&proving->prover);
    return status;
}

/* Fails with UNSUPPORTED if an extension would not load on the pin's machine. */
static enum anyflash_status prove_file(struct af_cli *cli, struct af_config_lock *lock,
                                       const struct af_pin *pin, const char *path,
                                       struct anyflash_error *err)
{
    struct proving proving = {.cli = cli, .lock = lock, .pin = pin};
    enum anyflash_status status =
        af_inspect_target_open(path, &cli->arena, &proving.target, err);
    if (status != ANYFLASH_OK)
        return status;
    if (proving.target.count > 0)
        status = prove_all(&proving, err);
    af_inspect_target_close(&proving.target);
    return status;
}

static enum anyflash_status fetch_pin(struct af_cli *cli, struct af_cli_config_job *job,
                                      size_t index, struct af_run *run,
                                      struct anyflash_error *err)
{
    const struct af_pin *pin = &job->lock->pins[index];
    const struct af_step_wheel wheel = {.package = job->lock->package,
                                        .filename = pin->file,
                                        .url = pin->url,
                                        .sha256 = pin->facts.sha256};
    struct af_config_wheel_facts facts;
    struct af_fetched fetched;
    enum anyflash_status status = af_fetch(run, &wheel, NULL, &fetched, err);
    if (status == ANYFLASH_OK) {
        job->fetched[index] = fetched.path;
        status = af_cli_config_wheel_facts(cli, job, pin, fetched.path, &facts, err);
    }
    if (status != ANYFLASH_OK) {
        cli->hint = "the project is unchanged; `--write --from DIR` takes the wheel from a "
                    "folder instead";
        return status;
    }
    status = prove_file(cli, job->lock, pin, fetched.path, err);
    if (status == ANYFLASH_OK)
        af_config_lock_facts(job->lock, index, facts);
    return status;
}

/* Sets *sha256_out to the hash that the pin's index has for its file; NULL: none. */
static enum anyflash_status ask_index(struct af_cli *cli, const struct af_pin *pin,
                                      const char *package, const struct af_run *run,
                                      const char **sha256_out, struct anyflash_error *err)
{
    const struct af_http http = {.allow_http = run->allow_http, .offline = run->offline};
    struct af_http_answer answer;
    struct af_span page;
    bool found = false;
    const char *url = af_arena_format(&cli->arena, "%s%s/", pin->index, package);
    if (url == NULL)
        return af_fail_memory(err);
    enum anyflash_status status =
        af_http_get_bytes(&http, url, AF_INDEX_PAGE_ACCEPT, AF_INDEX_PAGE_BYTES_MAX,
                          &cli->arena, &page, &answer, err);
    if (status == ANYFLASH_OK)
        status = af_index_page_find(page, url, pin->file, &cli->arena, &found, sha256_out, err);
    if (status == ANYFLASH_OK && !found)
        status = af_fail(err, ANYFLASH_E_UNSUPPORTED, "the index %s does not list '%s'", url,
                         pin->file);
    return status;
}

/* The index must have exactly the decided file, with the hash that is known. */
static enum anyflash_status check_index(struct af_cli *cli, struct af_cli_config_job *job,
                                        size_t index, const struct af_run *run,
                                        struct anyflash_error *err)
{
    const struct af_pin *pin = &job->lock->pins[index];
    struct af_config_wheel_facts facts = pin->facts;
    const char *sha256 = NULL;
    enum anyflash_status status = ask_index(cli, pin, job->lock->package, run, &sha256, err);
    if (status == ANYFLASH_OK && facts.sha256 != NULL && sha256 != NULL &&
        !af_sha256_equal(facts.sha256, sha256))
        status =
            af_fail(err, ANYFLASH_E_DATA, "the index has '%s' with SHA-256 %s, expected %s",
                    pin->file, sha256, facts.sha256);
    if (status != ANYFLASH_OK) {
        cli->hint = "the project is unchanged; without `--source index` the wheel is locked "
                    "by its URL";
        return status;
    }
    facts.sha256 = facts.sha256 != NULL ? facts.sha256 : sha256;
    af_config_lock_facts(job->lock, index, facts);
    return ANYFLASH_OK;
}

enum anyflash_status af_cli_config_fetch(struct af_cli *cli, struct af_cli_config_job *job,
                                         struct anyflash_error *err)
{
    struct af_change change = {.cli = cli};
    af_interrupt_catch();
    struct af_run run = {.arena = &cli->arena,
                         .progress = af_cli_progress(&change),
                         .offline = af_option_given(&cli->options, AF_OPTION_OFFLINE),
                         .allow_http = af_option_given(&cli->options, AF_OPTION_ALLOW_HTTP)};
    enum anyflash_status status = ANYFLASH_OK;
    for (size_t i = 0; status == ANYFLASH_OK && i < job->lock->pin_count; i++) {
        const struct af_pin *pin = &job->lock->pins[i];
        if (pin->index != NULL)
            status = check_index(cli, job, i, &run, err);
        else if (pin->path != NULL && af_cli_config_wheel(cli, job, pin) == NULL)
            status = fetch_pin(cli, job, i, &run, err);
    }
    af_change_end(&change);
    return status;
}

void af_cli_config_fetch_end(struct af_cli_config_job *job)
{
    for (size_t i = 0; job->lock != NULL && i < job->lock->pin_count; i++)
        if (job->fetched[i] != NULL)
            unlink(job->fetched[i]);
}
