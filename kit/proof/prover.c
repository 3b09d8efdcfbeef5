/*
 * prover.c: opens, once for all extensions, what a proof compares an extension with, and runs
 * the proofs of proof.h with it. Concludes from the proofs of a wheel's extensions what is to
 * be said of the wheel.
 */
#include "kit/proof/prover.h"

#include <string.h>

#include "kit/base/text.h"
#include "kit/proof/proof_torch.h"
#include "kit/system/file.h"

#define FOLDER_FILES_MAX 4096u

/* Finds the build in the table for options.torch. */
static void choose_torch(struct af_prover *prover)
{
    const char *arch = af_fact_text_or(&prover->options.machine->platform.arch, "x86_64");
    const char *platform = af_arena_format(prover->arena, "linux_%s", arch);
    af_catalog_torch_symbols_choose(&prover->symbols, prover->options.torch, platform,
                                    prover->arena, &prover->choice, NULL);
}

/* Opens the libraries of the environment or of options.torch; none if neither is known. */
static void open_scope(struct af_prover *prover)
{
    const struct af_prover_options *options = &prover->options;
    if (options->torch == NULL) {
        prover->has_scope = options->is_here;
        if (options->is_here)
            af_scope_installed(options->machine, &prover->scope);
        return;
    }
    choose_torch(prover);
    prover->has_scope = prover->choice.build != NULL;
    if (prover->has_scope)
        af_scope_of_torch(&prover->symbols, &prover->choice, options->machine, options->is_here,
                          &prover->scope);
}

enum anyflash_status af_prover_open(const struct af_prover_options *options,
                                    struct af_arena *arena, struct af_prover *out,
                                    struct anyflash_error *err)
{
    *out = (struct af_prover){.options = *options, .arena = arena};
    enum anyflash_status status = af_catalog_torch_symbols_load(&out->symbols, err);
    if (status != ANYFLASH_OK)
        return status;
    out->has_symbols = true;
    open_scope(out);
    return ANYFLASH_OK;
}

/* Whether the file is in the folder of the installed torch. */
static bool is_part_of_torch(const struct af_machine *machine, const char *file)
{
    const char *folder = af_fact_text_or(&machine->torch.path, NULL);
    size_t len = folder == NULL ? 0 : strlen(folder);
    return file != NULL && len > 0 && strncmp(file, folder, len) == 0 && file[len] == '/';
}

/* Adds what the session knows to the question, and makes the proof. */
static void ask(struct af_prover *prover, const struct af_facts *facts, const char *folder,
                struct af_proof_question *question, struct af_proof *out)
{
    struct af_load load;
    question->binary = &facts->binary;
    question->gpu_code = facts->gpu_code;
    question->kernels = facts->kernels;
    question->machine = prover->options.machine;
    question->arch = prover->options.arch;
    question->fitting_torch = af_proof_torch_fitting(&prover->symbols, &facts->binary);
    if (prover->has_scope) {
        af_scope_load(&prover->scope, &facts->binary, folder, prover->arena, &load);
        question->scope = &prover->scope;
        question->load = &load;
    }
    af_proof_make(question, prover->arena, out);
}

/* Proves an extension whose facts have been read. */
static void prove_read(struct af_prover *prover, const struct af_inspect_target *target,
                       const struct af_inspect_extension *extension, const char *stated_torch,
                       struct af_proof *out)
{
    const struct af_inspect_wheel *wheel = target->wheel;
    /* The wheel's tags describe its modules, not the libraries that it bundles. */
    bool has_tags = wheel != NULL && wheel->has_name && !extension->is_bundled;
    struct af_proof_question question = {
        .stated_torch =
            stated_torch != NULL || wheel == NULL ? stated_torch : wheel->stated_torch,
        .wheel = has_tags ? &wheel->name : NULL,
        .is_torch = is_part_of_torch(prover->options.machine, extension->file),
    };
    prover->scope.takes_siblings = target->is_package || prover->options.in_packages;
    ask(prover, &extension->facts, extension->folder, &question, out);
}

enum anyflash_status af_prover_prove(struct af_prover *prover, struct af_inspect_target *target,
                                     size_t index, const char *stated_torch,
                                     struct af_proof *out, struct anyflash_error *err)
{
    const struct af_inspect_extension *extension = &target->extensions[index];
    enum anyflash_status status = af_inspect_target_read(target, index, prover->arena, err);
    if (status == ANYFLASH_OK && prover->options.reads_kernels &&
        !is_part_of_torch(prover->options.machine, extension->file))
        af_inspect_target_read_kernels(target, index, prover->arena);
    *out = (struct af_proof){.answer = AF_NO};
    if (status == ANYFLASH_OK && extension->problem == NULL)
        prove_read(prover, target, extension, stated_torch, out);
    return status;
}

void af_prover_release(struct af_prover *prover)
{
    if (prover->has_scope)
        af_scope_release(&prover->scope);
    if (prover->has_symbols)
        af_catalog_torch_symbols_release(&prover->symbols);
    *prover = (struct af_prover){.has_scope = false};
}

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

enum anyflash_status af_proof_obstacle_find(const struct af_prover_options *options,
                                            struct af_inspect_target *target,
                                            struct af_arena *arena,
                                            struct af_proof_obstacle *out,
                                            struct anyflash_error *err)
{
    struct af_prover prover = {.arena = NULL};
    *out = (struct af_proof_obstacle){.path = NULL};
    if (target->count == 0)
        return ANYFLASH_OK;
    enum anyflash_status status = af_prover_open(options, arena, &prover, err);
    for (size_t i = 0; status == ANYFLASH_OK && out->path == NULL && i < target->count; i++) {
        struct af_proof proof;
        const struct af_inspect_extension *extension = &target->extensions[i];
        status = af_prover_prove(&prover, target, i, NULL, &proof, err);
        if (status != ANYFLASH_OK)
            break;
        out->is_unsure |= proof.answer == AF_UNKNOWN && !extension->is_bundled;
        if (proof.answer != AF_NO)
            continue;
        out->path = af_arena_text(arena, extension->path);
        out->why =
            af_arena_text(arena, extension->problem != NULL ? extension->problem
                                                            : af_proof_objection(&proof));
    }
    af_prover_release(&prover);
    return status;
}

/* Proves the file of the wheel; one that cannot be read proves nothing. */
static void prove_file(struct af_prover *prover, const char *path,
                       struct af_proved_wheel *known)
{
    struct af_inspect_target target = {.count = 0};
    struct af_proof_conclusion conclusion = {.loads = AF_UNKNOWN};
    enum anyflash_status status = af_inspect_target_open(path, prover->arena, &target, NULL);
    struct af_proof *proofs = af_arena_array(prover->arena, target.count + 1, sizeof *proofs);
    for (size_t i = 0; status == ANYFLASH_OK && i < target.count; i++)
        status = af_prover_prove(prover, &target, i, known->wheel->torch, &proofs[i], NULL);
    if (status == ANYFLASH_OK)
        conclusion = af_proof_conclude(&target, proofs, prover->arena);
    known->loads = conclusion.loads;
    known->evidence = conclusion.reason;
    known->built_for = conclusion.built_for;
    af_inspect_target_close(&target);
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
    for (size_t i = 0; file_count > 0 && i < catalog->count; i++)
        if (af_is_one_of(catalog->wheels[i].filename, files, file_count))
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
    enum anyflash_status status = ANYFLASH_OK;
    if (count > 0)
        status = af_fit_provable_wheels(catalog, machine, options, wheels, &count, arena, err);
    if (status != ANYFLASH_OK)
        return status;
    count = count < AF_PROOF_FOLDER_WHEELS_MAX ? count : AF_PROOF_FOLDER_WHEELS_MAX;
    struct af_proved_wheel *known = af_arena_array(arena, count + 1, sizeof *known);
    if (count > 0)
        status = af_prover_open(&prover_options, arena, &prover, err);
    for (size_t i = 0; status == ANYFLASH_OK && i < count; i++) {
        const char *path = af_path_join(arena, from, wheels[i]->filename);
        known[i].wheel = wheels[i];
        prove_file(&prover, path, &known[i]);
    }
    af_prover_release(&prover);
    *known_out = known;
    *count_out = status == ANYFLASH_OK ? count : 0;
    return status;
}
