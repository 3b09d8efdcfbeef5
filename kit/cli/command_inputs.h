/*
 * command_inputs.h: turns the command line into the input of the deciding commands: the
 * request, machines, catalog and proofs.
 */
#ifndef AF_KIT_CLI_COMMAND_INPUTS_H
#define AF_KIT_CLI_COMMAND_INPUTS_H

#include "kit/answer/plan_request.h"
#include "kit/cli/machine_inputs.h"

/*
 * The file of --catalog or $ANYFLASH_CATALOG; else the one that `anyflash
 * update` left, if it matches this program and is intact; else the embedded
 * one.
 */
enum anyflash_status af_cli_catalog_load(struct af_cli *cli, struct af_catalog *catalog_out,
                                         struct anyflash_error *err);

/* --limit, or 0 if it was not given. */
enum anyflash_status af_cli_limit(const struct af_cli *cli, size_t *limit_out,
                                  struct anyflash_error *err);

/*
 * Reads --for, --head-dim, --dtype, --features, --inference and --full as a
 * selection, without GPU targets. Fails with ARGUMENT if none is given although
 * `must` is set. Prints remarks to stderr about what a model's configuration
 * does not state.
 */
enum anyflash_status af_cli_read_selection(struct af_cli *cli, bool must,
                                           struct af_selection *selection,
                                           struct anyflash_error *err);

/*
 * A GPU that the user named, as a compute capability: "sm90" and "9.0" are one, and so is the
 * name of a product, "h100". Of major version 9 there is only 9.0. Other texts, and NULL, are
 * returned unchanged.
 */
const char *af_cli_arch(struct af_arena *arena, const char *typed);

/* Fails with NOT_FOUND if --from names no folder. */
enum anyflash_status af_cli_check_from(struct af_cli *cli, struct anyflash_error *err);

/* Parts of the input that not every command needs. */
enum af_cli_input {
    AF_CLI_INPUT_MACHINES = 1, /* --machine, --given, --here, --python */
    AF_CLI_INPUT_PROOFS = 2,   /* what earlier inspections concluded about wheels */
    AF_CLI_INPUT_FILES = 4     /* wheels on this machine that work with each torch */
};

/* Everything that a decision depends on. Empty when zero-initialised. */
struct af_cli_inputs {
    struct af_machines machines;
    struct af_catalog catalog;
    bool has_catalog;
    bool is_here; /* the only machine is this one, with the facts that proofs depend on */
    struct af_plan_request request; /* borrows from the two above */
};

/*
 * Reads the options and loads what they name. Of machines that are described by --given
 * alone or by pasted text, assumes what is usual (af_fit_assume()). After a failure there is
 * nothing to release.
 */
enum anyflash_status af_cli_inputs_load(struct af_cli *cli, unsigned parts,
                                        struct af_cli_inputs *inputs_out,
                                        struct anyflash_error *err);
void af_cli_inputs_release(struct af_cli_inputs *inputs);

#endif
