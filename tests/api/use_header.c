/*
 * use_header.c: uses anyflash.h and anyflash_cuda.h in the language subset that C99 and C++11
 * share. It is compiled as both, without warnings, but not run.
 */
#include <anyflash/anyflash_cuda.h>

int use_header(float *numbers);

int use_header(float *numbers)
{
    struct anyflash_attend_args args = ANYFLASH_ATTEND_ARGS_INIT;
    struct anyflash_tensor none = ANYFLASH_TENSOR_NONE;
    struct anyflash_cuda_args cuda = ANYFLASH_CUDA_ARGS_INIT;
    struct anyflash_error err;
    args.batch = args.heads = args.kv_heads = 1;
    args.q = anyflash_bshd(numbers, ANYFLASH_F32, 1, 8, 8);
    args.k = anyflash_bhsd(numbers, ANYFLASH_F32, 1, 8, 8);
    args.bias = none;
    return anyflash_attend(NULL, &args, &err) == ANYFLASH_OK && cuda.device == -1;
}
