/*
 * ops_call.c: converts slots of the dispatcher's stack to arrays and numbers.
 */
#include "bindings/torch/ops_call.h"

#include <string.h>

#include "engine/base/loaded.h"

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
    SEED
};

#define AF_OPS(member, symbol, result, arguments)                                              \
    if (!af_loaded_function(libtorch_cpu, #symbol, &shim.member, sizeof shim.member))          \
        return af_fail(err, ANYFLASH_E_UNSUPPORTED, "this torch does not export %s", #symbol);

/* A C++ exception must not cross Python's frames. */
static void do_not_throw(const char *function, const char *file, uint32_t line,
                         const char *message)
{
    (void)function;
    (void)file;
    (void)line;
    (void)message;
}

enum anyflash_status af_ops_shim_load(void *libtorch_cpu, bool registry,
                                      struct af_ops_shim *shim_out, struct anyflash_error *err)
{
    struct af_ops_shim shim;
    enum anyflash_status status = af_torch_shim_load(libtorch_cpu, registry, &shim.base, err);
    if (status != ANYFLASH_OK)
        return status;
#include "bindings/torch/ops_functions.inc"
    if (!registry)
        shim.check_fail = do_not_throw;
    *shim_out = shim;
    return ANYFLASH_OK;
}

static int64_t integer_of(uint64_t slot)
{
    int64_t number;
    memcpy(&number, &slot, sizeof number);
    return number;
}

static int32_t type_of(const struct af_ops_shim *shim, int32_t dtype)
{
    return dtype == shim->base.f32    ? (int32_t)ANYFLASH_F32
           : dtype == shim->base.bf16 ? (int32_t)ANYFLASH_BF16
           : dtype == shim->base.f16  ? (int32_t)ANYFLASH_F16
           : dtype == shim->base.i32  ? AF_ARRAY_I32
                                      : 0;
}

bool af_ops_data(const struct af_ops_shim *shim, af_torch_tensor tensor, const int64_t *sizes,
                 int64_t rank, void **data_out)
{
    static int64_t nothing; /* the address of an empty tensor is NULL */
    if (shim->base.aoti_torch_get_data_ptr(tensor, data_out) != 0)
        return false;
    for (int64_t i = 0; *data_out == NULL && i < rank; i++)
        if (sizes[i] == 0)
            *data_out = &nothing;
    return *data_out != NULL;
}

bool af_ops_array(const struct af_ops_shim *shim, af_torch_tensor tensor,
                  struct af_array *array_out)
{
    const struct af_torch_shim *base = &shim->base;
    struct af_array array = {.given = true};
    int64_t rank = 0;
    int64_t *sizes = NULL;
    int64_t *strides = NULL;
    int32_t dtype = 0;
    if (base->aoti_torch_get_dim(tensor, &rank) != 0 || rank > AF_ARRAY_RANK_MAX ||
        base->aoti_torch_get_sizes(tensor, &sizes) != 0 ||
        base->aoti_torch_get_strides(tensor, &strides) != 0 ||
        base->aoti_torch_get_dtype(tensor, &dtype) != 0 ||
        !af_ops_data(shim, tensor, sizes, rank, &array.data))
        return false;
    array.rank = (int32_t)rank;
    array.type = type_of(shim, dtype);
    for (int64_t i = 0; i < rank; i++) {
        array.sizes[i] = sizes[i];
        array.strides[i] = strides[i];
    }
    *array_out = array;
    return true;
}

static void open_numbers(const uint64_t *options, struct af_ops_call *call)
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

static enum anyflash_status read_one(const struct af_ops_call *call, af_torch_tensor tensor,
                                     const char *name, struct af_array *array,
                                     struct anyflash_error *err)
{
    if (af_ops_array(call->shim, tensor, array))
        return ANYFLASH_OK;
    return af_fail(err, ANYFLASH_E_ARGUMENT, "%s: has more than four dimensions, or no memory",
                   name);
}

static enum anyflash_status read_arrays(struct af_ops_call *call, size_t first,
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
            status = read_one(call, rows[i].tensor, rows[i].name, rows[i].array, err);
    }
    return status;
}

enum anyflash_status af_ops_call_open(const struct af_ops_shim *shim, const uint64_t *stack,
                                      size_t tensor_count, size_t first,
                                      struct af_ops_call *call, struct anyflash_error *err)
{
    static const enum slot optional[AF_OPS_OPTIONAL] = {
        CU_SEQLENS_Q, CU_SEQLENS_K, SEQUSED_K, LEFTPAD_K, BLOCK_TABLE, ALIBI_SLOPES, SINKS};
    const uint64_t *options = stack + tensor_count;
    *call = (struct af_ops_call){.shim = shim, .tensor_count = tensor_count};
    call->args = anyflash_attend_args_init();
    for (size_t i = 0; i < tensor_count; i++)
        call->tensors[i] = af_torch_pointer_in(stack[i]);
    for (size_t i = 0; i < AF_OPS_OPTIONAL; i++) {
        call->cells[i] = af_torch_pointer_in(options[optional[i]]);
        if (call->cells[i] != NULL)
            call->optional[i] = af_torch_pointer_in(*(const uint64_t *)call->cells[i]);
    }
    open_numbers(options, call);
    enum anyflash_status status = read_arrays(call, first, err);
    return status == ANYFLASH_OK ? af_arrays_problem(&call->arrays, &call->args, err) : status;
}

void af_ops_call_close(struct af_ops_call *call)
{
    const struct af_torch_shim *base = &call->shim->base;
    for (size_t i = 0; i < call->tensor_count; i++)
        base->aoti_torch_delete_tensor_object(call->tensors[i]);
    for (size_t i = 0; i < AF_OPS_OPTIONAL; i++) {
        if (call->optional[i] != NULL)
            base->aoti_torch_delete_tensor_object(call->optional[i]);
        if (call->cells[i] != NULL)
            base->delete_cell(call->cells[i]);
    }
}
