/*
 * proof_gpu.c: the checks of the GPU code, made by gpu_checks.c: whether it is
 * there for the GPUs of the machine, and what the driver must be able to do.
 */
#include "kit/proof/gpu_checks.h"
#include "kit/proof/proof_rules.h"

void af_prove_gpu(struct af_proof_draft *draft)
{
    const struct af_proof_question *question = draft->question;
    const struct af_binary *binary = question->binary;
    if (question->gpu_code != NULL) {
        struct af_view *view = af_arena_alloc(draft->arena, sizeof *view);
        if (view == NULL)
            return;
        af_view_make(question->machine, question->tables, question->arch, draft->arena, view);
        af_proof_gpu(question->gpu_code, question->kernels, view, question->tables,
                     draft->arena, &draft->checks[AF_CHECK_GPU_CODE]);
        return;
    }
    enum af_answer answer = binary->has_gpu_code || !binary->is_complete ? AF_UNKNOWN : AF_YES;
    const char *text = answer == AF_YES ? "holds no GPU code" : "its GPU code was not read";
    for (int id = AF_CHECK_GPU_CODE; id <= AF_CHECK_COMPRESSION_DRIVER; id++)
        af_proof_set(draft, (enum af_proof_check_id)id, answer, "%s", text);
}
