/*
 * probe.h: the facts of this machine, and records from files.
 */
#ifndef AF_KIT_PROBE_PROBE_H
#define AF_KIT_PROBE_PROBE_H

#include "kit/machine/machine.h"

/* Options of probing. Texts are borrowed for the call; NULL means not given. */
struct af_probe_options {
    const char *python;       /* --python: an interpreter, an environment folder, or "3.12" */
    const char *folder;       /* where the project is; NULL: the working directory */
    const char *root;         /* prefix of absolute system paths, for tests; NULL: none */
    char *const *environment; /* "NAME=value", NULL-terminated; NULL: our own */
    bool probe_network;
    int gpu_limit_ms; /* time limit for asking the GPU driver; 0: the default of 3000 */
};

/*
 * Probes this machine. Facts that cannot be read are unknown; only lack of memory or
 * an unusable --python fails. `machine` must be initialised.
 */
enum anyflash_status af_probe_machine(struct af_machine *machine,
                                      const struct af_probe_options *options,
                                      struct anyflash_error *err);

/*
 * af_machine_parse() of the file `path` ("-": stdin). Fails as af_file_read() and
 * af_machine_parse() do.
 */
enum anyflash_status af_probe_record(struct af_machine *machine, const char *path,
                                     struct anyflash_error *err);

#endif
