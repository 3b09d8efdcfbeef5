/*
 * proof_gpu.c: checks of the GPU code: whether it is there for the GPUs of the
 * machine, and what the driver must be able to do with it.
 */
#include "fit/proof_rules.h"

void af_prove_gpu(struct af_prover *prover)
{
    const struct af_binary *binary = prover->question->binary;
    enum af_answer answer = binary->has_gpu_code || !binary->is_complete ? AF_UNKNOWN : AF_YES;
    const char *text = answer == AF_YES ? "holds no GPU code" : "its GPU code was not read";
    for (int id = AF_CHECK_GPU_CODE; id <= AF_CHECK_COMPRESSION_DRIVER; id++)
        af_prover_set(prover, (enum af_check_id)id, answer, "%s", text);
}
