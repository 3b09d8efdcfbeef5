/*
 * ops.c: attention as operators of our own. Unlike the kernels of sdpa.c they
 * have no kernel to fall back to: errors are thrown as exceptions, after
 * everything received from the dispatcher has been deleted. The kernels are
 * registered at the end of the file; like the operators, they stay for the life
 * of the process.
 */
#include "bindings/torch/ops.h"

#include "anyflash/anyflash_torch.h"

#include <pthread.h>
#include <string.h>

#include "bindings/torch/threads.h"

struct af_ops_shim af_ops;

static void drop(af_torch_tensor tensor)
{
    if (tensor != NULL)
        af_ops.base.aoti_torch_delete_tensor_object(tensor);
}

/* Makes a contiguous tensor and describes it; NULL when torch fails. */
static af_torch_tensor new_tensor(int32_t rank, const int64_t *sizes, int32_t dtype,
                                  struct af_array *array_out)
{
    int64_t strides[AF_ARRAY_RANK_MAX];
    int64_t step = 1;
    for (int32_t i = rank - 1; i >= 0; i--) {
        strides[i] = step;
        step *= sizes[i] > 0 ? sizes[i] : 1;
    }
    af_torch_tensor tensor = af_torch_new(&af_ops.base, rank, sizes, strides, dtype);
    if (tensor == NULL)
        return NULL;
    struct af_array array = {.given = true, .type = dtype, .rank = rank};
    memcpy(array.sizes, sizes, (size_t)rank * sizeof *sizes);
    memcpy(array.strides, strides, (size_t)rank * sizeof *strides);
    if (!af_ops_data(&af_ops, tensor, sizes, rank, &array.data)) {
        drop(tensor);
        return NULL;
    }
    *array_out = array;
    return tensor;
}

/* Computes the output and, if `count` is 2, the lse. */
static enum anyflash_status forward(struct af_ops_call *call, af_torch_tensor out[2],
                                    size_t count, struct anyflash_error *err)
{
    struct af_array o;
    struct af_array lse;
    int64_t sizes[AF_ARRAY_RANK_MAX];
    struct anyflash_attend_args *args = &call->args;
    int32_t rank = af_arrays_out_sizes(&call->arrays, args, sizes);
    out[0] = new_tensor(rank, sizes, call->arrays.q.type, &o);
    struct anyflash_context *context = af_torch_context(af_ops.base.libtorch_cpu);
    if (out[0] == NULL || context == NULL ||
        !af_arrays_rows(&call->arrays, args, &o, args->value_dim, &args->o))
        return af_fail_memory(err);
    if (count == 2) {
        rank = af_arrays_lse_sizes(args, sizes);
        out[1] = new_tensor(rank, sizes, ANYFLASH_F32, &lse);
        if (out[1] == NULL || !af_arrays_set_lse(&lse, args))
            return af_fail_memory(err);
    }
    return anyflash_attend(context, args, err);
}

/* Ends a kernel: stores the results in their slots, or throws the error. */
static void finish(uint64_t *stack, struct af_ops_call *call, const char *name,
                   const struct anyflash_error *err, af_torch_tensor *out, size_t count)
{
    af_ops_call_close(call);
    if (err->status == ANYFLASH_OK) {
        for (size_t i = 0; i < count; i++)
            stack[i] = af_torch_slot_of(out[i]);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        drop(out[i]);
        stack[i] = 0;
    }
    af_ops.check_fail(name, "anyflash", 0, err->message);
}

/* Returns `count` results: the output, and the lse. */
static void attend(uint64_t *stack, size_t count)
{
    struct af_ops_call call;
    struct anyflash_error err = {0};
    af_torch_tensor out[2] = {NULL, NULL};
    if (af_ops_call_open(&af_ops, stack, 3, 0, &call, &err) == ANYFLASH_OK)
        forward(&call, out, count, &err);
    finish(stack, &call, "anyflash::attend", &err, out, count);
}

/* Options missing from the short forms get the defaults of the long form. */
static void attend_dense(uint64_t *stack, size_t count)
{
    uint64_t full[AF_OPS_FORWARD_SLOTS] = {stack[0], stack[1], stack[2]};
    full[AF_OPS_SCALE] = stack[3];
    full[AF_OPS_CAUSAL] = stack[4];
    full[AF_OPS_WINDOW_LEFT] = full[AF_OPS_WINDOW_RIGHT] = UINT64_MAX; /* -1 */
    attend(full, count);
    memcpy(stack, full, count * sizeof *stack);
}

void af_ops_forward(uint64_t *stack, uint64_t input_count, uint64_t output_count)
{
    (void)input_count;
    (void)output_count;
    attend(stack, 2);
}

void af_ops_forward_dense(uint64_t *stack, uint64_t input_count, uint64_t output_count)
{
    (void)input_count;
    (void)output_count;
    attend_dense(stack, 2);
}

void af_ops_forward_out(uint64_t *stack, uint64_t input_count, uint64_t output_count)
{
    (void)input_count;
    (void)output_count;
    attend_dense(stack, 1);
}

enum { DOUT, QUERY, KEY, VALUE, OUT, LSE, BACKWARD_TENSORS };

/*
 * Reads dout, or makes a contiguous copy in *copy_out: autograd may pass a
 * broadcast number.
 */
static bool read_dout(const struct af_ops_call *call, struct af_array *dout,
                      af_torch_tensor *copy_out)
{
    struct af_array given;
    if (!af_ops_array(&af_ops, call->tensors[DOUT], &given))
        return false;
    *dout = given;
    int32_t last = given.rank - 1;
    if (last < 0 || given.sizes[last] <= 1 || given.strides[last] == 1)
        return true;
    *copy_out = new_tensor(given.rank, given.sizes, given.type, dout);
    return *copy_out != NULL && af_ops.aoti_torch_copy_(*copy_out, call->tensors[DOUT], 0) == 0;
}

static enum anyflash_status set_given(struct af_ops_call *call, af_torch_tensor *copy_out,
                                      struct anyflash_attend_backward_args *back,
                                      struct anyflash_error *err)
{
    struct anyflash_attend_args *args = &call->args;
    struct af_array array;
    if (!read_dout(call, &array, copy_out) ||
        !af_arrays_rows(&call->arrays, args, &array, args->value_dim, &back->dout))
        return af_fail(err, ANYFLASH_E_ARGUMENT, "dout: must have the shape of the output");
    if (!af_ops_array(&af_ops, call->tensors[OUT], &array) ||
        !af_arrays_rows(&call->arrays, args, &array, args->value_dim, &args->o))
        return af_fail(err, ANYFLASH_E_ARGUMENT, "out: must be what the forward returned");
    if (!af_ops_array(&af_ops, call->tensors[LSE], &array) || !af_arrays_set_lse(&array, args))
        return af_fail(err, ANYFLASH_E_ARGUMENT, "lse: must be what the forward returned");
    return ANYFLASH_OK;
}

/* Makes contiguous gradients with the shapes of q, k and v. */
static bool new_gradients(struct af_ops_call *call, struct anyflash_attend_backward_args *back,
                          af_torch_tensor out[3])
{
    struct af_arrays like = call->arrays;
    const struct af_array *const given[3] = {&call->arrays.q, &call->arrays.k, &call->arrays.v};
    struct af_array *const places[3] = {&like.q, &like.k, &like.v};
    struct anyflash_attend_args args = call->args;
    for (int i = 0; i < 3; i++) {
        out[i] = new_tensor(given[i]->rank, given[i]->sizes, given[i]->type, places[i]);
        if (out[i] == NULL)
            return false;
    }
    if (af_arrays_problem(&like, &args, NULL) != ANYFLASH_OK)
        return false;
    back->dq = args.q;
    back->dk = args.k;
    back->dv = args.v;
    return true;
}

static enum anyflash_status backward(struct af_ops_call *call, af_torch_tensor *copy_out,
                                     af_torch_tensor out[3], struct anyflash_error *err)
{
    struct anyflash_attend_backward_args back = {.struct_size = sizeof back,
                                                 .forward = &call->args};
    struct anyflash_context *context = af_torch_context(af_ops.base.libtorch_cpu);
    enum anyflash_status status = set_given(call, copy_out, &back, err);
    if (status != ANYFLASH_OK)
        return status;
    if (context == NULL || !new_gradients(call, &back, out))
        return af_fail_memory(err);
    return anyflash_attend_backward(context, &back, err);
}

void af_ops_backward(uint64_t *stack, uint64_t input_count, uint64_t output_count)
{
    struct af_ops_call call;
    struct anyflash_error err = {0};
    af_torch_tensor out[3] = {NULL, NULL, NULL};
    af_torch_tensor copy = NULL;
    (void)input_count;
    (void)output_count;
    if (af_ops_call_open(&af_ops, stack, BACKWARD_TENSORS, QUERY, &call, &err) == ANYFLASH_OK)
        backward(&call, &copy, out, &err);
    drop(copy);
    finish(stack, &call, "anyflash::attend_backward", &err, out, AF_COUNT(out));
}

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static af_torch_library registration; /* NULL: not registered */
static bool by_python;

static enum anyflash_status enroll(struct anyflash_error *err)
{
    static const struct {
        const char *name;
        af_torch_kernel *kernel;
    } rows[] = {
        {"attend", af_ops_forward},
        {"attend_forward", af_ops_forward},
        {"attend_forward.dense", af_ops_forward_dense},
        {"attend_forward.only_out", af_ops_forward_out},
        {"attend_backward", af_ops_backward},
    };
    af_torch_library library = NULL;
    if (af_ops.base.aoti_torch_library_init_impl("anyflash", "CPU", "anyflash", 1, &library) !=
        0)
        return af_fail(err, ANYFLASH_E_IO, "torch refuses a library for anyflash on the CPU");
    for (size_t i = 0; i < AF_COUNT(rows); i++) {
        if (af_ops.base.aoti_torch_library_impl(library, rows[i].name, rows[i].kernel) != 0) {
            af_ops.base.aoti_torch_delete_library_object(library);
            return af_fail(err, ANYFLASH_E_IO, "torch refuses a kernel for anyflash::%s",
                           rows[i].name);
        }
    }
    registration = library;
    return ANYFLASH_OK;
}

enum anyflash_status anyflash_torch_operators(void *libtorch_cpu, struct anyflash_error *err)
{
    enum anyflash_status status = ANYFLASH_OK;
    struct af_ops_shim shim;
    if (libtorch_cpu == NULL)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "libtorch_cpu is NULL");
    pthread_mutex_lock(&turn);
    if (registration == NULL) {
        status = af_ops_shim_load(libtorch_cpu, true, &shim, err);
        if (status == ANYFLASH_OK) {
            af_ops = shim;
            status = enroll(err);
        }
    }
    pthread_mutex_unlock(&turn);
    return status;
}

enum anyflash_status af_ops_load_for_python(void *libtorch_cpu, struct anyflash_error *err)
{
    enum anyflash_status status = ANYFLASH_OK;
    struct af_ops_shim shim;
    pthread_mutex_lock(&turn);
    if (registration != NULL)
        status = af_fail(err, ANYFLASH_E_UNSUPPORTED, "the operators are registered already");
    if (status == ANYFLASH_OK && !by_python) {
        status = af_ops_shim_load(libtorch_cpu, false, &shim, err);
        if (status == ANYFLASH_OK) {
            af_ops = shim;
            by_python = true;
        }
    }
    pthread_mutex_unlock(&turn);
    return status;
}
