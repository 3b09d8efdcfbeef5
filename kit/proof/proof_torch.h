/*
 * proof_torch.h: what the undefined symbols of an extension say about it: whether it uses
 * torch's C++ objects, which std::string ABI it was compiled with, and which torch it was built
 * for. Then the checks of what both must agree on. Private to the proof.
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
 * torch's namespaces that the extension needs, on its processor; rows whose symbols
 * are not in the table are included. A name that no release exports comes from
 * another library and does not count. For af_proof_question.fitting_torch. In torch_needs.c.
 */
uint64_t af_proof_torch_fitting(const struct af_catalog_torch_symbols *symbols,
                                const struct af_binary *binary);

/* A proof in progress: its inputs and the checks made so far. */
struct af_proof_draft {
    const struct af_proof_question *question;
    struct af_arena *arena;
    struct af_proof_symbol_needs wants;
    struct af_built_for built_for;
    struct af_proof *proof;
    struct af_proof_check *checks; /* by id */
    /* NO: registering its operators aborts the process; UNKNOWN: that is possible */
    enum af_answer registers;
};

/* Sets the check's answer and its evidence, formatted into the arena. */
void af_proof_set(struct af_proof_draft *draft, enum af_proof_check_id id,
                  enum af_answer answer, const char *format, ...) AF_PRINTF(4, 5);

/* The three checks of proof_torch.c; check_layout also sets draft->registers. */
void af_prove_cxx_abi(struct af_proof_draft *draft);
void af_prove_cuda_runtime(struct af_proof_draft *draft);
void af_prove_layout(struct af_proof_draft *draft);

#endif
