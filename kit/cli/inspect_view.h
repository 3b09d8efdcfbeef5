/*
 * inspect_view.h: one `anyflash inspect`: the target, the libraries around it,
 * and the proof of each of its extensions. cmd_inspect.c fills it;
 * inspect_view.c prints it.
 */
#ifndef AF_KIT_CLI_INSPECT_VIEW_H
#define AF_KIT_CLI_INSPECT_VIEW_H

#include "kit/cli/machine_inputs.h"
#include "kit/proof/prover.h"
#include "kit/proof/wheel_content.h"

/* All data of one inspection. Empty when zero-initialised. */
struct af_inspection {
    struct af_machines machines;
    struct af_prover prover;
    struct af_inspect_target target;
    struct af_content content; /* if the target is a wheel */
    const char *publisher;     /* of the file at the address; NULL: not known */
    bool is_far;               /* the target is at an address */
    struct af_proof *proofs;   /* one per extension; check_count 0: it could not be read */
    enum af_answer answer;     /* for all extensions together */
};

/* The machine that the proofs are for. */
const struct af_machine *af_inspection_machine(const struct af_inspection *inspection);

/* Whether it is a wheel of Python code only: for every platform, with no extension. */
bool af_inspection_is_pure(const struct af_inspection *inspection);

/* Writes the screen to cli->out. */
void af_cli_inspect_view(struct af_cli *cli, const struct af_inspection *inspection);

/* Writes "anyflash-inspect/1" (docs/reference/json.md). Fails with NO_MEMORY. */
enum anyflash_status af_cli_inspect_json(struct af_cli *cli,
                                         const struct af_inspection *inspection,
                                         struct anyflash_error *err);

#endif
