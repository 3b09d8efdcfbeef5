/*
 * inspection.h: one `anyflash inspect`: what is inspected, beside which
 * libraries, and the proof of each of its extensions. Made by inspection.c,
 * shown by inspect_view.c.
 */
#ifndef AF_KIT_CLI_INSPECTION_H
#define AF_KIT_CLI_INSPECTION_H

#include "kit/cli/commands.h"
#include "kit/cli/load.h"
#include "kit/proof/prover.h"
#include "kit/proof/remote.h"

/* All that one inspection holds. Zero-initialised it is empty. */
struct af_inspection {
    struct af_machines machines;
    struct af_prover prover;
    struct af_state *state; /* NULL: nothing is known or kept */
    struct af_inspect_target target;
    struct af_http *http;    /* NULL: nothing is far away */
    struct af_proof *proofs; /* one an extension; check_count 0: could not be read */
    enum af_answer answer;   /* of all extensions together */
};

/* The machine that the proofs are about. */
const struct af_machine *af_inspection_machine(const struct af_inspection *inspection);

/*
 * Machine, tables, the libraries in scope, and what the state knows; a state that
 * cannot be used is a remark with -v.
 */
enum anyflash_status af_inspection_load(struct af_inspection *inspection, struct af_cli *cli,
                                        struct anyflash_error *err);

/* Opens the subject that the command names. */
enum anyflash_status af_inspection_open(struct af_inspection *inspection, struct af_cli *cli,
                                        struct anyflash_error *err);

/* Proves all of its extensions. */
enum anyflash_status af_inspection_prove(struct af_inspection *inspection, struct af_cli *cli,
                                         struct anyflash_error *err);

/* Whether it is a wheel of Python code only: for every platform, with no extension. */
bool af_inspection_is_pure(const struct af_inspection *inspection);

void af_inspection_release(struct af_inspection *inspection);

#endif
