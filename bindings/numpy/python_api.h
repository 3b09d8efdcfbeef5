/*
 * python_api.h: the state of one builtin in one interpreter: the Python
 * functions, names and objects that it uses repeatedly. Private to this module.
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
};
#undef AF_PYTHON

/* Set before the first builtin is made; a process has one Python. */
extern struct python_functions af_py;

/*
 * Sets af_py. Fails with UNSUPPORTED, naming the function that this Python does
 * not export.
 */
enum anyflash_status af_python_load(void *python, struct anyflash_error *err);

/* Names of the supported options of attend(). */
enum option {
    OPTION_CAUSAL,
    OPTION_SCALE,
    OPTION_SOFTCAP,
    OPTION_WINDOW,
    OPTION_ALIGN,
    OPTION_MAX_SEQLEN_Q,
    OPTION_MAX_SEQLEN_K,
    OPTION_CU_SEQLENS_Q,
    OPTION_CU_SEQLENS_K,
    OPTION_SEQUSED_Q,
    OPTION_SEQUSED_K,
    OPTION_LEFTPAD_K,
    OPTION_CAUSAL_OFFSETS,
    OPTION_CACHE_BATCH_IDX,
    OPTION_BLOCK_TABLE,
    OPTION_ALIBI_SLOPES,
    OPTION_SINKS,
    OPTION_BIAS,
    OPTION_MASK,
    OPTION_COUNT
};

struct state {
    struct python_method method;                      /* the builtin points here */
    struct python_object *none;                       /* an object that is never freed */
    struct python_object *option_names[OPTION_COUNT]; /* interned, as are keywords */
    struct python_object *array_struct;               /* "__array_struct__" */
    struct python_object *dtype;                      /* "dtype" */
    struct python_object *bshd, *bhsd;
    struct python_object *empty;    /* numpy.empty; NULL before the first call */
    struct python_object *float32;  /* numpy.float32; with empty */
    struct python_object *bfloat16; /* dtype of the most recent bfloat16 arrays, or NULL */
};

/* Makes the builtin with a new state that it owns; NULL as in anyflash_python.h. */
struct python_object *af_python_builtin(void *python, const char *name, python_fast_call *call,
                                        struct anyflash_error *err);

/* Whether `object` is a str equal to `text`; leaves no exception set. */
bool af_python_says(struct python_object *object, const char *text);

/* The state of the builtin called with `self`. */
struct state *af_python_state(struct python_object *self);

#endif
