/*
 * proof_draft.h: a proof in progress, and the checks that proof.c does not make itself. Private
 * to the proof.
 */
#ifndef AF_KIT_PROOF_PROOF_DRAFT_H
#define AF_KIT_PROOF_PROOF_DRAFT_H

#include "kit/proof/proof.h"
#include "kit/proof/proof_torch.h"

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

/* Whether Python accepts the file as a module; in proof_python.c. */
void af_prove_python(struct af_proof_draft *draft);

/*
 * The three checks of proof_symbols.c, in this order: the first sets proof->missing_libraries,
 * which the others use; the second sets proof->missing.
 */
void af_prove_libraries(struct af_proof_draft *draft);
void af_prove_symbols(struct af_proof_draft *draft);
void af_prove_symbol_versions(struct af_proof_draft *draft);

/* The three checks of proof_torch.c; af_prove_layout() also sets draft->registers. */
void af_prove_cxx_abi(struct af_proof_draft *draft);
void af_prove_cuda_runtime(struct af_proof_draft *draft);
void af_prove_layout(struct af_proof_draft *draft);

#endif
