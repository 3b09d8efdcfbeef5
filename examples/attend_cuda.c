/*
 * attend_cuda.c: forward, backward and a decode step on an NVIDIA GPU, compared with the CPU.
 * It needs a pack of kernels (anyflash_cuda.h), and CUDA's runtime to allocate and copy:
 *
 *     cc attend_cuda.c -I/usr/local/cuda/include -L/usr/local/cuda/lib64 -lanyflash -lcudart \
 *        -lm -o attend_cuda
 *     ANYFLASH_KERNELS=flash-attn-2.8.3.post2.kernels ./attend_cuda
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <anyflash/anyflash_cuda.h>
#include <cuda_runtime_api.h>

enum { HEADS = 8, KV_HEADS = 2, ROWS = 512, DIM = 128 };
#define TOLERANCE 0.02f /* of the largest value; results are bf16 */

/* The tensors, [1, heads, ROWS, DIM] in bf16; decoding has one query, and o of it. */
enum { Q, K, V, DOUT, ONE_Q, O, DQ, DK, DV, ONE_O, TENSORS };
static const struct {
    const char *name;
    int heads, rows;
} shapes[TENSORS] = {{"q", HEADS, ROWS},          {"k", KV_HEADS, ROWS},
                     {"v", KV_HEADS, ROWS},       {"dout", HEADS, ROWS},
                     {"q of decoding", HEADS, 1}, {"o", HEADS, ROWS},
                     {"dq", HEADS, ROWS},         {"dk", KV_HEADS, ROWS},
                     {"dv", KV_HEADS, ROWS},      {"o of decoding", HEADS, 1}};

struct memory {
    void *tensors[TENSORS];
    float *lse;
};

static size_t bytes_of(int tensor)
{
    return (size_t)shapes[tensor].heads * (size_t)shapes[tensor].rows * DIM * 2;
}

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

static struct anyflash_tensor tensor(const struct memory *memory, int which)
{
    return anyflash_bhsd(memory->tensors[which], ANYFLASH_BF16, shapes[which].heads,
                         shapes[which].rows, DIM);
}

/* Attention of the queries `q` to all keys. */
static struct anyflash_attend_args problem(const struct memory *memory, int q, int o)
{
    struct anyflash_attend_args args = ANYFLASH_ATTEND_ARGS_INIT;
    args.batch = 1;
    args.heads = HEADS;
    args.kv_heads = KV_HEADS;
    args.q_len = shapes[q].rows;
    args.k_len = ROWS;
    args.head_dim = args.value_dim = DIM;
    args.q = tensor(memory, q);
    args.k = tensor(memory, K);
    args.v = tensor(memory, V);
    args.o = tensor(memory, o);
    args.causal = 1; /* the last query sees all keys */
    return args;
}

/* A function of anyflash_cuda.h: forward if `backward` is NULL. Allocates its workspace. */
static enum anyflash_status run_on_gpu(const struct anyflash_attend_args *forward,
                                       const struct anyflash_attend_backward_args *backward,
                                       struct anyflash_error *err)
{
    struct anyflash_cuda_args cuda = ANYFLASH_CUDA_ARGS_INIT;
    enum anyflash_status status =
        backward == NULL
            ? anyflash_cuda_workspace_bytes(forward, &cuda, &cuda.workspace_bytes, err)
            : anyflash_cuda_backward_workspace_bytes(backward, &cuda, &cuda.workspace_bytes,
                                                     err);
    if (status != ANYFLASH_OK)
        return status;
    if (cuda.workspace_bytes > 0 &&
        cudaMalloc(&cuda.workspace, cuda.workspace_bytes) != cudaSuccess) {
        snprintf(err->message, sizeof err->message, "no memory for a workspace of %zu bytes",
                 cuda.workspace_bytes);
        return ANYFLASH_E_NO_MEMORY;
    }
    status = backward == NULL ? anyflash_cuda_attend(forward, &cuda, err)
                              : anyflash_cuda_attend_backward(backward, &cuda, err);
    cudaFree(cuda.workspace); /* waits for the kernels */
    return status;
}

/* All three passes, on tensors of the GPU or of the CPU. */
static enum anyflash_status run(const struct memory *memory, int on_gpu,
                                struct anyflash_error *err)
{
    struct anyflash_attend_args forward = problem(memory, Q, O);
    struct anyflash_attend_args decode = problem(memory, ONE_Q, ONE_O);
    struct anyflash_attend_backward_args backward = {0};
    backward.struct_size = sizeof backward;
    backward.forward = &forward;
    forward.lse = memory->lse;
    forward.lse_head_stride = ROWS;
    forward.lse_batch_stride = HEADS * ROWS;
    backward.dout = tensor(memory, DOUT);
    backward.dq = tensor(memory, DQ);
    backward.dk = tensor(memory, DK);
    backward.dv = tensor(memory, DV);
    enum anyflash_status status =
        on_gpu ? run_on_gpu(&forward, NULL, err) : anyflash_attend(NULL, &forward, err);
    if (status == ANYFLASH_OK)
        status = on_gpu ? run_on_gpu(&forward, &backward, err)
                        : anyflash_attend_backward(NULL, &backward, err);
    if (status == ANYFLASH_OK)
        status = on_gpu ? run_on_gpu(&decode, NULL, err) : anyflash_attend(NULL, &decode, err);
    return status;
}

/* Copies the tensors to the GPU, runs all passes there, and copies them into `results`. */
static int run_copied(const struct memory *host, const struct memory *results,
                      struct anyflash_error *err)
{
    struct memory device;
    cudaError_t code = cudaMalloc((void **)&device.lse, HEADS * ROWS * sizeof(float));
    enum anyflash_status status = ANYFLASH_E_IO;
    for (int i = 0; i < TENSORS; i++) {
        if (code == cudaSuccess)
            code = cudaMalloc(&device.tensors[i], bytes_of(i));
        if (code == cudaSuccess)
            code = cudaMemcpy(device.tensors[i], host->tensors[i], bytes_of(i),
                              cudaMemcpyHostToDevice);
    }
    if (code == cudaSuccess) {
        status = run(&device, 1, err);
        for (int i = 0; i < TENSORS && status == ANYFLASH_OK && code == cudaSuccess; i++)
            code = cudaMemcpy(results->tensors[i], device.tensors[i], bytes_of(i),
                              cudaMemcpyDeviceToHost);
    }
    if (code != cudaSuccess)
        snprintf(err->message, sizeof err->message, "%s", cudaGetErrorString(code));
    return status == ANYFLASH_OK && code == cudaSuccess; /* the process frees device memory */
}

/* Largest difference, relative to the largest value of the CPU. */
static float difference(const unsigned short *gpu, const unsigned short *cpu, size_t count)
{
    float most = 0, largest = 0;
    for (size_t i = 0; i < count; i++) {
        most = fmaxf(most, fabsf(from_bf16(gpu[i]) - from_bf16(cpu[i])));
        largest = fmaxf(largest, fabsf(from_bf16(cpu[i])));
    }
    return most / largest;
}

int main(void)
{
    struct anyflash_error err = {ANYFLASH_OK, ""};
    struct memory cpu, gpu;
    int wrong = 0;
    cpu.lse = malloc(HEADS * ROWS * sizeof(float));
    for (int i = 0; i < TENSORS; i++) {
        cpu.tensors[i] = malloc(bytes_of(i));
        gpu.tensors[i] = malloc(bytes_of(i));
        if (cpu.lse == NULL || cpu.tensors[i] == NULL || gpu.tensors[i] == NULL)
            return 1;
        for (size_t j = 0; j < bytes_of(i) / 2; j++)
            ((unsigned short *)cpu.tensors[i])[j] =
                to_bf16((float)rand() / (float)RAND_MAX * 2 - 1);
    }
    if (run(&cpu, 0, &err) != ANYFLASH_OK || !run_copied(&cpu, &gpu, &err)) {
        fprintf(stderr, "error: %s\n", err.message);
        return 1;
    }
    for (int i = O; i < TENSORS; i++) {
        const float found = difference(gpu.tensors[i], cpu.tensors[i], bytes_of(i) / 2);
        printf("%s: largest difference between GPU and CPU %g\n", shapes[i].name,
               (double)found);
        wrong += !(found < TOLERANCE);
    }
    return wrong > 0;
}
