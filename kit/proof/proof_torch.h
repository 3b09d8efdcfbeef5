/*
 * proof_torch.h: what the undefined symbols of an extension say about it: whether it uses
 * torch's C++ objects, which std::string ABI it was compiled with, and which torch it was built
 * for. The checks of proof_torch.c go by that. Private to the proof.
 */
#ifndef AF_KIT_PROOF_PROOF_TORCH_H
#define AF_KIT_PROOF_PROOF_TORCH_H

#include "kit/catalog/tables.h"
#include "kit/catalog/torch_symbols.h"
#include "kit/formats/binary.h"
#include "kit/proof/proof.h"

/* A set of torch minors: bit i is row i of af_tables.torch. */
typedef uint64_t af_proof_torch_set;
#define AF_PROOF_TORCH_SET_MAX 64u

struct af_proof_symbol_needs {
    bool torch;         /* functions or objects of torch's C++ libraries */
    bool stable_torch;  /* torch's stable C functions: aoti_torch_*, torch_* */
    bool objects;       /* uses C++ objects such as tensors, so their memory layout matters */
    bool tensors;       /* at::Tensor itself */
    bool registers;     /* registers operators when it is loaded: TORCH_LIBRARY and similar */
    bool torch_python;  /* uses libtorch_python, which converts tensors to and from Python */
    bool tensor_counts; /* counts tensor references in the way introduced with torch 2.10 */
    bool owns_tensors;  /* creates or stores tensors, so it also releases references to them */
    enum af_answer cxx11abi; /* UNKNOWN: no std::string is passed to or from torch */
};

/* Reads them from the undefined symbols of the extension (torch_needs.c). */
void af_proof_symbol_needs_read(const struct af_binary *binary,
                                struct af_proof_symbol_needs *out);

/* The torch minors that it may have been built for, and how that was found out. */
struct af_built_for {
    af_proof_torch_set minors;
    const char *source; /* "by its name", "by its symbols"; never NULL */
    bool name_is_wrong; /* the torch version in its name is ruled out by its bytes */
};

/*
 * Finds out for which torch minors the extension may have been built, from its bytes; then
 * narrows that by `stated` ("2.8"; NULL: the wheel's name does not say). `fitting` is the set
 * of minors that export all torch symbols that the extension needs (all bits set: not known).
 * Texts are in the arena. In torch_dating.c.
 */
void af_built_for_make(const struct af_binary *binary,
                       const struct af_proof_symbol_needs *wants, af_proof_torch_set fitting,
                       const char *stated, struct af_arena *arena, struct af_built_for *out);

/*
 * Rows of af_tables.torch (bit i: row i) that export every function and object of
 * torch's namespaces, and every stable C function of torch, that the extension needs, on its
 * processor; rows whose symbols
 * are not in the table are included. A name that no release exports comes from
 * another library and does not count. For af_proof_question.fitting_torch. In torch_needs.c.
 */
uint64_t af_proof_torch_fitting(const struct af_catalog_torch_symbols *symbols,
                                const struct af_binary *binary);

#endif
