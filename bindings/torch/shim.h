/*
 * shim.h: torch's stable C shim as a table of functions, found in the torch that
 * the process has loaded; views of tensors; and by torch's rules the memory order of a result
 * and contiguous rows.
 */
#ifndef AF_BINDINGS_TORCH_SHIM_H
#define AF_BINDINGS_TORCH_SHIM_H

#include "engine/base/base.h"

typedef void *af_torch_tensor; /* AtenTensorHandle */
typedef void *af_torch_library;

/*
 * A kernel as the dispatcher calls it: the stack has one 64-bit slot per
 * argument of the schema, and the kernel leaves its results there. The kernel
 * must delete tensor arguments; T? is NULL or a heap cell with the value, which
 * the kernel must free, too.
 */
typedef void af_torch_kernel(uint64_t *stack, uint64_t input_count, uint64_t output_count);

#define AF_SHIM(result, name, arguments) result(*name) arguments;
#define AF_SHIM_REGISTRY AF_SHIM
struct af_torch_shim {
/* clang-format off */
#include "bindings/torch/shim_functions.inc"
    /* clang-format on */
    void (*delete_cell)(void *cell); /* frees the cell of a T? */
    void *libtorch_cpu;              /* library in which all were found */
    /* c10::detail::torchCheckFail(), which throws; NULL without `registry` */
    void (*check_fail)(const char *function, const char *file, uint32_t line,
                       const char *message);
    bool outputs_bshd; /* torch's own output has the memory order [B, S, H, D], not q's */
    int32_t cpu;
    int32_t i32;
    int32_t f32;
    int32_t f16;
    int32_t bf16;
};
#undef AF_SHIM
#undef AF_SHIM_REGISTRY

/*
 * Fails with UNSUPPORTED, naming the missing function. Without `registry` those functions and
 * check_fail stay NULL, and the caller owns the cells: kernels are then called from Python,
 * whose frames a C++ exception must not cross.
 */
enum anyflash_status af_torch_shim_load(void *libtorch_cpu, bool registry,
                                        struct af_torch_shim *shim_out,
                                        struct anyflash_error *err);

/* The bits of a slot of the stack: a tensor, a pointer, a float. */
uint64_t af_torch_slot_of(af_torch_tensor tensor);
void *af_torch_pointer_in(uint64_t slot);
double af_torch_float_in(uint64_t slot);

/*
 * Raises RuntimeError with the message by throwing a C++ exception that unwinds
 * the caller: call it last, with nothing left to free. It returns if kernels are
 * called from Python, because an exception must not cross Python's frames.
 */
void af_torch_throw(const struct af_torch_shim *shim, const char *message);

/* A tensor's data, dimensions and type; arrays belong to the tensor. */
struct af_torch_view {
    void *data;
    int64_t dim;
    const int64_t *sizes;
    const int64_t *strides;
    int32_t dtype; /* enum anyflash_dtype; 0: not supported by the engine */
    bool is_i32;
};

/* Returns false when torch fails. */
bool af_torch_view_of(const struct af_torch_shim *shim, af_torch_tensor tensor,
                      struct af_torch_view *view_out);

/* Makes a CPU tensor; NULL when torch fails. */
af_torch_tensor af_torch_new(const struct af_torch_shim *shim, int64_t dim,
                             const int64_t *sizes, const int64_t *strides, int32_t dtype);

#define AF_TORCH_DIM_MAX 4

/*
 * Computes dense strides for `sizes` in the stride order of `like`, as
 * empty_like() does.
 */
void af_torch_dense_strides(int64_t dim, const int64_t *sizes, const int64_t *like,
                            int64_t *strides_out);

/*
 * Makes a contiguous copy if the last dimension of `tensor` (at most
 * AF_TORCH_DIM_MAX dimensions) has a stride other than 1, as in the gradient of
 * a sum; else *copy_out is NULL. False when torch fails.
 */
bool af_torch_packed_rows(const struct af_torch_shim *shim, af_torch_tensor tensor,
                          af_torch_tensor *copy_out);

#endif
