/*
 * symbol_name.h: reads three things from a mangled C++ name without fully
 * demangling it: the qualified name, whether it belongs to torch, and which
 * std::string ABI it was compiled for. Source: Itanium C++ ABI, chapter 5.1.
 */
#ifndef AF_KIT_FORMATS_SYMBOL_NAME_H
#define AF_KIT_FORMATS_SYMBOL_NAME_H

#include "engine/base/base.h"
#include "kit/base/memory.h"

/* Whether the mangled name is in one of torch's namespaces: c10, at, torch, caffe2. */
bool af_symbol_is_torch(const char *name);

/*
 * The qualified name within a mangled name, without template arguments and parameters, such as
 * "c10::SymInt::sym_ne". Names of a form that this parser does not handle are returned
 * unchanged. The text is in the arena.
 */
const char *af_symbol_readable(struct af_arena *arena, const char *name);

/*
 * Whether the name takes a std::string of the new C++ ABI (YES) or of the old one (NO);
 * UNKNOWN: it takes none in a form that is recognised here.
 */
enum af_answer af_symbol_cxx11abi(const char *name);

#endif
