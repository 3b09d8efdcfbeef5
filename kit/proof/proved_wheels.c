/*
 * proved_wheels.c: finds what is known of wheels, and proves it. A proof of bytes behind
 * an address is of what lay there when it was inspected: whoever installs
 * proves again what comes.
 */
#include "kit/proof/proved_wheels.h"

#include <string.h>

#include "kit/base/text.h"
#include "kit/base/url.h"
#include "kit/proof/inspect_target.h"
#include "kit/proof/proof.h"
#include "kit/proof/torch_fitting.h"
#include "kit/proof/wheel_facts.h"
#include "kit/system/file.h"

/* A wheel of which something is known. */
struct found {
    const struct af_catalog_wheel *wheel;
    const char *path;    /* its file; NULL: by its address */
    const char *address; /* as it was inspected */
};

/* What proofs rest on. Zero-initialised it is empty. */
struct prover {
    struct af_state *state;
    const struct af_machine *machine;
    struct af_arena *arena;
    struct af_tables tables;
    bool has_tables;
    struct af_catalog_torch_symbols symbols;
    bool has_symbols;
    struct af_scope scope;
};

static const char *find_address(const char *const *addresses, size_t count, const char *url)
{
    for (size_t i = 0; url != NULL && i < count; i++)
        if (af_url_equal(addresses[i], url))
            return addresses[i];
    return NULL;
}

static bool has_name(const char *const *names, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

/* The wheels to prove, best ranked first: at most AF_PROOF_PROVED_WHEELS_MAX of `found`. */
static enum anyflash_status find_wheels(struct prover *prover, const char *from,
                                        const struct af_catalog *catalog,
                                        const struct af_fit_options *options,
                                        struct found *found, size_t *count_out,
                                        struct anyflash_error *err)
{
    const char **files = NULL;
    const char **addresses = NULL;
    size_t file_count = 0;
    size_t address_count = 0;
    size_t count = 0;
    *count_out = 0;
    if (from != NULL && af_folder_list(prover->arena, from, 4096, &files, &file_count, NULL,
                                       NULL) != ANYFLASH_OK)
        file_count = 0;
    af_facts_addresses(prover->state, prover->arena, &addresses, &address_count);
    if (file_count + address_count == 0)
        return ANYFLASH_OK;
    const struct af_catalog_wheel **wheels =
        af_arena_array(prover->arena, catalog->count + 1, sizeof *wheels);
    if (wheels == NULL)
        return af_fail_memory(err);
    for (size_t i = 0; i < catalog->count; i++) {
        const struct af_catalog_wheel *wheel = &catalog->wheels[i];
        if (has_name(files, file_count, wheel->filename) ||
            find_address(addresses, address_count, wheel->url) != NULL)
            wheels[count++] = wheel;
    }
    enum anyflash_status status =
        count == 0 ? ANYFLASH_OK
                   : af_fit_provable_wheels(catalog, prover->machine, options, wheels, &count,
                                            prover->arena, err);
    if (status != ANYFLASH_OK)
        return status;
    for (size_t i = 0; i < count && i < AF_PROOF_PROVED_WHEELS_MAX; i++) {
        found[i] = (struct found){.wheel = wheels[i]};
        if (has_name(files, file_count, wheels[i]->filename))
            found[i].path = af_path_join(prover->arena, from, wheels[i]->filename);
        else
            found[i].address = find_address(addresses, address_count, wheels[i]->url);
        *count_out = i + 1;
    }
    return ANYFLASH_OK;
}

static enum anyflash_status start(struct prover *prover, struct anyflash_error *err)
{
    enum anyflash_status status = af_tables_load(&prover->tables, err);
    prover->has_tables = status == ANYFLASH_OK;
    if (status == ANYFLASH_OK) {
        status = af_catalog_torch_symbols_load(&prover->symbols, err);
        prover->has_symbols = status == ANYFLASH_OK;
    }
    if (status == ANYFLASH_OK)
        status = af_scope_installed(prover->machine, &prover->scope, err);
    prover->scope.takes_siblings = true;
    return status;
}

static void end(struct prover *prover)
{
    af_scope_release(&prover->scope);
    if (prover->has_symbols)
        af_catalog_torch_symbols_release(&prover->symbols);
    if (prover->has_tables)
        af_tables_release(&prover->tables);
}

static const char *evidence_of(const struct af_proof *proof)
{
    for (size_t i = 0; i < proof->check_count; i++)
        if (proof->checks[i].answer == AF_NO)
            return proof->checks[i].evidence;
    return "a check says no";
}

/* What one library adds to the answer of its wheel. */
static enum anyflash_status prove(struct prover *prover, const char *path, const char *folder,
                                  const struct af_facts *facts, struct af_proved_wheel *known,
                                  struct anyflash_error *err)
{
    struct af_load load;
    struct af_proof proof;
    struct af_proof_question question = {
        .binary = &facts->binary,
        .gpu_code = facts->gpu_code,
        .kernels = facts->kernels,
        .scope = &prover->scope,
        .load = &load,
        .machine = prover->machine,
        .tables = &prover->tables,
        .stated_torch = known->wheel->torch,
        .fitting_torch =
            af_proof_torch_fitting(&prover->symbols, &prover->tables, &facts->binary),
    };
    enum anyflash_status status =
        af_scope_load(&prover->scope, &facts->binary, folder, prover->arena, &load, err);
    if (status == ANYFLASH_OK)
        status = af_proof_make(&question, prover->arena, &proof, err);
    if (status != ANYFLASH_OK)
        return status;
    if (proof.answer == AF_NO && known->loads != AF_NO)
        known->evidence = af_arena_format(prover->arena, "'%s': %s", path, evidence_of(&proof));
    if (proof.answer == AF_NO || known->loads == AF_NO)
        known->loads = AF_NO;
    else if (proof.loads != AF_YES)
        known->loads = AF_UNKNOWN;
    if (known->built_for == NULL)
        known->built_for = proof.built_for;
    return ANYFLASH_OK;
}

static enum anyflash_status prove_address(struct prover *prover, const char *address,
                                          struct af_proved_wheel *known,
                                          struct anyflash_error *err)
{
    struct af_proof_known libraries;
    enum anyflash_status status = ANYFLASH_OK;
    if (!af_facts_find(prover->state, address, prover->arena, &libraries)) {
        known->loads = AF_UNKNOWN;
        return prover->arena->failed ? af_fail_memory(err) : ANYFLASH_OK;
    }
    for (size_t i = 0; status == ANYFLASH_OK && i < libraries.count; i++)
        status = prove(prover, libraries.libraries[i].path, NULL, &libraries.libraries[i].facts,
                       known, err);
    if (known->loads == AF_YES && !libraries.is_whole)
        known->loads = AF_UNKNOWN;
    return status;
}

static enum anyflash_status prove_file(struct prover *prover, const char *path,
                                       struct af_proved_wheel *known,
                                       struct anyflash_error *err)
{
    struct af_inspect_target target = {.count = 0};
    enum anyflash_status status =
        af_inspect_target_open(path, prover->state, prover->arena, &target, err);
    bool is_readable = status == ANYFLASH_OK;
    for (size_t i = 0; status == ANYFLASH_OK && i < target.count; i++) {
        const struct af_inspect_extension *extension = &target.extensions[i];
        status = af_inspect_target_read(&target, i, prover->arena, err);
        is_readable = is_readable && extension->problem == NULL;
        if (status == ANYFLASH_OK && extension->problem == NULL)
            status = prove(prover, extension->path, extension->folder, &extension->facts, known,
                           err);
    }
    if (known->loads == AF_YES && (!is_readable || target.count == 0))
        known->loads = AF_UNKNOWN;
    af_inspect_target_close(&target);
    return status == ANYFLASH_E_NO_MEMORY ? status : ANYFLASH_OK;
}

enum anyflash_status af_proof_proved_wheels_find(struct af_state *state, const char *from,
                                                 const struct af_machine *machine,
                                                 const struct af_catalog *catalog,
                                                 const struct af_fit_options *options,
                                                 struct af_arena *arena,
                                                 const struct af_proved_wheel **known_out,
                                                 size_t *count_out, struct anyflash_error *err)
{
    struct found found[AF_PROOF_PROVED_WHEELS_MAX + 1];
    struct prover prover = {.state = state, .machine = machine, .arena = arena};
    size_t count;
    enum anyflash_status status =
        find_wheels(&prover, from, catalog, options, found, &count, err);
    if (status != ANYFLASH_OK)
        return status;
    struct af_proved_wheel *known = af_arena_array(arena, count + 1, sizeof *known);
    if (known == NULL || arena->failed)
        return af_fail_memory(err);
    if (count > 0)
        status = start(&prover, err);
    for (size_t i = 0; status == ANYFLASH_OK && i < count; i++) {
        known[i] = (struct af_proved_wheel){.wheel = found[i].wheel, .loads = AF_YES};
        status = found[i].path != NULL
                     ? prove_file(&prover, found[i].path, &known[i], err)
                     : prove_address(&prover, found[i].address, &known[i], err);
    }
    end(&prover);
    if (status != ANYFLASH_OK)
        return status;
    *known_out = known;
    *count_out = count;
    return ANYFLASH_OK;
}
