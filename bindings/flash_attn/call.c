/*
 * call.c: arguments and results of a call.
 */
#include "bindings/flash_attn/call.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/loaded.h"

/* clang-format off */
#define TORCH_FUNCTIONS(EACH)                                                                  \
    EACH(int32_t, aoti_torch_get_data_ptr, (void *tensor, void **out))                         \
    EACH(int32_t, aoti_torch_get_dim, (void *tensor, int64_t *out))                            \
    EACH(int32_t, aoti_torch_get_sizes, (void *tensor, int64_t **out))                         \
    EACH(int32_t, aoti_torch_get_strides, (void *tensor, int64_t **out))                       \
    EACH(int32_t, aoti_torch_get_dtype, (void *tensor, int32_t *out))                          \
    EACH(int32_t, aoti_torch_get_device_type, (void *tensor, int32_t *out))                    \
    EACH(int32_t, aoti_torch_get_device_index, (void *tensor, int32_t *out))                   \
    EACH(int32_t, aoti_torch_empty_strided,                                                    \
         (int64_t dim, const int64_t *sizes, const int64_t *strides, int32_t dtype,            \
          int32_t device_type, int32_t device, void **out))                                    \
    EACH(int32_t, aoti_torch_delete_tensor_object, (void *tensor))
/* clang-format on */

/* What a process has once. */
#define MEMBER(result, name, arguments) result(*name) arguments;
static struct torch_functions {
    TORCH_FUNCTIONS(MEMBER)
    struct python_object *cdata;               /* "_cdata" */
    struct python_object *tensor_class, *wrap; /* the module's _Tensor and _wrap */
} api;

#define FIND(result, name, arguments)                                                          \
    if (!af_loaded_function(torch, #name, &found.name, sizeof found.name))                     \
        return af_fail(err, ANYFLASH_E_UNSUPPORTED, "this torch does not export %s", #name);

enum anyflash_status af_call_load(void *torch, struct python_object *module,
                                  struct anyflash_error *err)
{
    struct torch_functions found = {0};
    TORCH_FUNCTIONS(FIND)
    found.cdata = af_py.PyUnicode_InternFromString("_cdata");
    found.tensor_class = af_py.PyObject_GetAttrString(module, "_Tensor");
    found.wrap = af_py.PyObject_GetAttrString(module, "_wrap");
    if (found.cdata == NULL || found.tensor_class == NULL || found.wrap == NULL) {
        af_py.PyErr_Clear();
        return af_fail(err, ANYFLASH_E_UNSUPPORTED, "the module is incomplete");
    }
    api = found;
    return ANYFLASH_OK;
}

void af_call_begin(struct call *c, struct python_object *module,
                   struct python_object *const *arguments)
{
    memset(c, 0, sizeof *c);
    c->module = module;
    c->next = arguments;
    c->a = ANYFLASH_ATTEND_ARGS_INIT;
    c->cuda = ANYFLASH_CUDA_ARGS_INIT;
    for (size_t i = 0; i < AF_COUNT(c->sizes); i++)
        c->sizes[i] = -1;
}

struct python_object *af_call_end(struct call *c, struct python_object *result)
{
    for (int i = 0; i < c->owned_count; i++)
        af_py.Py_DecRef(c->owned[i]);
    if (c->memory != NULL)
        api.aoti_torch_delete_tensor_object(c->memory);
    return c->failed ? NULL : result;
}

void af_call_check(struct call *c, bool condition, const char *format, ...)
{
    char text[512];
    va_list values;
    if (condition || c->failed)
        return;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    af_py.PyErr_SetString(af_py.runtime_error, text);
    c->failed = true;
}

struct python_object *af_call_own(struct call *c, struct python_object *object)
{
    if (object == NULL) {
        c->failed = true;
        return NULL;
    }
    if (c->owned_count == AF_CALL_OWNED_MAX) { /* no function makes as many */
        af_py.Py_DecRef(object);
        af_call_check(c, false, "too many results");
        return NULL;
    }
    c->owned[c->owned_count++] = object;
    return object;
}

struct python_object *af_call_module(struct call *c, const char *name,
                                     struct python_object *first, struct python_object *second,
                                     struct python_object *third)
{
    if (c->failed)
        return NULL;
    struct python_object *function =
        af_call_own(c, af_py.PyObject_GetAttrString(c->module, name));
    return function == NULL ? NULL
                            : af_call_own(c, af_py.PyObject_CallFunctionObjArgs(
                                                 function, first, second, third, NULL));
}

void af_call_fill(struct call *c, const struct tensor *t, double value)
{
    if (c->failed)
        return;
    struct python_object *fill =
        af_call_own(c, af_py.PyObject_GetAttrString(t->python, "fill_"));
    struct python_object *number = af_call_own(c, af_py.PyFloat_FromDouble(value));
    if (!c->failed)
        af_call_own(c, af_py.PyObject_CallFunctionObjArgs(fill, number, NULL));
}

/* ---- tensors ---- */

/* Reads address, sizes and strides; false if torch has none, as for a fake tensor. */
static bool describe(struct tensor *t, void *handle)
{
    return api.aoti_torch_get_data_ptr(handle, &t->data) == 0 &&
           api.aoti_torch_get_dim(handle, &t->dim) == 0 &&
           api.aoti_torch_get_sizes(handle, &t->sizes) == 0 &&
           api.aoti_torch_get_strides(handle, &t->strides) == 0 &&
           api.aoti_torch_get_dtype(handle, &t->dtype) == 0 &&
           api.aoti_torch_get_device_type(handle, &t->device_type) == 0 &&
           api.aoti_torch_get_device_index(handle, &t->device) == 0;
}

static void read_tensor(struct call *c, struct tensor *t, const char *name,
                        struct python_object *python)
{
    af_call_check(c, af_py.PyObject_IsInstance(python, api.tensor_class) == 1,
                  "%s must be a tensor", name);
    if (c->failed)
        return;
    struct python_object *address = af_py.PyObject_GetAttr(python, api.cdata);
    void *impl = address == NULL ? NULL : af_py.PyLong_AsVoidPtr(address);
    af_py.Py_DecRef(address);
    if (impl != NULL && describe(t, &impl)) {
        t->python = python;
        return;
    }
    /* Torch's own error says more, if there is one. */
    struct python_object *ask = af_py.PyObject_GetAttrString(python, "data_ptr");
    struct python_object *pointer =
        ask == NULL ? NULL : af_py.PyObject_CallFunctionObjArgs(ask, NULL);
    af_py.Py_DecRef(ask);
    af_py.Py_DecRef(pointer);
    if (af_py.PyErr_Occurred() != NULL)
        c->failed = true;
    af_call_check(c, false, "%s cannot be read", name);
}

bool af_call_is_beside(const struct tensor *t, const struct tensor *q)
{
    return t->device_type == q->device_type && t->device == q->device;
}

bool af_call_is_contiguous(const struct tensor *t)
{
    int64_t step = 1;
    bool dense = true;
    for (int64_t i = t->dim - 1; i >= 0; step *= t->sizes[i--])
        dense = dense && (t->sizes[i] == 1 || t->strides[i] == step);
    return dense || step == 0; /* step: the number of elements */
}

bool af_call_has_rows(const struct tensor *t)
{
    return t->dim > 0 && t->strides[t->dim - 1] == 1;
}

/* "(2, 16, 4, 64)" */
static void write_shape(char text[120], int64_t dim, const int64_t *sizes)
{
    size_t used = (size_t)snprintf(text, 120, "(");
    for (int64_t i = 0; i < dim && used < 100; i++)
        used += (size_t)snprintf(text + used, 120 - used, "%s%lld%s", i > 0 ? " " : "",
                                 (long long)sizes[i], i == 0 || i + 1 < dim ? "," : "");
    snprintf(text + used, 120 - used, ")");
}

static void check_shape(struct call *c, const char *name, const struct tensor *t,
                        const char *shape)
{
    const int64_t dim = (int64_t)strlen(shape);
    int64_t sizes[AF_CALL_DIM_MAX] = {0};
    char wanted[120], given[120];
    bool equal = t->dim == dim;
    af_call_check(c, equal, "%s must have %d dimensions, not %d", name, (int)dim, (int)t->dim);
    for (int64_t i = 0; i < dim && !c->failed; i++) {
        int64_t *size = &c->sizes[(unsigned char)shape[i]];
        if (*size < 0)
            *size = t->sizes[i];
        sizes[i] = *size;
        equal = equal && sizes[i] == t->sizes[i];
    }
    if (c->failed || equal)
        return;
    write_shape(wanted, dim, sizes);
    write_shape(given, t->dim, t->sizes);
    af_call_check(c, false, "%s must have shape %s, not %s", name, wanted, given);
}

/* ---- arguments ---- */

void af_call_tensor(struct call *c, struct tensor *t, const char *name, const char *shape,
                    bool optional)
{
    struct python_object *python = *c->next++;
    if (c->failed || (optional && python == af_py.none))
        return;
    read_tensor(c, t, name, python);
    if (shape != NULL && !c->failed)
        check_shape(c, name, t, shape);
}

const int32_t *af_call_indices(struct call *c, const char *name, const char *shape,
                               bool optional, struct tensor *pages)
{
    struct tensor array = {0};
    af_call_tensor(c, &array, name, shape, optional);
    if (c->failed || array.python == NULL)
        return NULL;
    af_call_check(c, array.dtype == TORCH_INT32, "%s must have dtype int32", name);
    af_call_check(c, af_call_is_beside(&array, &c->q), "%s must be on CUDA", name);
    af_call_check(c, pages != NULL ? af_call_has_rows(&array) : af_call_is_contiguous(&array),
                  "%s must be contiguous", name);
    if (pages != NULL)
        *pages = array;
    return array.data;
}

int64_t af_call_integer(struct call *c)
{
    int64_t number = 0;
    struct python_object *given = *c->next++;
    if (!c->failed && !af_python_integer(given, &number))
        c->failed = true;
    return c->failed ? 0 : number;
}

int32_t af_call_truth(struct call *c)
{
    struct python_object *given = *c->next++;
    const int truth = c->failed ? 0 : af_py.PyObject_IsTrue(given);
    if (truth < 0)
        c->failed = true;
    return truth == 1;
}

float af_call_float(struct call *c)
{
    double number = 0;
    struct python_object *given = *c->next++;
    if (!c->failed && !af_python_float(given, &number))
        c->failed = true;
    return c->failed ? 0 : (float)number;
}

/* ---- results ---- */

static int64_t item_bytes(int32_t dtype)
{
    return dtype == TORCH_INT64 ? 8 : dtype == TORCH_FLOAT32 ? 4 : dtype == TORCH_UINT8 ? 1 : 2;
}

/* Has torch allocate as much, which frees what it has cached, or raises torch's own error. */
static void reserve(struct call *c, int64_t bytes, int64_t dim, const int64_t *sizes)
{
    for (int64_t i = 0; i < dim; i++)
        bytes *= sizes[i];
    struct python_object *number = af_call_own(c, af_py.PyLong_FromLongLong(bytes));
    af_call_module(c, "_reserve", c->q.python, number, NULL);
}

/* A new tensor of torch's, or NULL: the call failed. */
static void *empty_strided(struct call *c, int32_t dtype, int64_t dim, const int64_t *sizes,
                           const int64_t *strides)
{
    void *handle = NULL;
    for (int tries = 2; !c->failed && handle == NULL; tries--) {
        if (api.aoti_torch_empty_strided(dim, sizes, strides, dtype, c->q.device_type,
                                         c->q.device, &handle) == 0)
            break;
        handle = NULL;
        af_call_check(c, tries > 0, "torch makes no tensor");
        if (!c->failed)
            reserve(c, item_bytes(dtype), dim, sizes);
    }
    return handle;
}

static void make_strided(struct call *c, struct tensor *t, int32_t dtype, int64_t dim,
                         const int64_t *sizes, const int64_t *strides)
{
    void *handle = empty_strided(c, dtype, dim, sizes, strides);
    if (handle == NULL)
        return;
    struct python_object *capsule = af_py.PyCapsule_New(handle, NULL, NULL);
    if (capsule != NULL)
        t->python = af_py.PyObject_CallFunctionObjArgs(api.wrap, capsule, NULL);
    const bool known = describe(t, handle);
    af_py.Py_DecRef(capsule);
    api.aoti_torch_delete_tensor_object(handle);
    if (af_call_own(c, t->python) != NULL)
        af_call_check(c, known, "a new tensor cannot be read");
}

void *af_call_memory(struct call *c, int64_t size_bytes)
{
    const int64_t stride = 1;
    void *memory = NULL;
    c->memory = empty_strided(c, TORCH_UINT8, 1, &size_bytes, &stride);
    if (c->memory != NULL)
        af_call_check(c, api.aoti_torch_get_data_ptr(c->memory, &memory) == 0,
                      "a new tensor cannot be read");
    return memory;
}

void af_call_make(struct call *c, struct tensor *t, int32_t dtype, int64_t dim,
                  const int64_t *sizes)
{
    int64_t strides[AF_CALL_DIM_MAX], step = 1;
    for (int64_t i = dim - 1; i >= 0; i--) {
        strides[i] = step;
        step *= sizes[i] > 1 ? sizes[i] : 1;
    }
    make_strided(c, t, dtype, dim, sizes, strides);
}

void af_call_make_like(struct call *c, struct tensor *t, const struct tensor *like)
{
    if (c->failed || t->python != NULL)
        return;
    if (af_call_is_contiguous(like)) {
        make_strided(c, t, like->dtype, like->dim, like->sizes, like->strides);
        return;
    }
    struct python_object *made = af_call_module(c, "_empty_like", like->python, NULL, NULL);
    if (made != NULL)
        read_tensor(c, t, "a new tensor", made);
}
