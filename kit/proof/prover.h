/*
 * prover.h: one session that proves extensions against one machine: does this
 * library load and run there? Everybody who proves opens a session, asks once
 * for each extension, and releases it:
 *
 *     struct af_prover_options options = {.machine = machine, .is_here = true};
 *     struct af_prover prover;
 *     status = af_prover_open(&options, arena, &prover, err);
 *     for (...)
 *         status = af_prover_prove(&prover, &target, i, NULL, &proof, err);
 *     af_prover_release(&prover);
 *
 * A session holds what a proof compares the extension with: the catalog's
 * tables, the symbols that torch releases export, and the libraries of a Python
 * process on the machine after `import torch` (symbol_scope.h). The rules are
 * in proof.h. A session only reads files; it is used by one thread at a time.
 */
#ifndef AF_KIT_PROOF_PROVER_H
#define AF_KIT_PROOF_PROVER_H

#include "kit/catalog/tables.h"
#include "kit/catalog/torch_symbols.h"
#include "kit/proof/inspect_target.h"
#include "kit/proof/proof.h"

struct af_prover_options {
    const struct af_machine *machine; /* must outlive the session */
    bool is_here;       /* `machine` was probed from this system, so its files can be read */
    const char *torch;  /* "2.9" or "2.9.1+cu128", from the table; NULL: the installed one */
    const char *arch;   /* SM to check the GPU code for, as "9.0"; NULL: the machine's GPUs */
    bool reads_kernels; /* read the names of the kernels: needed where there is a GPU */
    bool in_packages;   /* a package loads the extensions, even where the target is a folder */
};

struct af_prover {
    struct af_prover_options options;
    struct af_arena *arena; /* of the caller: texts and arrays of the proofs */
    struct af_tables tables;
    struct af_catalog_torch_symbols symbols;
    struct af_catalog_torch_choice choice; /* of options.torch; without it empty */
    bool has_scope;                        /* false: nothing is known of the process */
    struct af_scope scope;
    bool has_tables;  /* private: what must be released */
    bool has_symbols; /* private */
};

/*
 * Opens a session. Without options.torch the libraries are those of the
 * environment, if is_here is set; else nothing is known of them (has_scope is
 * false) and the checks that need them answer "unknown". Fails with NO_MEMORY,
 * or INTERNAL when embedded data is bad. Release it also after a failure.
 */
enum anyflash_status af_prover_open(const struct af_prover_options *options,
                                    struct af_arena *arena, struct af_prover *out,
                                    struct anyflash_error *err);

/*
 * Reads extension `index` of the target, as far as its facts are not kept in the
 * target's state, and proves it. `stated_torch` ("2.8") is the torch that the
 * extension is said to be built for; NULL: what its wheel says, if anything.
 * An extension that cannot be read gets its `problem`, the answer NO and no
 * checks. Facts that were read are kept by af_inspect_target_store_facts().
 * Fails with NO_MEMORY, or with IO where a wheel cannot be unpacked.
 */
enum anyflash_status af_prover_prove(struct af_prover *prover, struct af_inspect_target *target,
                                     size_t index, const char *stated_torch,
                                     struct af_proof *out, struct anyflash_error *err);

/*
 * The same from the first bytes of an extension that is packed in a wheel, where
 * that is enough to read its symbols. `out` is untouched (zero it first) when
 * this says nothing, or when all facts are known and af_prover_prove() costs as
 * little. A NO is final; another answer is not.
 */
enum anyflash_status af_prover_prove_start(struct af_prover *prover,
                                           struct af_inspect_target *target, size_t index,
                                           struct af_proof *out, struct anyflash_error *err);

/* Proves an extension of a package by its facts alone; no file is opened. */
enum anyflash_status af_prover_prove_facts(struct af_prover *prover,
                                           const struct af_facts *facts,
                                           const char *stated_torch, struct af_proof *out,
                                           struct anyflash_error *err);

/* Closes what the session opened. A zero-initialised session is nothing to release. */
void af_prover_release(struct af_prover *prover);

#endif
