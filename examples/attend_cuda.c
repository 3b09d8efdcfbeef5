/*
 * attend_cuda.c: computes attention on an NVIDIA GPU and compares it with the CPU's. The
 * library is in the wheel that `anyflash build` makes; FOLDER is flash_attn_2_cuda inside it:
 *
 *     cc attend_cuda.c -I/usr/local/cuda/include -L/usr/local/cuda/lib64 -LFOLDER \
 *        -lanyflash_cuda -lanyflash -lcudart -lm -Wl,-rpath,FOLDER -o attend_cuda
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <anyflash/anyflash_cuda.h>
#include <cuda_runtime_api.h>

enum { HEADS = 8, KV_HEADS = 2, ROWS = 512, DIM = 128, MOST = HEADS * ROWS * DIM };
#define TOLERANCE 0.02f /* results are bf16, of size 1 */

/* bf16 is the upper half of an f32. */
static unsigned short to_bf16(float number)
{
    union {
        float number;
        unsigned bits;
    } both = {number};
    return (unsigned short)(both.bits >> 16);
}

static float from_bf16(unsigned short half)
{
    union {
        unsigned bits;
        float number;
    } both = {(unsigned)half << 16};
    return both.number;
}

/* A problem on [1, heads, ROWS, DIM] tensors in bf16. */
static struct anyflash_attend_args problem(void *q, void *k, void *v, void *o)
{
    struct anyflash_attend_args args = ANYFLASH_ATTEND_ARGS_INIT;
    args.batch = 1;
    args.heads = HEADS;
    args.kv_heads = KV_HEADS;
    args.q_len = args.k_len = ROWS;
    args.head_dim = args.value_dim = DIM;
    args.q = anyflash_bhsd(q, ANYFLASH_BF16, HEADS, ROWS, DIM);
    args.k = anyflash_bhsd(k, ANYFLASH_BF16, KV_HEADS, ROWS, DIM);
    args.v = anyflash_bhsd(v, ANYFLASH_BF16, KV_HEADS, ROWS, DIM);
    args.o = anyflash_bhsd(o, ANYFLASH_BF16, HEADS, ROWS, DIM);
    args.causal = 1;
    return args;
}

/* Attention on the GPU: [0] to [2] of `host` are q, k and v, [3] receives o. 0: no error. */
static int attend_on_gpu(unsigned short *host[4], struct anyflash_error *err)
{
    const size_t bytes = MOST * sizeof *host[0];
    void *device[4] = {NULL, NULL, NULL, NULL};
    struct anyflash_cuda_args cuda = ANYFLASH_CUDA_ARGS_INIT;
    int code = cudaSuccess;
    for (int i = 0; i < 4 && code == cudaSuccess; i++)
        code = cudaMalloc(&device[i], bytes);
    for (int i = 0; i < 3 && code == cudaSuccess; i++)
        code = cudaMemcpy(device[i], host[i], bytes, cudaMemcpyHostToDevice);
    if (code != cudaSuccess) {
        snprintf(err->message, sizeof err->message, "%s", cudaGetErrorString(code));
        return 1;
    }
    struct anyflash_attend_args args = problem(device[0], device[1], device[2], device[3]);
    enum anyflash_status status =
        anyflash_cuda_workspace_bytes(&args, &cuda, &cuda.workspace_bytes, err);
    if (status == ANYFLASH_OK && cuda.workspace_bytes > 0)
        code = cudaMalloc(&cuda.workspace, cuda.workspace_bytes);
    if (status == ANYFLASH_OK && code == cudaSuccess)
        status = anyflash_cuda_attend(&args, &cuda, err);
    if (status == ANYFLASH_OK && code == cudaSuccess)
        code = cudaMemcpy(host[3], device[3], bytes, cudaMemcpyDeviceToHost);
    if (code != cudaSuccess)
        snprintf(err->message, sizeof err->message, "%s", cudaGetErrorString(code));
    for (int i = 0; i < 4; i++)
        cudaFree(device[i]);
    cudaFree(cuda.workspace);
    return status != ANYFLASH_OK || code != cudaSuccess;
}

int main(void)
{
    struct anyflash_error err = {ANYFLASH_OK, ""};
    unsigned short *host[5]; /* q, k, v, o of the GPU, o of the CPU */
    float largest = 0;
    for (int i = 0; i < 5; i++) {
        host[i] = malloc(MOST * sizeof *host[i]);
        if (host[i] == NULL)
            return 1;
        for (int j = 0; j < MOST; j++)
            host[i][j] = to_bf16((float)rand() / (float)RAND_MAX * 2 - 1);
    }
    struct anyflash_attend_args args = problem(host[0], host[1], host[2], host[4]);
    if (anyflash_attend(NULL, &args, &err) != ANYFLASH_OK || attend_on_gpu(host, &err)) {
        fprintf(stderr, "error: %s\n", err.message);
        return 1;
    }
    for (int j = 0; j < MOST; j++)
        largest = fmaxf(largest, fabsf(from_bf16(host[3][j]) - from_bf16(host[4][j])));
    printf("largest difference between GPU and CPU: %g\n", (double)largest);
    for (int i = 0; i < 5; i++)
        free(host[i]);
    return largest < TOLERANCE ? 0 : 1;
}
