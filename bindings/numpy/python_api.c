/*
 * python_api.c: the state is created once per builtin and stored in a capsule,
 * which the builtin holds as its `self` and Python frees with it.
 */
#include "bindings/numpy/python_api.h"

#include <string.h>

#include "engine/base/loaded.h"
#include "engine/base/mem.h"

#define CAPSULE_NAME "anyflash.state"
#define METH_FASTCALL 0x0080

static const char *const option_names[OPTION_COUNT] = {
    [OPTION_CAUSAL] = "causal",
    [OPTION_SCALE] = "scale",
    [OPTION_SOFTCAP] = "softcap",
    [OPTION_WINDOW] = "window",
    [OPTION_ALIGN] = "align",
    [OPTION_MAX_SEQLEN_Q] = "max_seqlen_q",
    [OPTION_MAX_SEQLEN_K] = "max_seqlen_k",
    [OPTION_CU_SEQLENS_Q] = "cu_seqlens_q",
    [OPTION_CU_SEQLENS_K] = "cu_seqlens_k",
    [OPTION_SEQUSED_Q] = "seqused_q",
    [OPTION_SEQUSED_K] = "seqused_k",
    [OPTION_LEFTPAD_K] = "leftpad_k",
    [OPTION_CAUSAL_OFFSETS] = "causal_offsets",
    [OPTION_CACHE_BATCH_IDX] = "cache_batch_idx",
    [OPTION_BLOCK_TABLE] = "block_table",
    [OPTION_ALIBI_SLOPES] = "alibi_slopes",
    [OPTION_SINKS] = "sinks",
    [OPTION_BIAS] = "bias",
    [OPTION_MASK] = "mask",
};

struct python_functions af_py;

struct state *af_python_state(struct python_object *self)
{
    return af_py.PyCapsule_GetPointer(self, CAPSULE_NAME);
}

bool af_python_says(struct python_object *object, const char *text)
{
    const char *said = af_py.PyUnicode_AsUTF8AndSize(object, NULL);
    if (said == NULL)
        af_py.PyErr_Clear();
    return said != NULL && strcmp(said, text) == 0;
}

static void release(struct state *state)
{
    struct python_object *const owned[] = {state->array_struct, state->dtype, state->bshd,
                                           state->bhsd,         state->empty, state->float32,
                                           state->bfloat16};
    for (size_t i = 0; i < AF_COUNT(owned); i++)
        af_py.Py_DecRef(owned[i]);
    for (size_t i = 0; i < OPTION_COUNT; i++)
        af_py.Py_DecRef(state->option_names[i]);
    af_mem_free(state);
}

static void destroy(struct python_object *capsule)
{
    struct state *state = af_python_state(capsule);
    if (state != NULL)
        release(state);
}

#define AF_PYTHON(result, name, arguments)                                                     \
    if (!af_loaded_function(python, #name, &py.name, sizeof py.name))                          \
        return af_fail(err, ANYFLASH_E_UNSUPPORTED, "this Python does not export %s", #name);

enum anyflash_status af_python_load(void *python, struct anyflash_error *err)
{
    struct python_functions py;
#include "bindings/numpy/python_functions.inc"
    if (af_loaded_symbol(python, "_Py_NoneStruct") == NULL)
        return af_fail(err, ANYFLASH_E_UNSUPPORTED, "this Python does not export None");
    af_py = py;
    return ANYFLASH_OK;
}

static bool intern(const char *text, struct python_object **out)
{
    *out = af_py.PyUnicode_InternFromString(text);
    return *out != NULL;
}

static bool intern_all(struct state *state)
{
    bool done = intern("__array_struct__", &state->array_struct) &&
                intern("dtype", &state->dtype) && intern("bshd", &state->bshd) &&
                intern("bhsd", &state->bhsd);
    for (size_t i = 0; done && i < OPTION_COUNT; i++)
        done = intern(option_names[i], &state->option_names[i]);
    return done;
}

/* From here on the capsule owns the state; NULL: the caller still owns it. */
static struct python_object *capsule_of(struct state *state)
{
    return intern_all(state) ? af_py.PyCapsule_New(state, CAPSULE_NAME, destroy) : NULL;
}

struct python_object *af_python_builtin(void *python, const char *name, python_fast_call *call,
                                        struct anyflash_error *err)
{
    if (af_python_load(python, err) != ANYFLASH_OK)
        return NULL;
    struct python_object *builtin = NULL;
    struct state *state = af_mem_alloc(sizeof *state);
    if (state == NULL) {
        af_fail_memory(err);
        return NULL;
    }
    *state = (struct state){.method = {name, call, METH_FASTCALL, NULL},
                            .none = af_loaded_symbol(python, "_Py_NoneStruct")};
    struct python_object *self = capsule_of(state);
    if (self == NULL)
        release(state);
    else
        builtin = af_py.PyCFunction_NewEx(&state->method, self, NULL);
    af_py.Py_DecRef(self);
    if (builtin == NULL) {
        af_py.PyErr_Clear();
        af_fail_memory(err);
    }
    return builtin;
}
