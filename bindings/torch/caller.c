/*
 * caller.c: converts arguments from Python to a stack of slots like that of
 * torch's dispatcher, calls the kernel, and converts the results back. Two
 * functions of torch's Python module, made for its compiler, convert handles.
 */
#include "anyflash/anyflash_torch.h"

#include <string.h>

#include "bindings/numpy/python_api.h"
#include "bindings/torch/ops.h"
#include "bindings/torch/sdpa.h"
#include "bindings/torch/switch.h"
#include "engine/base/mem.h"

#define SLOTS_MAX 22

/*
 * Indexed by enum anyflash_torch_callable. One letter for each argument of the
 * schema: T is a tensor, I an integer, F a float, B a bool; t and f are T? and
 * float?.
 */
static const struct callable {
    const char *letters;
    size_t outputs;
    af_torch_kernel *kernel;
} callables[] = {
    [ANYFLASH_TORCH_CALL_SDPA] = {"TTTFBtf", 2, af_torch_sdpa_forward},
    [ANYFLASH_TORCH_CALL_SDPA_BACKWARD] = {"TTTTTTFBtf", 3, af_torch_sdpa_backward},
    [ANYFLASH_TORCH_CALL_ATTEND] = {"TTTttIItttttFBIIFFI", 2, af_ops_forward},
    [ANYFLASH_TORCH_CALL_ATTEND_DENSE] = {"TTTFB", 2, af_ops_forward_dense},
    [ANYFLASH_TORCH_CALL_ATTEND_BACKWARD] = {"TTTTTTttIItttttFBIIFFI", 3, af_ops_backward},
};

struct caller {
    struct python_builtin builtin;
    const struct callable *called;
    struct python_object *give, *take;
};

struct call {
    const struct caller *caller;
    uint64_t slots[SLOTS_MAX];
    uint64_t cells[SLOTS_MAX]; /* of optional arguments */
    size_t handles;            /* arguments that were read */
};

static bool is_tensor(char letter)
{
    return letter == 'T' || letter == 't';
}

static bool take_tensor(const struct caller *caller, struct python_object *object,
                        uint64_t *slot)
{
    struct python_object *capsule =
        af_py.PyObject_CallFunctionObjArgs(caller->give, object, NULL);
    void *handle = capsule != NULL ? af_py.PyCapsule_GetPointer(capsule, NULL) : NULL;
    af_py.Py_DecRef(capsule);
    *slot = af_torch_slot_of(handle);
    return handle != NULL;
}

static bool take_float(struct python_object *object, uint64_t *slot)
{
    double number;
    bool taken = af_python_float(object, &number);
    memcpy(slot, &number, sizeof number);
    return taken;
}

static bool take_integer(struct python_object *object, uint64_t *slot)
{
    int64_t number;
    bool taken = af_python_integer(object, &number);
    *slot = (uint64_t)number;
    return taken;
}

static bool take_bool(struct python_object *object, uint64_t *slot)
{
    int truth = af_py.PyObject_IsTrue(object);
    *slot = truth == 1;
    return truth >= 0;
}

static bool take_one(struct call *call, size_t at, struct python_object *object)
{
    switch (call->caller->called->letters[at]) {
    case 'F':
        return take_float(object, &call->slots[at]);
    case 'I':
        return take_integer(object, &call->slots[at]);
    case 'B':
        return take_bool(object, &call->slots[at]);
    case 'T':
        return take_tensor(call->caller, object, &call->slots[at]);
    default:
        break;
    }
    call->slots[at] = 0;
    if (object == af_py.none)
        return true;
    call->slots[at] = af_torch_slot_of(&call->cells[at]);
    return call->caller->called->letters[at] == 't'
               ? take_tensor(call->caller, object, &call->cells[at])
               : take_float(object, &call->cells[at]);
}

/* Frees what take_one() made if the kernel is not called. */
static void drop_arguments(const struct call *call)
{
    for (size_t i = 0; i < call->handles; i++) {
        char letter = call->caller->called->letters[i];
        uint64_t slot = letter == 't' ? call->cells[i] : call->slots[i];
        if (is_tensor(letter) && slot != 0)
            af_torch.aoti_torch_delete_tensor_object(af_torch_pointer_in(slot));
    }
}

static bool take_all(struct call *call, struct python_object *const *args)
{
    size_t count = strlen(call->caller->called->letters);
    for (; call->handles < count; call->handles++)
        if (!take_one(call, call->handles, args[call->handles])) {
            drop_arguments(call);
            return false;
        }
    return true;
}

/*
 * Makes a Python tensor from a result. Despite its name, `take` leaves the
 * ownership of the handle to us.
 */
static struct python_object *result_of(const struct caller *caller, uint64_t slot)
{
    void *handle = af_torch_pointer_in(slot);
    struct python_object *capsule = af_py.PyCapsule_New(handle, NULL, NULL);
    struct python_object *result =
        capsule != NULL ? af_py.PyObject_CallFunctionObjArgs(caller->take, capsule, NULL)
                        : NULL;
    af_torch.aoti_torch_delete_tensor_object(handle);
    af_py.Py_DecRef(capsule);
    return result;
}

static struct python_object *results_of(const struct caller *caller, const uint64_t *slots)
{
    bool whole = true;
    struct python_object *tuple = af_py.PyTuple_New((ptrdiff_t)caller->called->outputs);
    for (size_t i = 0; i < caller->called->outputs; i++) {
        struct python_object *result = result_of(caller, slots[i]);
        whole = whole && result != NULL;
        if (tuple == NULL)
            af_py.Py_DecRef(result);
        else
            af_py.PyTuple_SetItem(tuple, (ptrdiff_t)i, result);
    }
    if (tuple != NULL && whole)
        return tuple;
    af_py.Py_DecRef(tuple);
    return NULL;
}

static struct python_object *call_kernel(struct call *call, struct python_object *const *args)
{
    const struct callable *called = call->caller->called;
    if (!take_all(call, args))
        return NULL;
    void *thread = af_py.PyEval_SaveThread();
    called->kernel(call->slots, call->handles, called->outputs);
    af_py.PyEval_RestoreThread(thread);
    return call->slots[0] != 0 ? results_of(call->caller, call->slots) : NULL;
}

/* METH_FASTCALL. */
static struct python_object *fast_call(struct python_object *self,
                                       struct python_object *const *args, ptrdiff_t count)
{
    struct call call = {.caller = af_python_state(self)};
    struct python_object *result = NULL;
    if (call.caller == NULL)
        return NULL;
    if (count == (ptrdiff_t)strlen(call.caller->called->letters))
        result = call_kernel(&call, args);
    return af_python_or_none(result);
}

static void release(struct python_builtin *builtin)
{
    struct caller *caller = (struct caller *)(void *)builtin;
    af_py.Py_DecRef(caller->give);
    af_py.Py_DecRef(caller->take);
    af_mem_free(caller);
}

void *anyflash_torch_caller(void *python, void *libtorch_cpu,
                            enum anyflash_torch_callable callable, void *give, void *take,
                            struct anyflash_error *err)
{
    if ((size_t)callable >= AF_COUNT(callables)) {
        af_fail(err, ANYFLASH_E_ARGUMENT, "callable is %d", (int)callable);
        return NULL;
    }
    if (af_python_load(python, err) != ANYFLASH_OK ||
        af_torch_load_for_python(libtorch_cpu, err) != ANYFLASH_OK ||
        af_ops_load_for_python(libtorch_cpu, err) != ANYFLASH_OK)
        return NULL;
    struct caller *caller = af_mem_alloc(sizeof *caller);
    if (caller == NULL) {
        af_fail_memory(err);
        return NULL;
    }
    *caller = (struct caller){
        .builtin = {.method = {.name = "call", .call = fast_call}, .release = release},
        .called = &callables[callable],
        .give = give,
        .take = take};
    af_py.Py_IncRef(give);
    af_py.Py_IncRef(take);
    return af_python_builtin(&caller->builtin, err);
}
