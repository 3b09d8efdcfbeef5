/*
 * load.h: from the command line to what the deciding commands work on: options
 * as a request, machines, catalog, proofs. Options are read here and nowhere
 * below.
 */
#ifndef AF_KIT_CLI_LOAD_H
#define AF_KIT_CLI_LOAD_H

#include "kit/cli/commands.h"
#include "kit/machine/machine.h"
#include "kit/plan/plan_request.h"

/*
 * The machines that the options name: this one, records, or one by hand.
 * `items` belong to the cli's arena, their content to themselves: release.
 */
struct af_machines {
    struct af_machine *items;
    const struct af_machine **pointers; /* to the items */
    size_t count;
};

/* Probes, reads or makes them; remarks on values go to stderr. */
enum anyflash_status af_machines_load(struct af_cli *cli, struct af_machines *machines_out,
                                      struct anyflash_error *err);
void af_machines_release(struct af_machines *machines);

/* Whether a machine was named: --machine, --given or --here. */
bool af_machines_named(const struct af_options *options);

/*
 * The file of --catalog or $ANYFLASH_CATALOG; else the one that `anyflash update`
 * left, where it is of this program and whole; else the embedded one.
 */
enum anyflash_status af_cli_catalog_load(struct af_cli *cli, struct af_catalog *catalog_out,
                                         struct anyflash_error *err);

/* --limit, or 0 where it was not given. */
enum anyflash_status af_cli_limit(const struct af_cli *cli, size_t *limit_out,
                                  struct anyflash_error *err);

/*
 * --for, --head-dim, --dtype, --features, --inference and --full as a selection,
 * without GPU targets. Fails with ARGUMENT where they say nothing and `must` be.
 * Remarks on what a model's configuration leaves open go to stderr.
 */
enum anyflash_status af_cli_read_selection(struct af_cli *cli, bool must, struct af_slim *slim,
                                           struct anyflash_error *err);

/* Parts of the input that not every command needs. */
enum af_cli_input {
    AF_CLI_INPUT_MACHINES = 1, /* --machine, --given, --here, --python */
    AF_CLI_INPUT_PROOFS = 2 /* what is known of wheels' bytes: inspected before, or in --from */
};

/* All that a decision rests on. Zero-initialised it is empty. */
struct af_cli_inputs {
    struct af_machines machines;
    struct af_catalog catalog;
    bool has_catalog;
    struct af_plan_request request; /* borrows from the two above */
};

/* Reads the options and loads what they name. On failure nothing is held. */
enum anyflash_status af_cli_inputs_load(struct af_cli *cli, unsigned parts,
                                        struct af_cli_inputs *inputs_out,
                                        struct anyflash_error *err);
void af_cli_inputs_release(struct af_cli_inputs *inputs);

#endif
