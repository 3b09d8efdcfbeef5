/*
 * proved_wheels.c: proves the wheels of a catalog that are in a folder, or that were inspected
 * before. The proof of a wheel at a URL is about the bytes of the earlier inspection; an
 * installation proves the downloaded file again.
 */
#include "kit/proof/proved_wheels.h"

#include <string.h>

#include "kit/base/text.h"
#include "kit/base/url.h"
#include "kit/proof/prover.h"
#include "kit/proof/wheel_facts.h"
#include "kit/system/file.h"

#define FOLDER_FILES_MAX 4096u

/* A wheel whose facts can be proved. */
struct found {
    const struct af_catalog_wheel *wheel;
    const char *path;    /* its file; NULL: identified by its address */
    const char *address; /* the address under which it was inspected */
};

/* Where wheels are searched, and what they must fulfil. */
struct search {
    struct af_state *state;
    const char *from; /* a folder, or NULL */
    const struct af_machine *machine;
    const struct af_catalog *catalog;
    const struct af_fit_options *options;
    struct af_arena *arena;
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

/*
 * Finds the wheels to prove, best ranked first: at most AF_PROOF_PROVED_WHEELS_MAX, written to
 * `found`.
 */
static enum anyflash_status find_wheels(const struct search *search, struct found *found,
                                        size_t *count_out, struct anyflash_error *err)
{
    const struct af_catalog *catalog = search->catalog;
    struct af_arena *arena = search->arena;
    const char **files = NULL;
    const char **addresses = NULL;
    size_t file_count = 0;
    size_t address_count = 0;
    size_t count = 0;
    *count_out = 0;
    if (search->from != NULL && af_folder_list(arena, search->from, FOLDER_FILES_MAX, &files,
                                               &file_count, NULL, NULL) != ANYFLASH_OK)
        file_count = 0;
    af_facts_addresses(search->state, arena, &addresses, &address_count);
    if (file_count + address_count == 0)
        return ANYFLASH_OK;
    const struct af_catalog_wheel **wheels =
        af_arena_array(arena, catalog->count + 1, sizeof *wheels);
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
                   : af_fit_provable_wheels(catalog, search->machine, search->options, wheels,
                                            &count, arena, err);
    if (status != ANYFLASH_OK)
        return status;
    for (size_t i = 0; i < count && i < AF_PROOF_PROVED_WHEELS_MAX; i++) {
        found[i] = (struct found){.wheel = wheels[i]};
        if (has_name(files, file_count, wheels[i]->filename))
            found[i].path = af_path_join(arena, search->from, wheels[i]->filename);
        else
            found[i].address = find_address(addresses, address_count, wheels[i]->url);
        *count_out = i + 1;
    }
    return ANYFLASH_OK;
}

static const char *evidence_of(const struct af_proof *proof)
{
    for (size_t i = 0; i < proof->check_count; i++)
        if (proof->checks[i].answer == AF_NO)
            return proof->checks[i].evidence;
    return "a check says no";
}

/* Adds the proof of one library to the answer for its wheel. */
static void add_proof(struct af_arena *arena, const char *path, const struct af_proof *proof,
                      struct af_proved_wheel *known)
{
    if (proof->answer == AF_NO && known->loads != AF_NO)
        known->evidence = af_arena_format(arena, "'%s': %s", path, evidence_of(proof));
    if (proof->answer == AF_NO || known->loads == AF_NO)
        known->loads = AF_NO;
    else if (proof->loads != AF_YES)
        known->loads = AF_UNKNOWN;
    if (known->built_for == NULL)
        known->built_for = proof->built_for;
}

/* Proves the wheel from the facts that were stored when its address was inspected. */
static enum anyflash_status prove_address(struct af_prover *prover, struct af_state *state,
                                          const char *address, struct af_proved_wheel *known,
                                          struct anyflash_error *err)
{
    struct af_proof_known libraries;
    if (!af_facts_find(state, address, prover->arena, &libraries)) {
        known->loads = AF_UNKNOWN;
        return prover->arena->failed ? af_fail_memory(err) : ANYFLASH_OK;
    }
    for (size_t i = 0; i < libraries.count; i++) {
        const struct af_proof_known_library *library = &libraries.libraries[i];
        struct af_proof proof;
        enum anyflash_status status =
            af_prover_prove_facts(prover, &library->facts, known->wheel->torch, &proof, err);
        if (status != ANYFLASH_OK)
            return status;
        add_proof(prover->arena, library->path, &proof, known);
    }
    if (known->loads == AF_YES && !libraries.is_whole)
        known->loads = AF_UNKNOWN;
    return ANYFLASH_OK;
}

static enum anyflash_status prove_file(struct af_prover *prover, struct af_state *state,
                                       const char *path, struct af_proved_wheel *known,
                                       struct anyflash_error *err)
{
    struct af_inspect_target target = {.count = 0};
    enum anyflash_status status =
        af_inspect_target_open(path, state, prover->arena, &target, err);
    bool is_readable = status == ANYFLASH_OK;
    for (size_t i = 0; status == ANYFLASH_OK && i < target.count; i++) {
        const struct af_inspect_extension *extension = &target.extensions[i];
        struct af_proof proof;
        status = af_prover_prove(prover, &target, i, known->wheel->torch, &proof, err);
        is_readable = is_readable && extension->problem == NULL;
        if (status == ANYFLASH_OK && extension->problem == NULL)
            add_proof(prover->arena, extension->path, &proof, known);
    }
    if (known->loads == AF_YES && (status != ANYFLASH_OK || !is_readable || target.count == 0))
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
    const struct search search = {state, from, machine, catalog, options, arena};
    const struct af_prover_options prover_options = {.machine = machine, .is_here = true};
    struct af_prover prover = {.has_scope = false};
    size_t count;
    enum anyflash_status status = find_wheels(&search, found, &count, err);
    if (status != ANYFLASH_OK)
        return status;
    struct af_proved_wheel *known = af_arena_array(arena, count + 1, sizeof *known);
    if (known == NULL || arena->failed)
        return af_fail_memory(err);
    if (count > 0)
        status = af_prover_open(&prover_options, arena, &prover, err);
    for (size_t i = 0; status == ANYFLASH_OK && i < count; i++) {
        known[i] = (struct af_proved_wheel){.wheel = found[i].wheel, .loads = AF_YES};
        status = found[i].path != NULL
                     ? prove_file(&prover, state, found[i].path, &known[i], err)
                     : prove_address(&prover, state, found[i].address, &known[i], err);
    }
    af_prover_release(&prover);
    if (status != ANYFLASH_OK)
        return status;
    *known_out = known;
    *count_out = count;
    return ANYFLASH_OK;
}
