/*
 * arguments.h: reads the arguments of a boxed kernel from the dispatcher's
 * stack, with one letter per argument of its schema.
 *
 * T is a tensor, U a tensor that may be undefined, I an integer, F a float, B a
 * bool; t, i and f are T?, int? and float?, whose slot is NULL or the address of
 * a heap cell with the value.
 */
#ifndef AF_BINDINGS_TORCH_ARGUMENTS_H
#define AF_BINDINGS_TORCH_ARGUMENTS_H

#include "bindings/torch/shim.h"

#define AF_TORCH_ARGUMENTS_MAX 20

struct af_torch_arguments {
    const struct af_torch_shim *shim;
    const char *letters;
    size_t count;
    uint64_t values[AF_TORCH_ARGUMENTS_MAX]; /* the bits of handle, integer, float or bool */
    bool given[AF_TORCH_ARGUMENTS_MAX];      /* false: None, or an undefined tensor */
    void *cells[AF_TORCH_ARGUMENTS_MAX];     /* of optional arguments */
};

/*
 * Reads `count` slots. If the schema is shorter than `letters`, the remaining
 * arguments are not given. `arguments` takes ownership of what the slots own.
 */
void af_torch_arguments_open(const struct af_torch_shim *shim, const char *letters,
                             const uint64_t *stack, uint64_t count,
                             struct af_torch_arguments *arguments);

/* Deletes tensors and cells. */
void af_torch_arguments_close(struct af_torch_arguments *arguments);

/* The argument at `index`; NULL or `otherwise` if it is not given. */
af_torch_tensor af_torch_tensor_at(const struct af_torch_arguments *arguments, size_t index);
double af_torch_float_at(const struct af_torch_arguments *arguments, size_t index,
                         double otherwise);
int64_t af_torch_integer_at(const struct af_torch_arguments *arguments, size_t index,
                            int64_t otherwise);
bool af_torch_bool_at(const struct af_torch_arguments *arguments, size_t index);

/* Converts a tensor to a slot of the stack, and back. */
uint64_t af_torch_slot_of(af_torch_tensor tensor);
af_torch_tensor af_torch_tensor_in(uint64_t slot);

#endif
