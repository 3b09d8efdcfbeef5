/*
 * call.h: a call of one of flash_attn_2_cuda's functions: its arguments, read one after the
 * other, and its results. After the first error, for which Python's exception is set, nothing
 * is read or made any more, so that a function checks only at its end.
 *
 * Tensors are handles of torch's C shim (torch/csrc/inductor/aoti_torch/c/shim.h), found in the
 * process as Python's functions are. A handle is the address of an at::Tensor, and that is one
 * pointer, which Python knows as tensor._cdata; so a handle for a tensor of Python costs
 * nothing.
 */
#ifndef AF_BINDINGS_FLASH_ATTN_CALL_H
#define AF_BINDINGS_FLASH_ATTN_CALL_H

#include "anyflash/anyflash_cuda.h"
#include "bindings/numpy/python_api.h"

#define AF_CALL_OWNED_MAX 24
#define AF_CALL_DIM_MAX 4

/* Of c10::ScalarType and c10::DeviceType: numbers that torch writes to files, too. */
enum {
    TORCH_UINT8 = 0,
    TORCH_INT32 = 3,
    TORCH_INT64 = 4,
    TORCH_FLOAT16 = 5,
    TORCH_FLOAT32 = 6,
    TORCH_BFLOAT16 = 15
};
enum { TORCH_CUDA = 1 };

/* A tensor of the caller or a new one; `python` is NULL if the argument was None. */
struct tensor {
    struct python_object *python;
    void *data;
    int64_t dim, *sizes, *strides;
    int32_t dtype, device_type, device;
};

struct call {
    struct python_object *module;
    struct python_object *const *next; /* argument */
    bool failed;
    int64_t sizes['Z' + 1]; /* by the letters of shapes; -1: not known yet */
    struct tensor q;
    struct anyflash_attend_args a;
    struct anyflash_cuda_args cuda;
    struct python_object *owned[AF_CALL_OWNED_MAX]; /* references that the call gives back */
    int owned_count;
    void *memory; /* the tensor of af_call_memory() */
};

/*
 * Looks up torch's functions in `torch`, a handle of dlopen(), and _Tensor and _wrap in the
 * module.
 * Fails with UNSUPPORTED, naming what is missing.
 */
enum anyflash_status af_call_load(void *torch, struct python_object *module,
                                  struct anyflash_error *err);

void af_call_begin(struct call *c, struct python_object *module,
                   struct python_object *const *arguments);

/* Gives back the references; `result` goes to the caller of the function, NULL after a failure.
 */
struct python_object *af_call_end(struct call *c, struct python_object *result);

/* Sets RuntimeError with this text unless the condition holds, or a call failed before. */
void af_call_check(struct call *c, bool condition, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Gives the reference to the call. NULL fails: Python has set the exception. */
struct python_object *af_call_own(struct call *c, struct python_object *object);

/* The result of a function of the module, or of a tensor; it belongs to the call. */
struct python_object *af_call_module(struct call *c, const char *name,
                                     struct python_object *first, struct python_object *second,
                                     struct python_object *third);
void af_call_fill(struct call *c, const struct tensor *t, double value);

/*
 * Read the next argument. In `shape` each dimension has a letter: the first tensor with that
 * letter sets its size, the others must agree. An `optional` argument may be None. An index
 * array must be int32, contiguous and on q's device; if `pages` is not NULL, it is a block
 * table, and only its rows must be contiguous.
 */
void af_call_tensor(struct call *c, struct tensor *t, const char *name, const char *shape,
                    bool optional);
const int32_t *af_call_indices(struct call *c, const char *name, const char *shape,
                               bool optional, struct tensor *pages);
int64_t af_call_integer(struct call *c);
int32_t af_call_truth(struct call *c);
float af_call_float(struct call *c);

bool af_call_is_beside(const struct tensor *t, const struct tensor *q);
bool af_call_is_contiguous(const struct tensor *t);
bool af_call_has_rows(const struct tensor *t); /* whose elements are beside each other */

/*
 * af_call_make() makes a contiguous tensor on q's device. af_call_make_like() makes one with
 * the sizes and strides of `like`, unless *t holds the caller's tensor already.
 */
void af_call_make(struct call *c, struct tensor *t, int32_t dtype, int64_t dim,
                  const int64_t *sizes);
void af_call_make_like(struct call *c, struct tensor *t, const struct tensor *like);

/* Allocates memory on q's device, which the end of the call frees; NULL if that fails. May be
   called once in each call. */
void *af_call_memory(struct call *c, int64_t size_bytes);

/*
 * Adds the five functions of flash-attn's extension to `module`, the Python module
 * flash_attn_2_cuda, whose helpers they call; they run the kernels of anyflash_cuda.h. `python`
 * and `torch` are handles of dlopen() with the functions of the interpreter and of torch's C
 * shim. Only the module of the same build calls it. Fails with UNSUPPORTED, naming what Python
 * or torch lacks, or NO_MEMORY.
 */
ANYFLASH_API int32_t anyflash_python_flash_attn(void *python, void *torch, void *module,
                                                struct anyflash_error *err);

#endif
