/*
 * arguments.c: converts slots of the dispatcher's stack to values, and frees
 * them.
 */
#include "bindings/torch/arguments.h"

#include <string.h>

af_torch_tensor af_torch_tensor_in(uint64_t slot)
{
    void *pointer;
    memcpy(&pointer, &slot, sizeof pointer);
    return pointer;
}

uint64_t af_torch_slot_of(af_torch_tensor tensor)
{
    uint64_t slot = 0;
    memcpy(&slot, &tensor, sizeof tensor);
    return slot;
}

static bool is_optional(char letter)
{
    return letter == 't' || letter == 'i' || letter == 'f';
}

static bool is_tensor(char letter)
{
    return letter == 'T' || letter == 'U' || letter == 't';
}

/* An undefined tensor has one dimension of size 0. */
static bool is_undefined(const struct af_torch_shim *shim, af_torch_tensor tensor)
{
    int64_t dim = 0;
    int64_t *sizes = NULL;
    return shim->aoti_torch_get_dim(tensor, &dim) == 0 && dim == 1 &&
           shim->aoti_torch_get_sizes(tensor, &sizes) == 0 && sizes[0] == 0;
}

void af_torch_arguments_open(const struct af_torch_shim *shim, const char *letters,
                             const uint64_t *stack, uint64_t count,
                             struct af_torch_arguments *arguments)
{
    *arguments = (struct af_torch_arguments){.shim = shim, .letters = letters};
    for (size_t i = 0; i < count && letters[i] != '\0'; i++) {
        uint64_t value = stack[i];
        bool given = true;
        if (is_optional(letters[i])) {
            arguments->cells[i] = af_torch_tensor_in(value);
            given = value != 0;
            value = given ? *(const uint64_t *)arguments->cells[i] : 0;
        }
        if (given && (letters[i] == 'U' || letters[i] == 't'))
            given = !is_undefined(shim, af_torch_tensor_in(value));
        arguments->values[i] = value;
        arguments->given[i] = given;
        arguments->count = i + 1;
    }
}

void af_torch_arguments_close(struct af_torch_arguments *arguments)
{
    const struct af_torch_shim *shim = arguments->shim;
    for (size_t i = 0; i < arguments->count; i++) {
        if (is_tensor(arguments->letters[i]) && arguments->values[i] != 0)
            shim->aoti_torch_delete_tensor_object(af_torch_tensor_in(arguments->values[i]));
        if (arguments->cells[i] != NULL)
            shim->delete_cell(arguments->cells[i]);
    }
    arguments->count = 0;
}

af_torch_tensor af_torch_tensor_at(const struct af_torch_arguments *arguments, size_t index)
{
    return arguments->given[index] ? af_torch_tensor_in(arguments->values[index]) : NULL;
}

double af_torch_float_at(const struct af_torch_arguments *arguments, size_t index,
                         double otherwise)
{
    double number = otherwise;
    if (arguments->given[index])
        memcpy(&number, &arguments->values[index], sizeof number);
    return number;
}

int64_t af_torch_integer_at(const struct af_torch_arguments *arguments, size_t index,
                            int64_t otherwise)
{
    return arguments->given[index] ? (int64_t)arguments->values[index] : otherwise;
}

bool af_torch_bool_at(const struct af_torch_arguments *arguments, size_t index)
{
    return arguments->given[index] && (arguments->values[index] & 0xff) != 0;
}
