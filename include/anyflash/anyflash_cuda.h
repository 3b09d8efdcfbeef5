/*
 * anyflash_cuda.h: attention on NVIDIA GPUs by FlashAttention-2's own kernels, without torch
 * and without CUDA's toolkit or runtime. The functions are in libanyflash for Linux and
 * Windows. They take the kernels from a pack, one file with all of them as PTX
 * (docs/reference/pack.md), and NVIDIA's driver, 520 or newer, compiles each at its first use
 * for the GPU at hand, of compute capability 8.0 or newer. That takes about half a second a
 * kernel; the driver keeps the result for later processes. On Hopper and Blackwell GPUs
 * FlashAttention-3 and -4 are faster than these kernels.
 *
 *     struct anyflash_attend_args args = ANYFLASH_ATTEND_ARGS_INIT;   (device pointers)
 *     struct anyflash_cuda_args cuda = ANYFLASH_CUDA_ARGS_INIT;
 *     cuda.stream = stream;
 *     anyflash_cuda_workspace_bytes(&args, &cuda, &cuda.workspace_bytes, &err);
 *     cudaMalloc(&cuda.workspace, cuda.workspace_bytes);
 *     status = anyflash_cuda_attend(&args, &cuda, &err);
 *
 * Describe a problem as in anyflash.h, with pointers to memory of one device. The process must
 * have a CUDA context on that device. A call checks its arguments, starts kernels on the stream
 * and returns; it allocates no memory of the device and waits for nothing. It can be captured
 * in a CUDA graph once its kernels are loaded (anyflash_cuda_prepare()); before, it fails with
 * UNSUPPORTED. Index arrays (cu_seqlens, seqused_k, block_table, ...) are on the device and are
 * therefore not checked.
 *
 * What the kernels compute differently from anyflash_attend():
 * - q, k, v and o have one type, f16 or bf16; D = Dv, a multiple of 8, at most 256;
 * - no bias, mask, sinks, fp8, seqused_q or head sizes beyond 256; masks are aligned to
 *   the bottom right; a page's number of rows is a multiple of 256; page_count is ignored;
 *   softcap excludes dropout, and pages exclude leftpad_k;
 * - cu_seqlens_q and cu_seqlens_k must both be given, or neither;
 * - lse must be contiguous; it is +infinity for a row that sees no key;
 * - rotary_cos and rotary_sin point to elements of q's type, rotary_dim is a multiple
 *   of 16;
 * - dropout uses FlashAttention's own random numbers and rounds 1 - p down to a multiple
 *   of 1/255; it excludes pages, k_new, cache_batch_idx and splits;
 * - tensors lie at multiples of 16 bytes, and their strides are multiples of 8 elements.
 * A pack may lack head sizes, types and features. A call that needs something the kernels
 * or the pack lack starts nothing and fails with UNSUPPORTED; the message names it.
 *
 * Valid C99, C11 and C++11. It includes no header of CUDA or torch.
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
    int32_t device;     /* number of the device; -1, which INIT sets: the current one */
    int32_t splits;     /* forward: into how many parts keys are split, at most 128; 0: the
                           library decides */
    void *stream;       /* a cudaStream_t; NULL: the default stream */

    /* Device memory, aligned to 256 bytes; it must exist until the kernels have ended. */
    void *workspace;
    size_t workspace_bytes;

    /*
     * Dropout. Forward writes its seed and offset to rng_state, and backward reads them
     * there. They are args->dropout_seed and args->dropout_offset; increase the offset by
     * 32 * B * H after each forward call. To replay a CUDA graph with other numbers, give
     * both pointers: the kernel then reads the seed and the offset from the device.
     */
    uint64_t *rng_state;           /* [2]; needed with dropout, else may be NULL */
    const int64_t *dropout_seed;   /* on the device, or NULL */
    const int64_t *dropout_offset; /* on the device, or NULL; args->dropout_offset is added */
    void *dropout_scores;          /* output in q's type, or NULL: the softmax, negative where
                                      dropped; [B, H, Sq, Sk], both lengths rounded up to 128 */

    /* Backward. */
    float *softmax_d;      /* row sums of dout * o, or NULL: [B, H, Sq rounded up to 128];
                              packed: [H, total_q + 128 * B] */
    int32_t deterministic; /* 1: the same bits in every call; slower, more workspace */
    int32_t zero_unused;   /* 1: of packed sequences with grouped heads, rows of k and v that no
                              sequence has get gradients of 0, not any; dq, dk, dv and
                              softmax_d are the caller's to clear */

    /*
     * Where workspace is NULL: returns size_bytes of device memory on args' device, aligned to
     * 256 bytes, or NULL, which fails with NO_MEMORY. Called at most once a call, before any
     * kernel starts, on the calling thread; the caller frees what it returned. May be NULL.
     */
    void *(*allocate)(void *context, size_t size_bytes);
    void *allocate_context;
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
 * Writes what the pack contains to `text`: its release and file, then lines "forward: head size
 * 64: bf16"; or why there is none. The text is cut at size_bytes and always NUL-terminated.
 * Needs no GPU.
 */
ANYFLASH_API void anyflash_cuda_contents(char *text, size_t size_bytes);

/*
 * Opens the pack that all calls of this process use. Without it, the first call opens the file
 * that the environment variable ANYFLASH_KERNELS names, else flash-attn-2.8.3.post2.kernels in
 * the library's folder, or in ../share/anyflash or ../../share/anyflash from there. Fails with
 * NOT_FOUND or IO if it cannot be read or another user may have written it; DATA if it is
 * damaged, or of another flash-attn; ARGUMENT if another one is in use.
 */
ANYFLASH_API enum anyflash_status anyflash_cuda_open(const char *path,
                                                     struct anyflash_error *err);

/*
 * Load the kernels of such a call and start nothing: before a CUDA graph is captured, or
 * before the first request. Fail as the call; they need no workspace.
 */
ANYFLASH_API enum anyflash_status anyflash_cuda_prepare(const struct anyflash_attend_args *args,
                                                        const struct anyflash_cuda_args *cuda,
                                                        struct anyflash_error *err);
ANYFLASH_API enum anyflash_status anyflash_cuda_prepare_backward(
    const struct anyflash_attend_backward_args *args, const struct anyflash_cuda_args *cuda,
    struct anyflash_error *err);

/*
 * Writes to `text`, a line for each kernel that such a call would start: its name in the pack,
 * its grid, whether it is loaded; then the parts of split keys and the workspace. The text is
 * cut at size_bytes and always NUL-terminated. Fails as the call.
 */
ANYFLASH_API enum anyflash_status anyflash_cuda_explain(const struct anyflash_attend_args *args,
                                                        const struct anyflash_cuda_args *cuda,
                                                        char *text, size_t size_bytes,
                                                        struct anyflash_error *err);

#ifdef __cplusplus
}
#endif

#endif
