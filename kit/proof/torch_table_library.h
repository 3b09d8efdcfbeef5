/*
 * torch_table_library.h: modules that replace files in loader.c: the libraries of a torch that
 * is not installed, from the table of torch_symbols.h. Private to loader.c and symbol_scope.c.
 *
 * If the table has the torch only in another CUDA variant, the CUDA libraries are taken from a
 * build with the right CUDA, and torch's own libraries need them under the names that they have
 * in that build. If a CPU build is wanted that the table does not have, torch's CUDA libraries
 * are left out, and answers that only the substitute build could give are UNKNOWN.
 */
#ifndef AF_KIT_PROOF_TORCH_TABLE_LIBRARY_H
#define AF_KIT_PROOF_TORCH_TABLE_LIBRARY_H

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

#endif
