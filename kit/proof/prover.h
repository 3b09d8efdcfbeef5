/*
 * prover.h: one session that proves extensions against one machine: does this library load and
 * run there? A caller opens a session, calls it once for each extension, and releases it:
 *
 *     struct af_prover_options options = {.machine = machine, .is_here = true};
 *     struct af_prover prover;
 *     status = af_prover_open(&options, arena, &prover, err);
 *     for (...)
 *         status = af_prover_prove(&prover, &target, i, NULL, &proof, err);
 *     af_prover_release(&prover);
 *
 * A session holds everything that an extension is compared with: the symbols that torch
 * releases export, and the libraries of a Python process on the machine after `import torch`
 * (symbol_scope.h). The rules are in proof.h. A session only reads files; it is used by one
 * thread at a time.
 */
#ifndef AF_KIT_PROOF_PROVER_H
#define AF_KIT_PROOF_PROVER_H

#include "kit/catalog/torch_symbols.h"
#include "kit/fit/fit.h"
#include "kit/proof/inspect_target.h"
#include "kit/proof/proof.h"

struct af_prover_options {
    const struct af_machine *machine; /* must outlive the session */
    bool is_here;      /* `machine` was probed from this system, so its files can be read */
    const char *torch; /* "2.9" or "2.9.1+cu128" from the table; NULL: the installed torch */
    /* SM to check the GPU code for, such as "9.0"; NULL: the machine's GPUs */
    const char *arch;
    bool reads_kernels; /* read the names of the kernels; needed where there is a GPU */
    bool in_packages;   /* a package loads the extensions, even if the target is a folder */
};

struct af_prover {
    struct af_prover_options options;
    struct af_arena *arena; /* the caller's arena, for texts and arrays of the proofs */
    struct af_catalog_torch_symbols symbols;
    /* the build for options.torch; empty if that is NULL */
    struct af_catalog_torch_choice choice;
    /* false: the libraries of the process are not known */
    bool has_scope;
    struct af_scope scope;
    bool has_symbols; /* private */
};

/*
 * Opens a session. Without options.torch the libraries are those of the environment if is_here
 * is set; else they are not known (has_scope is false) and the checks that need them answer
 * "unknown". Fails with INTERNAL when embedded data is damaged. Release the
 * session also after a failure.
 */
enum anyflash_status af_prover_open(const struct af_prover_options *options,
                                    struct af_arena *arena, struct af_prover *out,
                                    struct anyflash_error *err);

/*
 * Reads the facts of extension `index` of the target, and proves it. `stated_torch` ("2.8") is
 * the torch that the extension is said to be built for; NULL: the one that its wheel states, if
 * any. An extension that cannot be read gets its `problem`, the answer NO and no checks. Fails
 * with IO if a wheel cannot be unpacked.
 */
enum anyflash_status af_prover_prove(struct af_prover *prover, struct af_inspect_target *target,
                                     size_t index, const char *stated_torch,
                                     struct af_proof *out, struct anyflash_error *err);

/* Closes everything that the session opened. Does nothing to a zero-initialised session. */
void af_prover_release(struct af_prover *prover);

/* One conclusion about a wheel, which the choice of a wheel uses (fit/fit.h). */
struct af_proof_conclusion {
    /* NO if one of its extensions does not load or run; UNKNOWN if that is not known of one */
    enum af_answer loads;
    const char *reason;    /* of NO: "'a/b.so': 3 functions are missing"; else NULL */
    const char *built_for; /* "torch 2.7 or 2.8", from its bytes; NULL: not known */
    /* NO only because of the GPUs, or of libraries that are not installed */
    bool may_change;
};

/*
 * Concludes from `proofs`, one for each extension of the target. An extension that could not be
 * read, and a target without extensions, prove nothing. Texts are in the arena or borrowed from
 * the proofs.
 */
struct af_proof_conclusion af_proof_conclude(const struct af_inspect_target *target,
                                             const struct af_proof *proofs,
                                             struct af_arena *arena);

/* What speaks against loading the extensions of a target. Texts in the arena. */
struct af_proof_obstacle {
    const char *path; /* of the first extension that would not load; NULL: there is none */
    const char *why;
    bool is_unsure; /* it is not known of an extension of the package's own */
};

/* Proves the extensions of the target in a session of its own, up to the first obstacle. */
enum anyflash_status af_proof_obstacle_find(const struct af_prover_options *options,
                                            struct af_inspect_target *target,
                                            struct af_arena *arena,
                                            struct af_proof_obstacle *out,
                                            struct anyflash_error *err);

#define AF_PROOF_FOLDER_WHEELS_MAX 16u

/*
 * Proves the wheels of `catalog` that `options` ask for and whose files are in the folder
 * `from`, each with the torch of `machine`, which must be this machine. Of those that a proof
 * could change the verdict of, at most AF_PROOF_FOLDER_WHEELS_MAX are proved, best ranked
 * first. Wheels that cannot be read prove nothing. The list and its texts are in the arena; the
 * wheels belong to the catalog.
 */
enum anyflash_status af_proof_folder_wheels(const char *from, const struct af_machine *machine,
                                            const struct af_catalog *catalog,
                                            const struct af_fit_options *options,
                                            struct af_arena *arena,
                                            struct af_proved_wheel **known_out,
                                            size_t *count_out, struct anyflash_error *err);

#endif
