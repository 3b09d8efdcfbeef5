/*
 * python_api.c: finds the functions of Python. The state of a builtin is stored in a capsule,
 * which the builtin holds as its `self` and Python frees with it.
 */
#include "bindings/numpy/python_api.h"

#include "engine/base/loaded.h"

#define CAPSULE_NAME "anyflash.state"
#define METH_FASTCALL 0x0080

struct python_functions af_py;

#define AF_PYTHON(result, name, arguments)                                                     \
    if (!af_loaded_function(python, #name, &py.name, sizeof py.name))                          \
        return af_fail(err, ANYFLASH_E_UNSUPPORTED, "this Python does not export %s", #name);

enum anyflash_status af_python_load(void *python, struct anyflash_error *err)
{
    struct python_functions py;
#include "bindings/numpy/python_functions.inc"
    py.none = af_loaded_symbol(python, "_Py_NoneStruct");
    if (py.none == NULL)
        return af_fail(err, ANYFLASH_E_UNSUPPORTED, "this Python does not export None");
    struct python_object **runtime_error = af_loaded_symbol(python, "PyExc_RuntimeError");
    if (runtime_error == NULL)
        return af_fail(err, ANYFLASH_E_UNSUPPORTED, "this Python does not export RuntimeError");
    py.runtime_error = *runtime_error;
    af_py = py;
    return ANYFLASH_OK;
}

void *af_python_state(struct python_object *self)
{
    return af_py.PyCapsule_GetPointer(self, CAPSULE_NAME);
}

static void destroy(struct python_object *capsule)
{
    struct python_builtin *builtin = af_python_state(capsule);
    if (builtin != NULL)
        builtin->release(builtin);
}

struct python_object *af_python_builtin(struct python_builtin *builtin,
                                        struct anyflash_error *err)
{
    struct python_object *made = NULL;
    struct python_object *self = af_py.PyCapsule_New(builtin, CAPSULE_NAME, destroy);
    builtin->method.flags = METH_FASTCALL;
    if (self == NULL)
        builtin->release(builtin);
    else
        made = af_py.PyCFunction_NewEx(&builtin->method, self, NULL);
    af_py.Py_DecRef(self);
    if (made == NULL) {
        af_py.PyErr_Clear();
        af_fail_memory(err);
    }
    return made;
}

struct python_object *af_python_or_none(struct python_object *result)
{
    if (result != NULL)
        return result;
    af_py.PyErr_Clear();
    af_py.Py_IncRef(af_py.none);
    return af_py.none;
}

bool af_python_integer(struct python_object *object, int64_t *out)
{
    *out = af_py.PyLong_AsLongLong(object);
    return *out != -1 || af_py.PyErr_Occurred() == NULL;
}

bool af_python_float(struct python_object *object, double *out)
{
    *out = af_py.PyFloat_AsDouble(object);
    return *out != -1.0 || af_py.PyErr_Occurred() == NULL;
}
