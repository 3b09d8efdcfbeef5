/*
 * recorded_libraries.h: modules that replace files in loader.c: the libraries of a torch
 * that is not installed (from the table of torch_symbols.h), and the interpreter and system
 * libraries of a machine that is known from its record only. Private to loader.c,
 * symbol_scope.c and the checks.
 *
 * If the table has the torch only in another CUDA variant, the CUDA libraries are taken from a
 * build with the right CUDA, and torch's own libraries need them under the names that they have
 * in that build. If a CPU build is wanted that the table does not have, torch's CUDA libraries
 * are left out, and answers that only the substitute build could give are UNKNOWN.
 */
#ifndef AF_KIT_PROOF_RECORDED_LIBRARIES_H
#define AF_KIT_PROOF_RECORDED_LIBRARIES_H

#include "kit/catalog/torch_symbols.h"
#include "kit/proof/loader.h"

/* One library of the table. */
struct af_proof_torch_table_library {
    const char *name; /* SONAME */
    const char *file; /* name of its file */
    /* the build whose column lists the symbols that it defines */
    const struct af_catalog_symbol_build *build;
    size_t place; /* the library's bit in that column */
    const char *const *needed;
    size_t needed_count;
    bool is_cpu; /* it replaces the library of a CPU build */
};

struct af_proof_torch_table_libraries {
    const struct af_catalog_torch_symbols *symbols;
    const struct af_proof_torch_table_library *libraries;
    size_t count;
};

/*
 * Fills *out with all libraries of the chosen build, allocated in `arena`.
 * choice->build must be set.
 */
void af_proof_torch_stock_fill(const struct af_catalog_torch_symbols *symbols,
                               const struct af_catalog_torch_choice *choice,
                               struct af_arena *arena,
                               struct af_proof_torch_table_libraries *out);

/* A new module for the library called `name`; NULL when the table does not have it. */
struct af_module *af_proof_torch_table_library_new(
    const struct af_proof_torch_table_libraries *stock, struct af_arena *arena,
    const char *name);

/* A module for the interpreter: it defines all names that begin with "Py". */
struct af_module *af_system_program(struct af_arena *arena, const struct af_machine *machine);

/*
 * A module for the library `name`. For the C and C++ libraries the symbol versions in the
 * record show what the machine has. CUDA's libraries, OpenMP's and zlib define no symbol of
 * torch. Nothing is known about others.
 */
struct af_module *af_system_library(struct af_arena *arena, const struct af_machine *machine,
                                    const char *name);

/*
 * A module for a library that torch needs but does not ship, such as CUDA's. Only its name is
 * known. It defines no symbol of torch.
 */
struct af_module *af_foreign_library(struct af_arena *arena, const char *name);

/*
 * Whether the machine's C or C++ library has this version ("GLIBC_2.34", "GLIBCXX_3.4.30",
 * "CXXABI_1.3.13"). Versions are ordered, and the record has the highest one. UNKNOWN for other
 * prefixes.
 */
enum af_answer af_system_has_version(const struct af_machine *machine, const char *version);

#endif
