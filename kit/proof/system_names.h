/*
 * system_names.h: the interpreter and the C and C++ libraries of a machine that
 * is known by its record only: they are there by name, and what they define
 * follows from the versions in the record. Private to loader.c and scope.c.
 */
#ifndef AF_KIT_PROOF_SYSTEM_NAMES_H
#define AF_KIT_PROOF_SYSTEM_NAMES_H

#include "kit/proof/loader.h"

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
