/*
 * proof_rules.h: the checks of proof.c, one function each; a check sets its
 * answer and its evidence. Private to the proof.
 */
#ifndef AF_KIT_PROOF_PROOF_TORCH_H
#define AF_KIT_PROOF_PROOF_TORCH_H

#include "kit/proof/dating.h"
#include "kit/proof/proof.h"

/* What the checks share. */
struct af_proof_draft {
    const struct af_proof_question *question;
    struct af_arena *arena;
    struct af_proof_symbol_needs wants;
    struct af_dating dating;
    struct af_proof *proof;
    struct af_proof_check *checks; /* by id */
    /* NO: registering its operators ends the process; UNKNOWN: it may */
    enum af_answer registers;
};

/* Sets the check's answer and its evidence, formatted into the arena. */
void af_proof_set(struct af_proof_draft *draft, enum af_proof_check_id id,
                  enum af_answer answer, const char *format, ...) AF_PRINTF(4, 5);

/* proof_torch.c: what torch must agree on. */
void af_prove_cxx_abi(struct af_proof_draft *draft);
void af_prove_cuda_runtime(struct af_proof_draft *draft);
void af_prove_layout(struct af_proof_draft *draft);

#endif
