/*
 * ops.c: attention as operators of our own: reads the slots of the dispatcher's stack, calls
 * the engine, and returns the results. Unlike the kernels of sdpa.c they have no kernel to
 * fall back to: errors are thrown as exceptions, after everything received from the
 * dispatcher has been deleted. The kernels are registered at the end of the file; like the
 * operators, they stay for the life of the process.
 */
#include "bindings/torch/ops.h"

#include "anyflash/anyflash_torch.h"

#include <pthread.h>
#include <string.h>

#include "bindings/numpy/arrays.h"
#include "bindings/torch/threads.h"
#include "engine/base/loaded.h"

#define TENSORS_MAX 6
#define OPTIONAL 7

static struct af_torch_shim af_ops; /* set before the kernels are registered */

static void drop(af_torch_tensor tensor)
{
    if (tensor != NULL)
        af_ops.aoti_torch_delete_tensor_object(tensor);
}

/* One call: its arguments, and the problem. */
struct call {
    af_torch_tensor tensors[TENSORS_MAX];
    size_t tensor_count;
    void *cells[OPTIONAL];
    af_torch_tensor optional[OPTIONAL];
    struct af_arrays arrays;          /* q, k, v are the three tensors from `first` on */
    struct anyflash_attend_args args; /* numbers and sizes are set */
};

/* Options in the order of the schema, counted from the first after the tensors. */
enum slot {
    CU_SEQLENS_Q,
    CU_SEQLENS_K,
    MAX_SEQLEN_Q,
    MAX_SEQLEN_K,
    SEQUSED_K,
    LEFTPAD_K,
    BLOCK_TABLE,
    ALIBI_SLOPES,
    SINKS,
    SCALE,
    CAUSAL,
    WINDOW_LEFT,
    WINDOW_RIGHT,
    SOFTCAP,
    DROPOUT,
    SEED,
    OPTIONS
};

static int64_t integer_of(uint64_t slot)
{
    int64_t number;
    memcpy(&number, &slot, sizeof number);
    return number;
}

/*
 * Describes a tensor as an array; false when torch fails, memory runs out, or it has
 * more than four dimensions. An empty tensor gets some valid address.
 */
static bool array_of(af_torch_tensor tensor, struct af_array *array_out)
{
    static int64_t nothing; /* the address of an empty tensor is NULL */
    struct af_torch_view view;
    if (!af_torch_view_of(&af_ops, tensor, &view) || view.dim > AF_ARRAY_RANK_MAX)
        return false;
    struct af_array array = {.given = true,
                             .data = view.data,
                             .type = view.is_i32 ? AF_ARRAY_I32 : view.dtype,
                             .rank = (int32_t)view.dim};
    for (int64_t i = 0; i < view.dim; i++) {
        array.sizes[i] = view.sizes[i];
        array.strides[i] = view.strides[i];
        if (view.data == NULL && view.sizes[i] == 0)
            array.data = &nothing;
    }
    *array_out = array;
    return array.data != NULL;
}

static void open_numbers(const uint64_t *options, struct call *call)
{
    struct anyflash_attend_args *args = &call->args;
    call->arrays.max_seqlen_q = integer_of(options[MAX_SEQLEN_Q]);
    call->arrays.max_seqlen_k = integer_of(options[MAX_SEQLEN_K]);
    args->scale = (float)af_torch_float_in(options[SCALE]);
    args->causal = (options[CAUSAL] & 0xff) != 0;
    args->window_left = integer_of(options[WINDOW_LEFT]);
    args->window_right = integer_of(options[WINDOW_RIGHT]);
    args->softcap = (float)af_torch_float_in(options[SOFTCAP]);
    args->dropout = (float)af_torch_float_in(options[DROPOUT]);
    args->dropout_seed = options[SEED];
}

static enum anyflash_status read_one(af_torch_tensor tensor, const char *name,
                                     struct af_array *array, struct anyflash_error *err)
{
    if (array_of(tensor, array))
        return ANYFLASH_OK;
    return af_fail(err, ANYFLASH_E_ARGUMENT, "%s: has more than four dimensions, or no memory",
                   name);
}

static enum anyflash_status read_arrays(struct call *call, size_t first,
                                        struct anyflash_error *err)
{
    struct af_arrays *a = &call->arrays;
    const struct {
        const char *name;
        af_torch_tensor tensor;
        struct af_array *array;
    } rows[] = {
        {"q", call->tensors[first], &a->q},
        {"k", call->tensors[first + 1], &a->k},
        {"v", call->tensors[first + 2], &a->v},
        {"cu_seqlens_q", call->optional[0], &a->cu_seqlens_q},
        {"cu_seqlens_k", call->optional[1], &a->cu_seqlens_k},
        {"seqused_k", call->optional[2], &a->seqused_k},
        {"leftpad_k", call->optional[3], &a->leftpad_k},
        {"block_table", call->optional[4], &a->block_table},
        {"alibi_slopes", call->optional[5], &a->alibi_slopes},
        {"sinks", call->optional[6], &a->sinks},
    };
    enum anyflash_status status = ANYFLASH_OK;
    for (size_t i = 0; status == ANYFLASH_OK && i < AF_COUNT(rows); i++) {
        if (rows[i].tensor != NULL)
            status = read_one(rows[i].tensor, rows[i].name, rows[i].array, err);
    }
    return status;
}

/*
 * Reads the slots: `tensor_count` tensors, of which q, k, v start at `first`, and the options.
 * The call must be closed even after a failure. Fails with ARGUMENT.
 */
static enum anyflash_status call_open(const uint64_t *stack, size_t tensor_count, size_t first,
                                      struct call *call, struct anyflash_error *err)
{
    static const enum slot optional[OPTIONAL] = {
        CU_SEQLENS_Q, CU_SEQLENS_K, SEQUSED_K, LEFTPAD_K, BLOCK_TABLE, ALIBI_SLOPES, SINKS};
    const uint64_t *options = stack + tensor_count;
    *call = (struct call){.tensor_count = tensor_count};
    call->args = anyflash_attend_args_init();
    for (size_t i = 0; i < tensor_count; i++)
        call->tensors[i] = af_torch_pointer_in(stack[i]);
    for (size_t i = 0; i < OPTIONAL; i++) {
        call->cells[i] = af_torch_pointer_in(options[optional[i]]);
        if (call->cells[i] != NULL)
            call->optional[i] = af_torch_pointer_in(*(const uint64_t *)call->cells[i]);
    }
    open_numbers(options, call);
    enum anyflash_status status = read_arrays(call, first, err);
    return status == ANYFLASH_OK ? af_arrays_problem(&call->arrays, &call->args, err) : status;
}

/* Deletes the arguments received from the dispatcher. */
static void call_close(struct call *call)
{
    for (size_t i = 0; i < call->tensor_count; i++)
        af_ops.aoti_torch_delete_tensor_object(call->tensors[i]);
    for (size_t i = 0; i < OPTIONAL; i++) {
        if (call->optional[i] != NULL)
            af_ops.aoti_torch_delete_tensor_object(call->optional[i]);
        if (call->cells[i] != NULL)
            af_ops.delete_cell(call->cells[i]);
    }
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
    af_torch_tensor tensor = af_torch_new(&af_ops, rank, sizes, strides, dtype);
    if (tensor == NULL || array_of(tensor, array_out))
        return tensor;
    drop(tensor);
    return NULL;
}

/* Computes the output and, if `count` is 2, the lse. */
static enum anyflash_status forward(struct call *call, af_torch_tensor out[2], size_t count,
                                    struct anyflash_error *err)
{
    struct af_array o;
    struct af_array lse;
    int64_t sizes[AF_ARRAY_RANK_MAX];
    struct anyflash_attend_args *args = &call->args;
    int32_t rank = af_arrays_out_sizes(&call->arrays, args, sizes);
    out[0] = new_tensor(rank, sizes, call->arrays.q.type, &o);
    struct anyflash_context *context = af_torch_context(af_ops.libtorch_cpu);
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
static void finish(uint64_t *stack, struct call *call, const char *name,
                   const struct anyflash_error *err, af_torch_tensor *out, size_t count)
{
    call_close(call);
    if (err->status == ANYFLASH_OK) {
        for (size_t i = 0; i < count; i++)
            stack[i] = af_torch_slot_of(out[i]);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        drop(out[i]);
        stack[i] = 0;
    }
    if (af_ops.check_fail != NULL)
        af_ops.check_fail(name, "anyflash", 0, err->message);
}

/* Returns the output and, if `output_count` is 2, the logsumexp. */
void af_ops_forward(uint64_t *stack, uint64_t input_count, uint64_t output_count)
{
    struct call call;
    struct anyflash_error err = {0};
    af_torch_tensor out[2] = {NULL, NULL};
    (void)input_count;
    if (call_open(stack, 3, 0, &call, &err) == ANYFLASH_OK)
        forward(&call, out, output_count, &err);
    finish(stack, &call, "anyflash::attend", &err, out, output_count);
}

/* Options missing from the short forms get the defaults of the long form. */
void af_ops_forward_dense(uint64_t *stack, uint64_t input_count, uint64_t output_count)
{
    uint64_t full[3 + OPTIONS] = {stack[0], stack[1], stack[2]};
    full[3 + SCALE] = stack[3];
    full[3 + CAUSAL] = stack[4];
    full[3 + WINDOW_LEFT] = full[3 + WINDOW_RIGHT] = UINT64_MAX; /* -1 */
    af_ops_forward(full, input_count, output_count);
    memcpy(stack, full, output_count * sizeof *stack);
}

enum { DOUT, QUERY, KEY, VALUE, OUT, LSE, BACKWARD_TENSORS };

/*
 * Reads dout, or makes a contiguous copy in *copy_out: autograd may pass a
 * broadcast number.
 */
static bool read_dout(const struct call *call, struct af_array *dout, af_torch_tensor *copy_out)
{
    struct af_array given;
    if (!array_of(call->tensors[DOUT], &given))
        return false;
    *dout = given;
    int32_t last = given.rank - 1;
    if (last < 0 || given.sizes[last] <= 1 || given.strides[last] == 1)
        return true;
    *copy_out = new_tensor(given.rank, given.sizes, given.type, dout);
    return *copy_out != NULL && af_ops.aoti_torch_copy_(*copy_out, call->tensors[DOUT], 0) == 0;
}

static enum anyflash_status set_given(struct call *call, af_torch_tensor *copy_out,
                                      struct anyflash_attend_backward_args *back,
                                      struct anyflash_error *err)
{
    struct anyflash_attend_args *args = &call->args;
    struct af_array array;
    if (!read_dout(call, &array, copy_out) ||
        !af_arrays_rows(&call->arrays, args, &array, args->value_dim, &back->dout))
        return af_fail(err, ANYFLASH_E_ARGUMENT, "dout: must have the shape of the output");
    if (!array_of(call->tensors[OUT], &array) ||
        !af_arrays_rows(&call->arrays, args, &array, args->value_dim, &args->o))
        return af_fail(err, ANYFLASH_E_ARGUMENT, "out: must be what the forward returned");
    if (!array_of(call->tensors[LSE], &array) || !af_arrays_set_lse(&array, args))
        return af_fail(err, ANYFLASH_E_ARGUMENT, "lse: must be what the forward returned");
    return ANYFLASH_OK;
}

/* Makes contiguous gradients with the shapes of q, k and v. */
static bool new_gradients(struct call *call, struct anyflash_attend_backward_args *back,
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

static enum anyflash_status backward(struct call *call, af_torch_tensor *copy_out,
                                     af_torch_tensor out[3], struct anyflash_error *err)
{
    struct anyflash_attend_backward_args back = {.struct_size = sizeof back,
                                                 .forward = &call->args};
    struct anyflash_context *context = af_torch_context(af_ops.libtorch_cpu);
    enum anyflash_status status = set_given(call, copy_out, &back, err);
    if (status != ANYFLASH_OK)
        return status;
    if (context == NULL || !new_gradients(call, &back, out))
        return af_fail_memory(err);
    return anyflash_attend_backward(context, &back, err);
}

void af_ops_backward(uint64_t *stack, uint64_t input_count, uint64_t output_count)
{
    struct call call;
    struct anyflash_error err = {0};
    af_torch_tensor out[3] = {NULL, NULL, NULL};
    af_torch_tensor copy = NULL;
    (void)input_count;
    (void)output_count;
    if (call_open(stack, BACKWARD_TENSORS, QUERY, &call, &err) == ANYFLASH_OK)
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
        {"attend_forward.only_out", af_ops_forward_dense},
        {"attend_backward", af_ops_backward},
    };
    af_torch_library library = NULL;
    if (af_ops.aoti_torch_library_init_impl("anyflash", "CPU", "anyflash", 1, &library) != 0)
        return af_fail(err, ANYFLASH_E_IO, "torch refuses a library for anyflash on the CPU");
    for (size_t i = 0; i < AF_COUNT(rows); i++) {
        if (af_ops.aoti_torch_library_impl(library, rows[i].name, rows[i].kernel) != 0) {
            af_ops.aoti_torch_delete_library_object(library);
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
    if (libtorch_cpu == NULL)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "libtorch_cpu is NULL");
    pthread_mutex_lock(&turn);
    if (registration == NULL) {
        status = af_torch_shim_load(libtorch_cpu, true, &af_ops, err);
        if (status == ANYFLASH_OK)
            status = enroll(err);
    }
    pthread_mutex_unlock(&turn);
    return status;
}

enum anyflash_status af_ops_load_for_python(void *libtorch_cpu, struct anyflash_error *err)
{
    enum anyflash_status status = ANYFLASH_OK;
    pthread_mutex_lock(&turn);
    if (registration != NULL)
        status = af_fail(err, ANYFLASH_E_UNSUPPORTED, "the operators are registered already");
    if (status == ANYFLASH_OK && !by_python) {
        status = af_torch_shim_load(libtorch_cpu, false, &af_ops, err);
        by_python = status == ANYFLASH_OK;
    }
    pthread_mutex_unlock(&turn);
    return status;
}
