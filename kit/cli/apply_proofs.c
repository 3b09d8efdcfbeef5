/*
 * apply_proofs.c: what was inspected before, and the files of --from, as proofs.
 */
#include "kit/cli/apply_proofs.h"
#include "kit/plan/decide.h"

#include <string.h>

#include "kit/base/text.h"
#include "kit/proof/proved_wheels.h"

/* Whether the facts that proofs rest on are those of the environment that is here. */
static bool is_here(const struct af_options *options)
{
    static const char *const harmless[] = {"sm=", "gpu=", "driver=", "ram_gb=", "disk_gb="};
    bool all = options->machines.count == 0;
    for (size_t i = 0; i < options->givens.count; i++) {
        bool known = false;
        for (size_t j = 0; j < AF_COUNT(harmless); j++)
            known = known || af_starts_with(options->givens.items[i], harmless[j]);
        all = all && known;
    }
    return all && (options->givens.count == 0 || af_option_given(options, AF_OPTION_HERE));
}

/* A state that cannot be used knows nothing. */
static enum anyflash_status open_state(struct af_cli *cli, struct af_state **state_out,
                                       struct anyflash_error *err)
{
    const char *remark = NULL;
    struct anyflash_error why;
    *state_out = NULL;
    enum anyflash_status status =
        af_state_open(AF_STATE_READ, &cli->arena, state_out, &remark, &why);
    if (status == ANYFLASH_E_NO_MEMORY)
        return af_fail_memory(err);
    if (status != ANYFLASH_OK && af_option_given(&cli->options, AF_OPTION_VERBOSE))
        af_cli_remark(cli, why.message);
    return ANYFLASH_OK;
}

enum anyflash_status af_cli_apply_proofs(struct af_cli *cli, struct af_question *question,
                                         struct anyflash_error *err)
{
    struct af_fit_options *options = &question->options;
    const char *from = cli->options.values[AF_OPTION_FROM];
    if (question->machines.count != 1 || !is_here(&cli->options))
        return ANYFLASH_OK;
    struct af_state *state;
    enum anyflash_status status = open_state(cli, &state, err);
    if (status != ANYFLASH_OK)
        return status;
    status = af_proof_proved_wheels_find(state, from, question->machines.pointers[0],
                                         &question->decision, &cli->arena, &options->known,
                                         &options->known_count, err);
    af_state_close(state);
    if (status != ANYFLASH_OK || options->known_count == 0)
        return status;
    af_decision_release(&question->decision);
    question->has_decision = false;
    status = af_plan_decide(&question->catalog, question->machines.pointers, 1, options,
                            &question->decision, err);
    question->has_decision = status == ANYFLASH_OK;
    return status;
}
