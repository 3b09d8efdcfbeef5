/*
 * recorded_libraries.h: modules that replace files in loader.c: the interpreter and system
 * libraries of a machine that is known from its record only. Private to loader.c,
 * symbol_scope.c and the checks.
 */
#ifndef AF_KIT_PROOF_RECORDED_LIBRARIES_H
#define AF_KIT_PROOF_RECORDED_LIBRARIES_H

#include "kit/proof/loader.h"

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
