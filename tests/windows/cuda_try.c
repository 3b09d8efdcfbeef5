/*
 * cuda_try.c: the GPU side of the engine on Windows, with a stand-in for NVIDIA's driver
 * (tests/launches/fake_driver.c as nvcuda.dll in the folder of system libraries).
 *
 *     cuda_try.exe PACK     PACK: written by tests/launches/stub_pack.py
 *
 * Checks that forward, decoding over parts of the keys and backward start the kernels that they
 * start on Linux, that each is loaded once, that errors of the driver are sentences, and that
 * anyflash_cuda.dll can be loaded.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

#include "anyflash/anyflash_cuda.h"

static struct {
    size_t (*take_launch)(const char **name, const unsigned char **bytes);
    int (*loads)(void);
    void (*capture)(int on);
} driver;

static unsigned char memory[1 << 20] __attribute__((aligned(256)));
static struct anyflash_attend_args args;
static struct anyflash_cuda_args cuda;
static struct anyflash_error err;
static int wrong;

static void check(int is_true, const char *sentence)
{
    wrong += !is_true;
    printf("%s: %s%s%s\n", is_true ? "ok" : "WRONG", sentence, is_true ? "" : ": ",
           is_true ? "" : err.message);
}

static void find(HMODULE library, const char *name, void *function)
{
    FARPROC found = GetProcAddress(library, name);
    check(found != NULL, name);
    memcpy(function, &found, sizeof found);
}

static void reset(int64_t rows, int64_t keys)
{
    args = ANYFLASH_ATTEND_ARGS_INIT;
    cuda = ANYFLASH_CUDA_ARGS_INIT;
    args.batch = 1;
    args.heads = args.kv_heads = 2;
    args.q_len = rows;
    args.k_len = keys;
    args.head_dim = args.value_dim = 64;
    args.q = anyflash_bshd(memory, ANYFLASH_BF16, 2, rows, 64);
    args.k = anyflash_bshd(memory + 4096, ANYFLASH_BF16, 2, keys, 64);
    args.v = anyflash_bshd(memory + 8192, ANYFLASH_BF16, 2, keys, 64);
    args.o = anyflash_bshd(memory + 12288, ANYFLASH_BF16, 2, rows, 64);
    cuda.workspace = memory + (512 << 10);
    cuda.workspace_bytes = 512 << 10;
    cuda.splits = 1;
}

/* The kernels that were started begin with these words; NULL-terminated. */
static int started(const char *const *kernels)
{
    const unsigned char *bytes;
    const char *name;
    for (; driver.take_launch(&name, &bytes) != 0; kernels++) {
        if (*kernels == NULL || strncmp(name, *kernels, strlen(*kernels)) != 0) {
            printf("  %s instead of %s\n", name, *kernels == NULL ? "nothing" : *kernels);
            return 0;
        }
    }
    return *kernels == NULL;
}

static void run_forward(void)
{
    static const char *const kernels[] = {
        "flash_fwd_kernel 64 128 128 4 0 0 bf16 0 0 0 0 0 1 0 0 1x1x2 128x1x1 49152", NULL};
    for (int i = 0; i < 3; i++) {
        reset(5, 300);
        check(anyflash_cuda_attend(&args, &cuda, &err) == ANYFLASH_OK, "forward");
        check(started(kernels) && driver.loads() == 1, "its kernel is loaded once");
    }
}

static void run_splits(void)
{
    static const char *const kernels[] = {"flash_fwd_splitkv_kernel 64 64 256 4 0 0 bf16",
                                          "flash_fwd_splitkv_combine_kernel 64 64 256", NULL};
    reset(5, 300);
    cuda.splits = 3;
    check(anyflash_cuda_attend(&args, &cuda, &err) == ANYFLASH_OK, "three parts of the keys");
    check(started(kernels), "they are merged");
}

static void run_backward(void)
{
    static const char *const kernels[] = {"flash_bwd_dot_do_o_kernel",
                                          "flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel",
                                          "flash_bwd_convert_dq_kernel", NULL};
    static float lse[16];
    reset(5, 64);
    struct anyflash_attend_backward_args gradients = {
        sizeof gradients, &args, args.o, args.q, args.k, args.v, {0}, NULL, NULL};
    gradients.dout = args.o;
    args.lse = lse;
    args.lse_head_stride = 5;
    args.lse_batch_stride = 10;
    check(anyflash_cuda_attend_backward(&gradients, &cuda, &err) == ANYFLASH_OK, "backward");
    check(started(kernels), "its three kernels");
}

static void run_refused(void)
{
    static const char *const none[] = {NULL};
    reset(5, 300);
    args.q.data = memory + 2;
    check(anyflash_cuda_attend(&args, &cuda, &err) == ANYFLASH_E_ARGUMENT,
          "tensors at odd addresses are refused");
    reset(5, 300);
    args.causal = 1;
    driver.capture(1);
    check(anyflash_cuda_attend(&args, &cuda, &err) == ANYFLASH_E_UNSUPPORTED &&
              strstr(err.message, "anyflash_cuda_prepare") != NULL,
          "a graph is no place to load a kernel");
    driver.capture(0);
    _putenv("FAKE_CUDA_FAIL=cuLaunchKernel:700");
    reset(5, 300);
    check(anyflash_cuda_attend(&args, &cuda, &err) == ANYFLASH_E_IO &&
              strstr(err.message, "an illegal memory access") != NULL,
          "an error of the driver is a sentence");
    _putenv("FAKE_CUDA_FAIL=");
    check(started(none), "nothing was started");
}

int main(int count, char **words)
{
    HMODULE library = LoadLibraryA("nvcuda.dll");
    if (count != 2 || library == NULL) {
        fprintf(stderr, "usage: cuda_try.exe PACK, with nvcuda.dll among the system's DLLs\n");
        return 2;
    }
    find(library, "take_launch", &driver.take_launch);
    find(library, "fake_loads", &driver.loads);
    find(library, "fake_capture", &driver.capture);
    check(anyflash_cuda_open(words[1], &err) == ANYFLASH_OK, "the pack");
    run_forward();
    run_splits();
    run_backward();
    run_refused();
    HMODULE ours = LoadLibraryA("anyflash_cuda.dll");
    check(ours != NULL && GetProcAddress(ours, "anyflash_python_flash_attn") != NULL,
          "anyflash_cuda.dll");
    printf("%s\n", wrong == 0 ? "all as it should be" : "something is wrong");
    return wrong != 0;
}
