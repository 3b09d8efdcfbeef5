/*
 * dating.h: what the undefined symbols of an extension say about it: whether it uses
 * torch's C++ objects, which std::string ABI it was compiled with, and which torch
 * it was built for. Private to the proof. Mangled names are those of the Itanium C++
 * ABI, chapter 5.1.
 */
#ifndef AF_KIT_PROOF_DATING_H
#define AF_KIT_PROOF_DATING_H

#include "kit/catalog/tables.h"
#include "kit/catalog/torch_symbols.h"
#include "kit/formats/binary.h"

/* A set of torch minors: bit i is row i of tables->torch. */
typedef uint64_t af_proof_torch_set;
#define AF_PROOF_TORCH_SET_MAX 64u

/* Whether the mangled name is in a namespace of torch: c10, at, torch, caffe2. */
bool af_proof_name_is_torch(const char *name);

/*
 * "c10::SymInt::sym_ne" of a mangled name: the qualified name without template
 * arguments and parameters; the mangled name itself where it is not so simple.
 * In the arena; NULL without memory.
 */
const char *af_proof_name_readable(struct af_arena *arena, const char *name);

struct af_proof_symbol_needs {
    bool torch;         /* functions or objects of torch's C++ */
    bool stable_torch;  /* torch's stable C functions: aoti_torch_*, torch_* */
    bool objects;       /* C++ objects such as tensors: the position of their members matters */
    bool tensors;       /* at::Tensor itself */
    bool registers;     /* registers operators when it is loaded: TORCH_LIBRARY and similar */
    bool torch_python;  /* torch's own binding of tensors to Python */
    bool tensor_counts; /* counts references to tensors as torch 2.10 and later do */
    bool owns_tensors;  /* creates or keeps tensors, and so releases references */
    enum af_answer cxx11abi; /* UNKNOWN: passes no std::string */
    const char *abi_name;    /* the undefined symbol that shows it; or NULL */
};

void af_proof_symbol_needs_read(const struct af_binary *binary,
                                struct af_proof_symbol_needs *out);

/* The torch minors it may have been built for, and how that is known. */
struct af_dating {
    af_proof_torch_set minors;
    const char *source; /* "by its name", "by its symbols"; never NULL */
    bool name_is_wrong; /* its name states a torch that its bytes rule out */
};

/*
 * Finds out for which torch minors the extension may have been built, from its
 * bytes; then narrows that by `stated` ("2.8"; NULL: its name says nothing).
 * `fitting`: the minors that export all torch symbols that it needs (all bits: not
 * known). Texts in the arena.
 */
enum anyflash_status af_dating_make(const struct af_binary *binary,
                                    const struct af_proof_symbol_needs *wants,
                                    const struct af_tables *tables, af_proof_torch_set fitting,
                                    const char *stated, struct af_arena *arena,
                                    struct af_dating *out, struct anyflash_error *err);

/*
 * Rows of tables->torch (bit i: row i) that export every function and object of
 * torch's namespaces that the extension needs; rows whose symbols are not in the
 * table are included. A name that no release exports comes from another library and
 * does not count. For af_proof_question.fitting_torch.
 */
uint64_t af_proof_torch_fitting(const struct af_catalog_torch_symbols *symbols,
                                const struct af_tables *tables, const struct af_binary *binary);

#endif
