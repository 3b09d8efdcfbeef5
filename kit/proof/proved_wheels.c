/* proved_wheels.c: concludes whether a wheel loads, and proves the wheels of a folder. */
#include "kit/proof/proved_wheels.h"

#include <string.h>

#include "kit/base/text.h"
#include "kit/system/file.h"

#define FOLDER_FILES_MAX 4096u

/* Whether the answer NO stays the same with other GPUs and more libraries. */
static bool is_final(const struct af_proof *proof)
{
    return proof->loads == AF_NO && proof->missing_libraries.count == 0;
}

/* Adds the proof of one library to the conclusion about its wheel. */
static void add_proof(struct af_arena *arena, const char *path, const struct af_proof *proof,
                      struct af_proof_conclusion *conclusion)
{
    if (proof->answer == AF_NO) {
        bool is_first = conclusion->loads != AF_NO;
        conclusion->may_change = (is_first || conclusion->may_change) && !is_final(proof);
        if (is_first)
            conclusion->reason =
                af_arena_format(arena, "'%s': %s", path, af_proof_objection(proof));
        conclusion->loads = AF_NO;
    } else if (conclusion->loads == AF_YES && proof->loads != AF_YES) {
        conclusion->loads = AF_UNKNOWN;
    }
    if (conclusion->built_for == NULL)
        conclusion->built_for = proof->built_for;
}

struct af_proof_conclusion af_proof_conclude(const struct af_inspect_target *target,
                                             const struct af_proof *proofs,
                                             struct af_arena *arena)
{
    struct af_proof_conclusion conclusion = {.loads = target->count > 0 ? AF_YES : AF_UNKNOWN};
    bool all_read = true;
    for (size_t i = 0; i < target->count; i++) {
        all_read = all_read && target->extensions[i].problem == NULL;
        if (target->extensions[i].problem == NULL)
            add_proof(arena, target->extensions[i].path, &proofs[i], &conclusion);
    }
    if (conclusion.loads == AF_YES && !all_read)
        conclusion.loads = AF_UNKNOWN;
    return conclusion;
}

/* Proves the file of the wheel; one that cannot be read proves nothing. */
static enum anyflash_status prove_file(struct af_prover *prover, const char *path,
                                       struct af_proved_wheel *known,
                                       struct anyflash_error *err)
{
    struct af_inspect_target target = {.count = 0};
    struct af_proof_conclusion conclusion = {.loads = AF_UNKNOWN};
    enum anyflash_status status = af_inspect_target_open(path, prover->arena, &target, err);
    struct af_proof *proofs = af_arena_array(prover->arena, target.count + 1, sizeof *proofs);
    if (proofs == NULL)
        status = af_fail_memory(err);
    for (size_t i = 0; status == ANYFLASH_OK && i < target.count; i++)
        status = af_prover_prove(prover, &target, i, known->wheel->torch, &proofs[i], err);
    if (status == ANYFLASH_OK)
        conclusion = af_proof_conclude(&target, proofs, prover->arena);
    known->loads = conclusion.loads;
    known->evidence = conclusion.reason;
    known->built_for = conclusion.built_for;
    af_inspect_target_close(&target);
    return status == ANYFLASH_E_NO_MEMORY ? status : ANYFLASH_OK;
}

static bool has_name(const char *const *names, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

/* The wheels of the catalog whose files are in the folder; the array has space for all. */
static const struct af_catalog_wheel **list_wheels(const struct af_catalog *catalog,
                                                   const char *from, struct af_arena *arena,
                                                   size_t *count_out)
{
    const char **files = NULL;
    size_t file_count = 0;
    const struct af_catalog_wheel **wheels =
        af_arena_array(arena, catalog->count + 1, sizeof *wheels);
    *count_out = 0;
    if (af_folder_list(arena, from, FOLDER_FILES_MAX, &files, &file_count, NULL, NULL) !=
        ANYFLASH_OK)
        file_count = 0;
    for (size_t i = 0; wheels != NULL && file_count > 0 && i < catalog->count; i++)
        if (has_name(files, file_count, catalog->wheels[i].filename))
            wheels[(*count_out)++] = &catalog->wheels[i];
    return wheels;
}

enum anyflash_status af_proof_folder_wheels(const char *from, const struct af_machine *machine,
                                            const struct af_catalog *catalog,
                                            const struct af_fit_options *options,
                                            struct af_arena *arena,
                                            struct af_proved_wheel **known_out,
                                            size_t *count_out, struct anyflash_error *err)
{
    const struct af_prover_options prover_options = {.machine = machine, .is_here = true};
    struct af_prover prover = {.has_scope = false};
    size_t count;
    const struct af_catalog_wheel **wheels = list_wheels(catalog, from, arena, &count);
    enum anyflash_status status = arena->failed ? af_fail_memory(err) : ANYFLASH_OK;
    if (status == ANYFLASH_OK && count > 0)
        status = af_fit_provable_wheels(catalog, machine, options, wheels, &count, arena, err);
    if (status != ANYFLASH_OK)
        return status;
    count = count < AF_PROOF_FOLDER_WHEELS_MAX ? count : AF_PROOF_FOLDER_WHEELS_MAX;
    struct af_proved_wheel *known = af_arena_array(arena, count + 1, sizeof *known);
    if (known == NULL)
        return af_fail_memory(err);
    if (count > 0)
        status = af_prover_open(&prover_options, arena, &prover, err);
    for (size_t i = 0; status == ANYFLASH_OK && i < count; i++) {
        const char *path = af_path_join(arena, from, wheels[i]->filename);
        known[i].wheel = wheels[i];
        status = path == NULL ? af_fail_memory(err) : prove_file(&prover, path, &known[i], err);
    }
    af_prover_release(&prover);
    *known_out = known;
    *count_out = status == ANYFLASH_OK ? count : 0;
    return status;
}
