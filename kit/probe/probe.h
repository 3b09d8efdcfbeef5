/* probe.h: reads the facts of this machine, or machine records from files. */
#ifndef AF_KIT_PROBE_PROBE_H
#define AF_KIT_PROBE_PROBE_H

#include "kit/machine/machine.h"

/* Options of probing. Texts are borrowed for the call; NULL means not given. */
struct af_probe_options {
    const char *python;       /* --python: an interpreter, an environment folder, or "3.12" */
    const char *folder;       /* the project's folder; NULL: the working directory */
    const char *root;         /* prefix for absolute system paths, for tests; NULL: none */
    char *const *environment; /* "NAME=value", NULL-terminated; NULL: our own environment */
    bool probe_network;
    int gpu_limit_ms; /* time limit for querying the GPU driver; 0: the default of 3000 */
};

/*
 * Probes this machine. Facts that cannot be read are unknown; the call only fails if memory
 * runs out or --python is not usable. `machine` must be initialised.
 */
enum anyflash_status af_probe_machine(struct af_machine *machine,
                                      const struct af_probe_options *options,
                                      struct anyflash_error *err);

/*
 * Runs af_machine_parse() on the file `path` ("-": stdin). Fails as af_file_read() and
 * af_machine_parse() do.
 */
enum anyflash_status af_probe_record(struct af_machine *machine, const char *path,
                                     struct anyflash_error *err);

#endif
