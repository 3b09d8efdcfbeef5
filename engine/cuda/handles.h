/*
 * handles.h: tensors of Python for builtins.cpp, which is compiled against neither Python
 * nor torch: Python's stable ABI and torch's C shim (torch/csrc/inductor/aoti_torch/c/shim.h)
 * are looked up in the process. A handle of the shim is the address of an at::Tensor, and
 * that is one pointer, which Python knows as tensor._cdata; so a handle for a tensor of
 * Python costs nothing.
 */
#ifndef AF_ENGINE_CUDA_HANDLES_H
#define AF_ENGINE_CUDA_HANDLES_H

#include <dlfcn.h>

#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>

struct object; /* a PyObject */
struct method; /* a PyMethodDef */

/* clang-format off */
#define PYTHON_FUNCTIONS(EACH)                                                                 \
    EACH(object *, PyCFunction_NewEx, (method *, object *, object *))                          \
    EACH(object *, PyCapsule_New, (void *, const char *, void (*)(object *)))                  \
    EACH(object *, PyObject_GetAttr, (object *, object *))                                     \
    EACH(object *, PyObject_GetAttrString, (object *, const char *))                           \
    EACH(int, PyObject_SetAttrString, (object *, const char *, object *))                      \
    EACH(object *, PyObject_CallObject, (object *, object *))                                  \
    EACH(object *, PyObject_CallFunction, (object *, const char *, ...))                       \
    EACH(object *, PyObject_CallMethod, (object *, const char *, const char *, ...))           \
    EACH(int, PyObject_IsInstance, (object *, object *))                                       \
    EACH(object *, PyUnicode_InternFromString, (const char *))                                 \
    EACH(object *, PyTuple_New, (ptrdiff_t))                                                   \
    EACH(object *, PyTuple_GetItem, (object *, ptrdiff_t))                                     \
    EACH(int, PyTuple_SetItem, (object *, ptrdiff_t, object *))                                \
    EACH(object *, PyList_New, (ptrdiff_t))                                                    \
    EACH(int, PyList_SetItem, (object *, ptrdiff_t, object *))                                 \
    EACH(long long, PyLong_AsLongLong, (object *))                                             \
    EACH(void *, PyLong_AsVoidPtr, (object *))                                                 \
    EACH(double, PyFloat_AsDouble, (object *))                                                 \
    EACH(object *, PyErr_Occurred, (void))                                                     \
    EACH(void, PyErr_SetString, (object *, const char *))                                      \
    EACH(void, Py_IncRef, (object *))                                                          \
    EACH(void, Py_DecRef, (object *))
#define TORCH_FUNCTIONS(EACH)                                                                  \
    EACH(int32_t, aoti_torch_get_data_ptr, (void *, void **))                                  \
    EACH(int32_t, aoti_torch_get_dim, (void *, int64_t *))                                     \
    EACH(int32_t, aoti_torch_get_sizes, (void *, int64_t **))                                  \
    EACH(int32_t, aoti_torch_get_strides, (void *, int64_t **))                                \
    EACH(int32_t, aoti_torch_get_dtype, (void *, int32_t *))                                   \
    EACH(int32_t, aoti_torch_get_device_type, (void *, int32_t *))                             \
    EACH(int32_t, aoti_torch_get_device_index, (void *, int32_t *))                            \
    EACH(int32_t, aoti_torch_empty_strided, (int64_t, const int64_t *, const int64_t *,        \
                                             int32_t, int32_t, int32_t, void **))              \
    EACH(int32_t, aoti_torch_delete_tensor_object, (void *))
/* clang-format on */

/* What a process has once: its Python and its torch. */
#define MEMBER(result, name, arguments) result(*name) arguments;
static struct {
    PYTHON_FUNCTIONS(MEMBER)
    TORCH_FUNCTIONS(MEMBER)
    object *none, *runtime_error;
    object *cdata;                        /* "_cdata" */
    object *tensor_class, *wrap, *stream; /* the module's _Tensor, _wrap and _stream */
} api;

/* Of c10::ScalarType and c10::DeviceType: numbers that torch writes to files, too. */
enum { UINT8 = 0, INT32 = 3, INT64 = 4, FLOAT16 = 5, FLOAT32 = 6, BFLOAT16 = 15, CUDA = 1 };

struct raised {}; /* thrown when Python's error is set */

__attribute__((format(printf, 2, 3))) static void check(bool condition, const char *format, ...)
{
    char text[512];
    va_list values;
    if (condition)
        return;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    api.PyErr_SetString(api.runtime_error, text);
    throw raised();
}

/* Owns a reference to an object. Throws if there is no object: Python has set the error. */
struct owned {
    object *held;
    explicit owned(object *held) : held(held)
    {
        if (held == NULL)
            throw raised();
    }
    owned(const owned &) = delete;
    ~owned()
    {
        api.Py_DecRef(held);
    }
};

/* A tensor of the caller, or a new one; None without `python`. */
struct tensor {
    object *python = NULL;
    bool is_new = false; /* `python` is a reference of its own */
    void *data = NULL;
    int64_t dim = 0, *sizes = NULL, *strides = NULL;
    int32_t dtype = 0, device_type = 0, device = 0;

    tensor() = default;
    tensor(const tensor &) = delete;
    ~tensor()
    {
        if (is_new)
            api.Py_DecRef(python);
    }
    bool is_beside(const tensor &q) const
    {
        return device_type == q.device_type && device == q.device;
    }
    bool is_contiguous() const
    {
        int64_t step = 1;
        bool dense = true;
        for (int64_t i = dim - 1; i >= 0; step *= sizes[i--])
            dense = dense && (sizes[i] == 1 || strides[i] == step);
        return dense || step == 0; /* step: the number of elements */
    }
    bool has_rows() const /* whose elements are beside each other */
    {
        return dim > 0 && strides[dim - 1] == 1;
    }
};

/* False if the tensor has no memory, or no numbers for its sizes. */
static bool describe(tensor *t, void *handle)
{
    return api.aoti_torch_get_data_ptr(handle, &t->data) == 0 &&
           api.aoti_torch_get_dim(handle, &t->dim) == 0 &&
           api.aoti_torch_get_sizes(handle, &t->sizes) == 0 &&
           api.aoti_torch_get_strides(handle, &t->strides) == 0 &&
           api.aoti_torch_get_dtype(handle, &t->dtype) == 0 &&
           api.aoti_torch_get_device_type(handle, &t->device_type) == 0 &&
           api.aoti_torch_get_device_index(handle, &t->device) == 0;
}

static void read(tensor *t, const char *name, object *python)
{
    check(api.PyObject_IsInstance(python, api.tensor_class) == 1, "%s must be a tensor", name);
    owned address(api.PyObject_GetAttr(python, api.cdata));
    void *impl = api.PyLong_AsVoidPtr(address.held);
    t->python = python;
    if (!describe(t, &impl)) {
        owned pointer(api.PyObject_CallMethod(python, "data_ptr", NULL)); /* raises why not */
        check(false, "%s cannot be read", name);
    }
}

static bool find(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);
    memcpy(function, &found, sizeof found);
    return found != NULL;
}

#define FIND(library, name, out)                                                               \
    if (!find(library, name, out))                                                             \
        return name;
#define FIND_PYTHON(result, name, arguments) FIND(python, #name, &api.name)
#define FIND_TORCH(result, name, arguments) FIND(torch, #name, &api.name)

/* Finds all of it. Returns NULL, or the name of what is missing. */
static const char *find_all(void *python, void *torch)
{
    object **runtime_error;
    PYTHON_FUNCTIONS(FIND_PYTHON)
    TORCH_FUNCTIONS(FIND_TORCH)
    FIND(python, "_Py_NoneStruct", &api.none)
    FIND(python, "PyExc_RuntimeError", &runtime_error)
    api.runtime_error = *runtime_error;
    return NULL;
}

#endif
