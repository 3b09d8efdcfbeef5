/*
 * anyflash_cuda.h: attention on NVIDIA GPUs, with FlashAttention-2's own kernels and
 * without torch. `anyflash build` compiles the library, libanyflash_cuda.
 *
 *     struct anyflash_attend_args args = ANYFLASH_ATTEND_ARGS_INIT;   (device pointers)
 *     struct anyflash_cuda_args cuda = ANYFLASH_CUDA_ARGS_INIT;
 *     cuda.stream = stream;
 *     anyflash_cuda_workspace_bytes(&args, &cuda, &cuda.workspace_bytes, &err);
 *     cudaMalloc(&cuda.workspace, cuda.workspace_bytes);
 *     status = anyflash_cuda_attend(&args, &cuda, &err);
 *
 * Problems are those of anyflash.h, with all pointers to the memory of one device. A
 * call checks its arguments, starts kernels on the stream and returns; it allocates
 * nothing, waits for nothing and keeps no state, so it can be captured in a CUDA graph.
 * Index arrays (cu_seqlens, seqused_k, block_table, ...) are on the device and are
 * therefore not checked.
 *
 * What the kernels compute differently from anyflash_attend():
 * - f16 and bf16 only; D = Dv, a multiple of 8, at most 256; o has the type of q;
 * - no bias, mask, sinks, fp8, seqused_q or head sizes beyond 256; masks are aligned to
 *   the bottom right; pages have a multiple of 256 rows; page_count is not used; no
 *   softcap with dropout; only one of leftpad_k and pages;
 * - cu_seqlens_q and cu_seqlens_k come together;
 * - lse is contiguous, and +infinity for a row that sees no key;
 * - rotary_cos and rotary_sin point to elements of q's type, rotary_dim is a multiple
 *   of 16;
 * - with seqused_k the keys are those of a cache: lengths are not cumulative;
 * - dropout has FlashAttention's own generator, and p is rounded to a multiple of 1/255.
 * A build may lack head sizes, types and features. What is not supported fails with
 * UNSUPPORTED, naming it; nothing was started then.
 *
 * Valid C99, C11 and C++11. Needs neither CUDA's headers nor torch's.
 */
#ifndef ANYFLASH_ANYFLASH_CUDA_H
#define ANYFLASH_ANYFLASH_CUDA_H

#include <anyflash/anyflash.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How a problem is run. Start from ANYFLASH_CUDA_ARGS_INIT. */
struct anyflash_cuda_args {
    size_t struct_size; /* sizeof(struct anyflash_cuda_args) */
    int32_t device;     /* its number, or -1: the current one. INIT sets -1 */
    int32_t splits;     /* forward: parts of the keys, at most 128; 0: by the library */
    void *stream;       /* a cudaStream_t; NULL: the default stream */

    /* Device memory, aligned to 256 bytes, until the kernels have ended. */
    void *workspace;
    size_t workspace_bytes;

    /*
     * Dropout: two numbers on the device, seed and offset, which forward writes and
     * backward reads. The offset of the next call must be larger by 32 * B * H. The
     * numbers are those of the arguments or, so that a graph can be replayed with other
     * ones, read from the device when the kernel runs.
     */
    uint64_t *rng_state;           /* [2]; needed with dropout, else may be NULL */
    const int64_t *dropout_seed;   /* on the device, or NULL: args->dropout_seed */
    const int64_t *dropout_offset; /* on the device, added to args->dropout_offset */
    void *dropout_scores;          /* [B, H, Sq, Sk], both rounded up to 128, in q's type:
                                       softmax, negative where dropped; or NULL */

    /* Backward. */
    float *softmax_d;      /* row sums of dout * o, or NULL: [B, H, Sq rounded up to 128];
                              packed: [H, total_q + 128 * B] */
    int32_t deterministic; /* 1: the same bits in every call; slower, more workspace */
    int32_t reserved;      /* 0 */
};

/* clang-format off */
#define ANYFLASH_CUDA_ARGS_INIT anyflash_cuda_args_init()
/* clang-format on */

static inline struct anyflash_cuda_args anyflash_cuda_args_init(void)
{
    struct anyflash_cuda_args args;
    unsigned char *bytes = (unsigned char *)&args;
    size_t i;
    for (i = 0; i < sizeof args; i++)
        bytes[i] = 0;
    args.struct_size = sizeof args;
    args.device = -1;
    return args;
}

/*
 * Starts attention. Fails with ARGUMENT or UNSUPPORTED, naming the argument; NO_MEMORY
 * if the workspace is too small; NOT_FOUND without a usable device; IO if CUDA reports
 * an error.
 */
ANYFLASH_API enum anyflash_status anyflash_cuda_attend(const struct anyflash_attend_args *args,
                                                       const struct anyflash_cuda_args *cuda,
                                                       struct anyflash_error *err);

/*
 * Starts the gradients. dbias, dsinks and dlse are not supported; dq, dk and dv are
 * needed. Fails as anyflash_cuda_attend().
 */
ANYFLASH_API enum anyflash_status anyflash_cuda_attend_backward(
    const struct anyflash_attend_backward_args *args, const struct anyflash_cuda_args *cuda,
    struct anyflash_error *err);

/* The bytes of workspace of such a call; exact. Fail as the call. */
ANYFLASH_API enum anyflash_status anyflash_cuda_workspace_bytes(
    const struct anyflash_attend_args *args, const struct anyflash_cuda_args *cuda,
    size_t *needed_bytes_out, struct anyflash_error *err);
ANYFLASH_API enum anyflash_status anyflash_cuda_backward_workspace_bytes(
    const struct anyflash_attend_backward_args *args, const struct anyflash_cuda_args *cuda,
    size_t *needed_bytes_out, struct anyflash_error *err);

/*
 * Writes what this build contains to `text`, as lines "forward: head size 64: bf16",
 * then "without: dropout" for each feature that it lacks. The text is cut at size_bytes
 * and always NUL-terminated. Needs no GPU.
 */
ANYFLASH_API void anyflash_cuda_contents(char *text, size_t size_bytes);

#ifdef __cplusplus
}
#endif

#endif
