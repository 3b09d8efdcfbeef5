/*
 * inspect_next.c: the one next step after an inspection, by the first check that
 * says no, else by the first that is open.
 */
#include "kit/cli/inspect_next.h"

#include <string.h>

#include "kit/base/text.h"

#define SHOWN_BYTES 2000u

/* The proof that decides: the first that says no, else the first that is open. */
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

static bool says(const struct af_proof *proof, enum af_proof_check_id id, enum af_answer answer)
{
    return proof->checks[id].answer == answer;
}

static bool is_flash(const struct af_inspection *inspection)
{
    const struct af_inspect_wheel *wheel = inspection->target.wheel;
    return wheel != NULL && wheel->has_name &&
           af_starts_with(wheel->name.package, "flash_attn");
}

/* "Python 3.12 and torch 2.15.0+cu132" */
static const char *place_text(struct af_cli *cli, const struct af_inspection *inspection)
{
    const struct af_machine *machine = af_inspection_machine(inspection);
    const char *python = af_fact_text_or(&machine->python.version, "of another version");
    const char *dot = strchr(python, '.');
    size_t minor = dot == NULL ? strlen(python) : (size_t)(dot - python) + 1;
    minor += dot == NULL ? 0 : strcspn(dot + 1, ".");
    const char *torch =
        inspection->prover.has_scope ? inspection->prover.scope.torch.version : NULL;
    return af_arena_format(&cli->arena, "Python %.*s%s%s", (int)minor, python,
                           torch == NULL ? "" : " and torch ", torch == NULL ? "" : torch);
}

/* Whether torch is what does not fit: another one may. */
static bool is_about_torch(const struct af_proof *proof)
{
    return proof->built_for != NULL &&
           (says(proof, AF_CHECK_SYMBOLS, AF_NO) || says(proof, AF_CHECK_LAYOUT, AF_NO) ||
            says(proof, AF_CHECK_CXX_ABI, AF_NO) || says(proof, AF_CHECK_CUDA_RUNTIME, AF_NO));
}

static const char *after_no(struct af_cli *cli, const struct af_inspection *inspection,
                            const struct af_proof *proof)
{
    struct af_arena *arena = &cli->arena;
    if (says(proof, AF_CHECK_FORMAT, AF_NO) || says(proof, AF_CHECK_MACHINE, AF_NO))
        return "take a file that was built for this system";
    if (is_flash(inspection))
        return "`anyflash plan` shows what fits here";
    if (is_about_torch(proof))
        return af_arena_format(arena,
                               "take a file built for %s; this one belongs to %s (`--torch "
                               "VERSION` proves it against another torch)",
                               place_text(cli, inspection), proof->built_for);
    if (says(proof, AF_CHECK_PYTHON, AF_NO))
        return af_arena_format(arena, "take a file built for %s", place_text(cli, inspection));
    if (proof->runs == AF_NO)
        return "take a build that has code for this GPU";
    if (says(proof, AF_CHECK_SYMBOL_VERSIONS, AF_NO))
        return "take a file built for an older system (a lower manylinux), or another image";
    if (says(proof, AF_CHECK_CUDA_RUNTIME, AF_NO))
        return af_arena_format(arena, "take a file built for %s and its CUDA",
                               place_text(cli, inspection));
    if (proof->missing_libraries.count > 0)
        return af_arena_format(arena, "install what brings %s",
                               proof->missing_libraries.items[0]);
    if (says(proof, AF_CHECK_SYMBOLS, AF_NO))
        return af_arena_format(arena, "take a file built for %s", place_text(cli, inspection));
    return NULL;
}

/* Whether the wheel could go into the environment that it was judged for. */
static bool can_install(const struct af_cli *cli, const struct af_inspection *inspection)
{
    return inspection->target.wheel != NULL && inspection->target.wheel->has_name &&
           inspection->target.wheel->contradictions.count == 0 &&
           cli->options.values[AF_OPTION_TORCH] == NULL && cli->options.machines.count == 0 &&
           cli->options.givens.count == 0;
}

/* "anyflash install FILE", into the environment that was asked about. */
static const char *install_text(struct af_cli *cli)
{
    struct af_arena *arena = &cli->arena;
    const char *against = cli->options.values[AF_OPTION_AGAINST];
    return af_arena_format(
        arena, "anyflash install %s%s%s%s",
        af_option_given(&cli->options, AF_OPTION_ALLOW_HTTP) ? "--allow-http " : "",
        af_text_scrub(arena, cli->options.words.items[0], SHOWN_BYTES),
        against == NULL ? "" : " --python ",
        against == NULL ? "" : af_text_scrub(arena, against, SHOWN_BYTES));
}

/* What would settle what is open. */
static const char *after_unknown(struct af_cli *cli, const struct af_inspection *inspection)
{
    if (!inspection->prover.has_scope)
        return "name a torch by --torch VERSION, or an environment by --against PYTHON";
    if (!can_install(cli, inspection))
        return NULL;
    return af_arena_format(&cli->arena, "`%s` tries the import before anything is final",
                           install_text(cli));
}

const char *af_cli_inspect_next(struct af_cli *cli, const struct af_inspection *inspection)
{
    const struct af_proof *proof = deciding(inspection);
    if (proof != NULL && proof->answer == AF_NO)
        return after_no(cli, inspection, proof);
    if (inspection->answer == AF_UNKNOWN)
        return after_unknown(cli, inspection);
    if (inspection->answer == AF_YES && can_install(cli, inspection))
        return af_arena_format(&cli->arena, "`%s`", install_text(cli));
    return NULL;
}
