/*
 * prover.c: opens, once for all extensions, what a proof compares an extension with, and runs
 * the proofs of proof.h with it.
 */
#include "kit/proof/prover.h"

#include <string.h>

#include "kit/proof/built_for.h"

/* Finds the build in the table for options.torch. */
static enum anyflash_status choose_torch(struct af_prover *prover, struct anyflash_error *err)
{
    const char *arch = af_fact_text_or(&prover->options.machine->platform.arch, "x86_64");
    const char *platform = af_arena_format(prover->arena, "linux_%s", arch);
    if (platform == NULL)
        return af_fail_memory(err);
    return af_catalog_torch_symbols_choose(&prover->symbols, prover->options.torch, platform,
                                           prover->arena, &prover->choice, err);
}

/* Opens the libraries of the environment or of options.torch; none if neither is known. */
static enum anyflash_status open_scope(struct af_prover *prover, struct anyflash_error *err)
{
    const struct af_prover_options *options = &prover->options;
    if (options->torch == NULL) {
        prover->has_scope = options->is_here;
        return options->is_here ? af_scope_installed(options->machine, &prover->scope, err)
                                : ANYFLASH_OK;
    }
    enum anyflash_status status = choose_torch(prover, err);
    if (status != ANYFLASH_OK || prover->choice.build == NULL)
        return status;
    prover->has_scope = true;
    return af_scope_of_torch(&prover->symbols, &prover->choice, options->machine,
                             options->is_here, &prover->scope, err);
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
    return open_scope(out, err);
}

/* Whether the file is in the folder of the installed torch. */
static bool is_part_of_torch(const struct af_machine *machine, const char *file)
{
    const char *folder = af_fact_text_or(&machine->torch.path, NULL);
    size_t len = folder == NULL ? 0 : strlen(folder);
    return file != NULL && len > 0 && strncmp(file, folder, len) == 0 && file[len] == '/';
}

/* Adds what the session knows to the question, and makes the proof. */
static enum anyflash_status ask(struct af_prover *prover, const struct af_facts *facts,
                                const char *folder, struct af_proof_question *question,
                                struct af_proof *out, struct anyflash_error *err)
{
    struct af_load load;
    question->binary = &facts->binary;
    question->gpu_code = facts->gpu_code;
    question->kernels = facts->kernels;
    question->machine = prover->options.machine;
    question->arch = prover->options.arch;
    question->fitting_torch = af_proof_torch_fitting(&prover->symbols, &facts->binary);
    if (prover->has_scope) {
        enum anyflash_status status =
            af_scope_load(&prover->scope, &facts->binary, folder, prover->arena, &load, err);
        if (status != ANYFLASH_OK)
            return status;
        question->scope = &prover->scope;
        question->load = &load;
    }
    return af_proof_make(question, prover->arena, out, err);
}

/* Proves an extension whose facts have been read. */
static enum anyflash_status prove_read(struct af_prover *prover,
                                       const struct af_inspect_target *target,
                                       const struct af_inspect_extension *extension,
                                       const char *stated_torch, struct af_proof *out,
                                       struct anyflash_error *err)
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
    return ask(prover, &extension->facts, extension->folder, &question, out, err);
}

enum anyflash_status af_prover_prove(struct af_prover *prover, struct af_inspect_target *target,
                                     size_t index, const char *stated_torch,
                                     struct af_proof *out, struct anyflash_error *err)
{
    const struct af_inspect_extension *extension = &target->extensions[index];
    enum anyflash_status status = af_inspect_target_read(target, index, prover->arena, err);
    if (status == ANYFLASH_OK && prover->options.reads_kernels &&
        !is_part_of_torch(prover->options.machine, extension->file))
        status = af_inspect_target_read_kernels(target, index, prover->arena, err);
    if (status == ANYFLASH_OK && extension->problem == NULL)
        return prove_read(prover, target, extension, stated_torch, out, err);
    *out = (struct af_proof){.answer = AF_NO};
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
