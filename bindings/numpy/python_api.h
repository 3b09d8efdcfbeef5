/*
 * python_api.h: Python's C API, found in the running process, and builtins. Used by both
 * bindings, numpy/ and torch/.
 */
#ifndef AF_BINDINGS_NUMPY_PYTHON_API_H
#define AF_BINDINGS_NUMPY_PYTHON_API_H

#include "engine/base/base.h"

struct python_object; /* opaque PyObject */

/* opaque PyMethodDef, and the function type of METH_FASTCALL. */
typedef struct python_object *python_fast_call(struct python_object *self,
                                               struct python_object *const *args,
                                               ptrdiff_t count);
struct python_method {
    const char *name;
    python_fast_call *call;
    int flags;
    const char *doc;
};

#define AF_PYTHON(result, name, arguments) result(*name) arguments;
struct python_functions {
/* clang-format off */
#include "bindings/numpy/python_functions.inc"
    /* clang-format on */
    struct python_object *none, *runtime_error; /* objects that are never freed */
};
#undef AF_PYTHON

/* Set before the first builtin is made; a process has one Python. */
extern struct python_functions af_py;

/*
 * Sets af_py. Fails with UNSUPPORTED, naming the function that this Python does
 * not export.
 */
enum anyflash_status af_python_load(void *python, struct anyflash_error *err);

/* The first member of a builtin's state. */
struct python_builtin {
    struct python_method method;                     /* Python points here */
    void (*release)(struct python_builtin *builtin); /* frees the state */
};

/*
 * Makes the builtin of a state whose `release`, name and call are set. Python owns the state
 * from here on; after a failure it is released. Fails as anyflash_python.h says: NULL.
 */
struct python_object *af_python_builtin(struct python_builtin *builtin,
                                        struct anyflash_error *err);

/* The state of the builtin that was called with `self`. */
void *af_python_state(struct python_object *self);

/* Returns `result` or, if it is NULL, None and no exception. */
struct python_object *af_python_or_none(struct python_object *result);

/* Convert a Python number; false after an exception. */
bool af_python_integer(struct python_object *object, int64_t *out);
bool af_python_float(struct python_object *object, double *out);

#endif
