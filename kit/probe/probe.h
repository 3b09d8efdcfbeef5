/* probe.h: reads the facts of this machine, or machine records and catalogs from files. */
#ifndef AF_KIT_PROBE_PROBE_H
#define AF_KIT_PROBE_PROBE_H

#include "kit/base/sha256.h"
#include "kit/catalog/catalog.h"
#include "kit/machine/machine.h"

/* Options of probing. Texts are borrowed for the call; NULL means not given. */
struct af_probe_options {
    const char *python;       /* --python: an interpreter, an environment folder, or "3.12" */
    const char *folder;       /* the project's folder; NULL: the working directory */
    const char *root;         /* prefix for absolute system paths, for tests; NULL: none */
    char *const *environment; /* "NAME=value", NULL-terminated; NULL: our own environment */
    bool only_python;         /* nothing but which Python there is, and where */
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

/*
 * What a proof that a wheel loads takes from an environment. A stored proof
 * (system/state.h) holds as long as its hashes are still the same.
 */
struct af_environment_hash {
    /*
     * What decides whether a wheel loads: this program's version; system, C and C++ library;
     * the interpreter; torch, with the size and time of its libraries; its CUDA runtime.
     */
    char loading[AF_SHA256_HEX_BYTES];
    /*
     * What only some answers depend on: GPUs and driver, and where libraries that are missing
     * could appear (site-packages, ld.so.cache).
     */
    char surroundings[AF_SHA256_HEX_BYTES];
};

/*
 * Hashes the environment of `machine`, which must have been probed from this system. Looks at
 * the status of a few files and reads none.
 */
void af_probe_environment_hash(const struct af_machine *machine,
                               struct af_environment_hash *out);

/* Runs af_catalog_parse() on the file `path`. Fails also as af_file_read() does. */
enum anyflash_status af_probe_catalog(struct af_catalog *catalog, const char *path,
                                      struct anyflash_error *err);

/* Runs af_catalog_stored_parse() on the file `path`. Fails also as af_file_read() does. */
enum anyflash_status af_probe_catalog_stored(struct af_catalog *catalog, const char *path,
                                             struct anyflash_error *err);

#endif
