/*
 * proof_torch.h: the proof in progress, and the checks of what an extension and
 * torch must agree on. A check sets its answer and its evidence. Private to proof.c
 * and proof_torch.c.
 */
#ifndef AF_KIT_PROOF_PROOF_TORCH_H
#define AF_KIT_PROOF_PROOF_TORCH_H

#include "kit/proof/built_for.h"
#include "kit/proof/proof.h"

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
