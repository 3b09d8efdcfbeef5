/*
 * machine_inputs.h: the machines that the command line names.
 */
#ifndef AF_KIT_CLI_MACHINE_INPUTS_H
#define AF_KIT_CLI_MACHINE_INPUTS_H

#include "kit/cli/commands.h"
#include "kit/machine/machine.h"

/*
 * The machines that the options name: this one, records, or one described by
 * the user. The array `items` is in the cli's arena; each item's content must
 * be released.
 */
struct af_machines {
    struct af_machine *items;
    const struct af_machine **pointers; /* allocated for the items */
    size_t count;
};

/* Probes, reads or makes them; prints remarks on values to stderr. */
enum anyflash_status af_machines_load(struct af_cli *cli, struct af_machines *machines_out,
                                      struct anyflash_error *err);
void af_machines_release(struct af_machines *machines);

/*
 * The folder of the Python here, as af_machines_load() would find it, in the cli's arena; NULL:
 * there is none. Fails as that does.
 */
enum anyflash_status af_cli_python_prefix(struct af_cli *cli, const char **prefix_out,
                                          struct anyflash_error *err);

/* Whether a machine was named: --machine, --given or --here. */
bool af_machines_named(const struct af_options *options);

#endif
