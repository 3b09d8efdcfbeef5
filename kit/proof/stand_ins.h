/*
 * torch_table_libraries.h: the libraries of a torch that is not installed, as modules
 * that the loader finds like files: what they need and define comes from the
 * table of torch_symbols.h. Private to loader.c and scope.c.
 *
 * Of a torch that the table holds in another CUDA variant, the CUDA libraries
 * are those of a build with that CUDA, and torch's own ask for them by their
 * names there. Of a CPU build that the table does not hold, torch's CUDA
 * libraries are left out; what its other libraries define is not known where
 * the build that stands for it is all that tells.
 */
#ifndef AF_KIT_PROOF_STAND_INS_H
#define AF_KIT_PROOF_STAND_INS_H

#include "kit/catalog/torch_symbols.h"
#include "kit/proof/loader.h"

/* One library on the shelf. */
struct af_proof_torch_table_library {
    const char *name;                            /* SONAME */
    const char *file;                            /* name of its file */
    const struct af_catalog_symbol_build *build; /* whose column tells what it defines */
    size_t place;                                /* its bit there */
    const char *const *needed;
    size_t needed_count;
    bool is_torch;
    bool is_cpu; /* stands for the library of a CPU build */
};

struct af_proof_torch_table_libraries {
    const struct af_catalog_torch_symbols *symbols;
    const struct af_proof_torch_table_library *libraries;
    size_t count;
};

/* Fills the stock in `arena`, which fails for want of memory only. The choice has a build. */
void af_proof_torch_stock_fill(const struct af_catalog_torch_symbols *symbols,
                               const struct af_catalog_torch_choice *choice,
                               struct af_arena *arena,
                               struct af_proof_torch_table_libraries *out);

/* A new module for the library called `name`; NULL when it is not in stock. */
struct af_module *af_proof_torch_table_library_new(
    const struct af_proof_torch_table_libraries *stock, struct af_arena *arena,
    const char *name);

/* A module for the interpreter: it defines what begins with "Py". */
struct af_module *af_system_program(struct af_arena *arena, const struct af_machine *machine);

/*
 * A module for the library `name`. Of glibc's and GCC's the symbol versions
 * tell whether the machine has them; of any other nothing is known.
 */
struct af_module *af_system_library(struct af_arena *arena, const struct af_machine *machine,
                                    const char *name);

/*
 * A module for a library that torch needs and that is not torch's own, of which
 * only the name is known: CUDA's, for one. It defines nothing of torch.
 */
struct af_module *af_foreign_library(struct af_arena *arena, const char *name);

/*
 * Whether the machine's C or C++ library has this version ("GLIBC_2.34",
 * "GLIBCXX_3.4.30", "CXXABI_1.3.13"): versions are ordered, and the record has
 * the highest. UNKNOWN for others.
 */
enum af_answer af_system_has_version(const struct af_machine *machine, const char *version);

#endif
