/*
 * fake_torch.h: the part of libtorch_cpu that the bindings use, over plain
 * memory. Tests can count live objects, make torch fail, and catch what is
 * thrown.
 */
#ifndef FAKE_TORCH_H
#define FAKE_TORCH_H

#include <setjmp.h>

#include "bindings/torch/shim.h"

#define AF_SHIM(result, name, arguments) result name arguments;
#define AF_SHIM_REGISTRY AF_SHIM
/* clang-format off */
#include "bindings/torch/shim_functions.inc"
/* clang-format on */
#undef AF_SHIM
#undef AF_SHIM_REGISTRY

enum { FAKE_I32 = 3, FAKE_F16 = 5, FAKE_F32 = 6, FAKE_F64 = 7, FAKE_BF16 = 15 };
enum { FAKE_CPU = 0 };

struct fake_tensor {
    int32_t dtype;
    int32_t device;
    int64_t dim;
    int64_t sizes[5];
    int64_t strides[5];
    void *data;
    void *memory; /* its data, if the tensor owns it */
};

/* Contiguous and zeroed, with elements of 8 bytes at most. */
struct fake_tensor *fake_tensor_new(int32_t dtype, int64_t dim, const int64_t *sizes);
/* A second handle of the same memory. */
struct fake_tensor *fake_tensor_view(const struct fake_tensor *of);
void fake_tensor_free(struct fake_tensor *tensor);

/* A cell of an optional argument, with these bits. */
uint64_t fake_cell(uint64_t bits);
void fake_cell_free(void *cell);

/*
 * Calls the kernel registered as `name`. Returns false if it threw;
 * fake_message() is then its message.
 */
bool fake_call(const char *name, uint64_t *stack, uint64_t inputs, uint64_t outputs);
const char *fake_message(void);

/* Tensors and cells that were created and not deleted. */
int fake_living(void);

/* How often torch's own kernels were called; they return tensors of zeros, or refuse. */
int fake_own_calls(void);
void fake_refuse_own(bool refuse);

/* Makes the nth shim call that can fail, counted from now, fail; 0: none. */
void fake_fail_nth(int nth);

void fake_set_threads(int count);
int fake_parallel_calls(void);

#endif
