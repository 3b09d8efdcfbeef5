/*
 * numpy.c: anyflash.attend() as a Python builtin. It declines every call that is
 * unusual or invalid: then the Python package computes it or raises, so that
 * error messages are in one place.
 *
 * NumPy arrays are read and made without NumPy's headers, through the C
 * structure behind `__array_struct__`, with one attribute read per array. Its
 * strides count bytes.
 */
#include "anyflash/anyflash_python.h"

#include <math.h>
#include <string.h>

#include "bindings/numpy/arrays.h"
#include "bindings/numpy/python_api.h"
#include "engine/base/mem.h"

#define OPTION_COUNT 19

/* What the builtin uses repeatedly. */
struct state {
    struct python_builtin builtin;
    struct python_object *option_names[OPTION_COUNT]; /* interned, as are keywords */
    struct python_object *array_struct;               /* "__array_struct__" */
    struct python_object *dtype;                      /* "dtype" */
    struct python_object *bshd, *bhsd;
    struct python_object *empty;    /* numpy.empty; NULL before the first call */
    struct python_object *float32;  /* numpy.float32; with empty */
    struct python_object *bfloat16; /* dtype of the most recent bfloat16 arrays, or NULL */
};

/* Whether `object` is a str equal to `text`; leaves no exception set. */
static bool says(struct python_object *object, const char *text)
{
    const char *said = af_py.PyUnicode_AsUTF8AndSize(object, NULL);
    if (said == NULL)
        af_py.PyErr_Clear();
    return said != NULL && strcmp(said, text) == 0;
}

/* PyArrayInterface in NumPy's manual, "The array interface protocol". */
struct array_interface {
    int two;
    int rank;
    char kind;
    int item_bytes;
    int flags;
    intptr_t *sizes;
    intptr_t *strides;
    void *data;
    struct python_object *description;
};

#define FLAG_ALIGNED 0x100
#define FLAG_NOT_SWAPPED 0x200
#define FLAG_WRITABLE 0x400

/* bfloat16 has no type character of its own: its arrays have type "two raw bytes". */
static bool is_bfloat16(struct state *state, struct python_object *object)
{
    struct python_object *dtype = af_py.PyObject_GetAttr(object, state->dtype);
    struct python_object *name = NULL;
    bool known = dtype != NULL && dtype == state->bfloat16;
    if (dtype != NULL && !known)
        name = af_py.PyObject_GetAttrString(dtype, "name");
    if (name != NULL && says(name, "bfloat16")) {
        struct python_object *old = state->bfloat16;
        state->bfloat16 = dtype;
        af_py.Py_IncRef(dtype);
        af_py.Py_DecRef(old);
        known = true;
    }
    af_py.Py_DecRef(name);
    af_py.Py_DecRef(dtype);
    return known;
}

static int32_t type_of(struct state *state, struct python_object *object, char kind, int bytes)
{
    if (kind == 'f')
        return bytes == 4 ? ANYFLASH_F32 : bytes == 2 ? ANYFLASH_F16 : 0;
    if (kind == 'i')
        return bytes == 4 ? AF_ARRAY_I32 : 0;
    if (kind == 'b')
        return ANYFLASH_BOOL;
    return kind == 'V' && bytes == 2 && is_bfloat16(state, object) ? ANYFLASH_BF16 : 0;
}

static bool take(const struct array_interface *given, bool writable, struct af_array *array)
{
    int flags = FLAG_ALIGNED | FLAG_NOT_SWAPPED | (writable ? FLAG_WRITABLE : 0);
    if (given->two != 2 || (given->flags & flags) != flags || given->rank < 0 ||
        given->rank > AF_ARRAY_RANK_MAX || given->item_bytes < 1)
        return false;
    *array = (struct af_array){.given = true, .data = given->data, .rank = given->rank};
    for (int i = 0; i < given->rank; i++) {
        if (given->strides[i] % given->item_bytes != 0)
            return false;
        array->sizes[i] = given->sizes[i];
        array->strides[i] = given->strides[i] / given->item_bytes;
    }
    return true;
}

/*
 * Describes the array `object`; valid as long as the caller holds `object`.
 * False, without an exception, unless it is an aligned array of at most four
 * dimensions in native byte order, with strides in whole elements, and writable
 * if `writable` is set.
 */
static bool read_array(struct state *state, struct python_object *object, bool writable,
                       struct af_array *array_out)
{
    struct python_object *capsule = af_py.PyObject_GetAttr(object, state->array_struct);
    const struct array_interface *given =
        capsule != NULL ? af_py.PyCapsule_GetPointer(capsule, NULL) : NULL;
    bool taken = given != NULL && take(given, writable, array_out);
    if (taken) {
        array_out->type = type_of(state, object, given->kind, given->item_bytes);
        taken = array_out->type != 0;
    }
    af_py.Py_DecRef(capsule);
    if (!taken)
        af_py.PyErr_Clear();
    return taken;
}

static bool find_numpy(struct state *state)
{
    if (state->empty != NULL)
        return true;
    struct python_object *numpy = af_py.PyImport_ImportModule("numpy");
    if (numpy == NULL)
        return false;
    state->float32 = af_py.PyObject_GetAttrString(numpy, "float32");
    state->empty = af_py.PyObject_GetAttrString(numpy, "empty");
    af_py.Py_DecRef(numpy);
    return state->empty != NULL && state->float32 != NULL;
}

static struct python_object *tuple_of(int32_t rank, const int64_t *sizes)
{
    struct python_object *tuple = af_py.PyTuple_New(rank);
    for (int32_t i = 0; tuple != NULL && i < rank; i++) {
        struct python_object *size = af_py.PyLong_FromLongLong(sizes[i]);
        if (size == NULL || af_py.PyTuple_SetItem(tuple, i, size) != 0) {
            af_py.Py_DecRef(tuple);
            return NULL;
        }
    }
    return tuple;
}

/*
 * Makes numpy.empty(sizes, dtype), returned as a new reference, and describes
 * it; NULL, without an exception, when Python fails. dtype NULL: float32.
 */
static struct python_object *new_array(struct state *state, int32_t rank, const int64_t *sizes,
                                       struct python_object *dtype, struct af_array *array_out)
{
    struct python_object *array = NULL;
    struct python_object *shape = find_numpy(state) ? tuple_of(rank, sizes) : NULL;
    if (shape != NULL)
        array = af_py.PyObject_CallFunctionObjArgs(
            state->empty, shape, dtype != NULL ? dtype : state->float32, NULL);
    af_py.Py_DecRef(shape);
    if (array != NULL && read_array(state, array, true, array_out))
        return array;
    af_py.Py_DecRef(array);
    af_py.PyErr_Clear();
    return NULL;
}

enum argument { Q, K, V, LAYOUT, OUT, RETURN_LSE, CONTEXT, OPTIONS, ARGUMENT_COUNT };

struct call {
    struct state *state;
    struct python_object *const *given;
    struct af_arrays arrays;
    struct anyflash_attend_args args;
    struct anyflash_context *context;
    bool return_lse;
};

static bool take_number(struct python_object *object, float *out)
{
    double number;
    bool taken = af_python_float(object, &number);
    *out = (float)number;
    return isfinite(*out) && taken;
}

static bool take_scale(struct call *call, struct python_object *scale)
{
    return scale == af_py.none || (take_number(scale, &call->args.scale) &&
                                   call->args.scale != ANYFLASH_SCALE_DEFAULT);
}

static bool take_softcap(struct call *call, struct python_object *softcap)
{
    return take_number(softcap, &call->args.softcap);
}

static bool take_window(struct call *call, struct python_object *window)
{
    return af_py.PyTuple_Size(window) == 2 &&
           af_python_integer(af_py.PyTuple_GetItem(window, 0), &call->args.window_left) &&
           af_python_integer(af_py.PyTuple_GetItem(window, 1), &call->args.window_right);
}

static bool take_align(struct call *call, struct python_object *align)
{
    bool top_left = says(align, "top-left");
    call->args.align = top_left ? ANYFLASH_ALIGN_TOP_LEFT : ANYFLASH_ALIGN_BOTTOM_RIGHT;
    return top_left || says(align, "bottom-right");
}

static bool take_causal(struct call *call, struct python_object *causal)
{
    call->args.causal = af_py.PyObject_IsTrue(causal);
    return call->args.causal >= 0;
}

static bool take_max_seqlen_q(struct call *call, struct python_object *length)
{
    return af_python_integer(length, &call->arrays.max_seqlen_q);
}

static bool take_max_seqlen_k(struct call *call, struct python_object *length)
{
    return af_python_integer(length, &call->arrays.max_seqlen_k);
}

/* The options of attend(). Without `take` it is None, or an array. */
static const struct option {
    const char *name;
    bool (*take)(struct call *call, struct python_object *value);
    size_t array; /* where it is in struct af_arrays */
} options[] = {
    {"causal", take_causal, 0},
    {"scale", take_scale, 0},
    {"softcap", take_softcap, 0},
    {"window", take_window, 0},
    {"align", take_align, 0},
    {"max_seqlen_q", take_max_seqlen_q, 0},
    {"max_seqlen_k", take_max_seqlen_k, 0},
    {"cu_seqlens_q", NULL, offsetof(struct af_arrays, cu_seqlens_q)},
    {"cu_seqlens_k", NULL, offsetof(struct af_arrays, cu_seqlens_k)},
    {"seqused_q", NULL, offsetof(struct af_arrays, seqused_q)},
    {"seqused_k", NULL, offsetof(struct af_arrays, seqused_k)},
    {"leftpad_k", NULL, offsetof(struct af_arrays, leftpad_k)},
    {"causal_offsets", NULL, offsetof(struct af_arrays, causal_offsets)},
    {"cache_batch_idx", NULL, offsetof(struct af_arrays, cache_batch_idx)},
    {"block_table", NULL, offsetof(struct af_arrays, block_table)},
    {"alibi_slopes", NULL, offsetof(struct af_arrays, alibi_slopes)},
    {"sinks", NULL, offsetof(struct af_arrays, sinks)},
    {"bias", NULL, offsetof(struct af_arrays, bias)},
    {"mask", NULL, offsetof(struct af_arrays, mask)},
};
_Static_assert(AF_COUNT(options) == OPTION_COUNT, "a name is missing");

static bool take_option(struct call *call, const struct option *option,
                        struct python_object *value)
{
    if (option->take != NULL)
        return option->take(call, value);
    void *array = (char *)&call->arrays + option->array;
    return value == af_py.none || read_array(call->state, value, false, array);
}

static bool take_options(struct call *call)
{
    struct python_object *name = NULL;
    struct python_object *value = NULL;
    ptrdiff_t position = 0;
    while (af_py.PyDict_Next(call->given[OPTIONS], &position, &name, &value)) {
        size_t option = 0;
        while (option < OPTION_COUNT && name != call->state->option_names[option])
            option++;
        if (option == OPTION_COUNT || !take_option(call, &options[option], value))
            return false;
    }
    return true;
}

static bool take_arguments(struct call *call)
{
    struct python_object *layout = call->given[LAYOUT];
    call->arrays.heads_first = layout == call->state->bhsd;
    if (!call->arrays.heads_first && layout != call->state->bshd)
        return false;
    int return_lse = af_py.PyObject_IsTrue(call->given[RETURN_LSE]);
    call->return_lse = return_lse == 1;
    call->context = af_py.PyLong_AsVoidPtr(call->given[CONTEXT]);
    return return_lse >= 0 && call->context != NULL &&
           read_array(call->state, call->given[Q], false, &call->arrays.q) &&
           read_array(call->state, call->given[K], false, &call->arrays.k) &&
           read_array(call->state, call->given[V], false, &call->arrays.v) &&
           take_options(call) &&
           af_arrays_problem(&call->arrays, &call->args, NULL) == ANYFLASH_OK;
}

/* The caller's `out`, or a new array of q's type; either way a new reference. */
static struct python_object *take_out(struct call *call)
{
    struct python_object *out = call->given[OUT];
    struct af_array array = {0};
    int64_t sizes[AF_ARRAY_RANK_MAX];
    if (out != af_py.none) {
        if (!read_array(call->state, out, true, &array))
            return NULL;
        af_py.Py_IncRef(out);
    } else {
        int32_t rank = af_arrays_out_sizes(&call->arrays, &call->args, sizes);
        struct python_object *dtype =
            af_py.PyObject_GetAttr(call->given[Q], call->state->dtype);
        out = dtype != NULL ? new_array(call->state, rank, sizes, dtype, &array) : NULL;
        af_py.Py_DecRef(dtype);
    }
    if (out != NULL &&
        af_arrays_rows(&call->arrays, &call->args, &array, call->args.value_dim, &call->args.o))
        return out;
    af_py.Py_DecRef(out);
    return NULL;
}

static struct python_object *new_lse(struct call *call)
{
    struct af_array array = {0};
    int64_t sizes[AF_ARRAY_RANK_MAX];
    int32_t rank = af_arrays_lse_sizes(&call->args, sizes);
    struct python_object *lse = new_array(call->state, rank, sizes, NULL, &array);
    if (lse != NULL && af_arrays_set_lse(&array, &call->args))
        return lse;
    af_py.Py_DecRef(lse);
    return NULL;
}

static bool compute(const struct call *call)
{
    void *thread = af_py.PyEval_SaveThread();
    enum anyflash_status status = anyflash_attend(call->context, &call->args, NULL);
    af_py.PyEval_RestoreThread(thread);
    return status == ANYFLASH_OK;
}

/* Makes (out, lse), or out alone; takes ownership of both references. */
static struct python_object *result_of(struct python_object *out, struct python_object *lse)
{
    if (lse == NULL)
        return out;
    struct python_object *pair = af_py.PyTuple_New(2);
    if (pair == NULL) {
        af_py.Py_DecRef(out);
        af_py.Py_DecRef(lse);
        return NULL;
    }
    af_py.PyTuple_SetItem(pair, 0, out);
    af_py.PyTuple_SetItem(pair, 1, lse);
    return pair;
}

static struct python_object *attend(struct call *call)
{
    struct python_object *lse = NULL;
    struct python_object *out = take_arguments(call) ? take_out(call) : NULL;
    if (out != NULL && call->return_lse)
        lse = new_lse(call);
    if (out != NULL && (lse != NULL || !call->return_lse) && compute(call))
        return result_of(out, lse);
    af_py.Py_DecRef(out);
    af_py.Py_DecRef(lse);
    return NULL;
}

/* METH_FASTCALL. */
static struct python_object *call_attend(struct python_object *self,
                                         struct python_object *const *args, ptrdiff_t count)
{
    struct call call = {.state = af_python_state(self), .given = args};
    struct python_object *result = NULL;
    if (call.state == NULL)
        return NULL;
    call.args = anyflash_attend_args_init();
    if (count == ARGUMENT_COUNT)
        result = attend(&call);
    return af_python_or_none(result);
}

static void release(struct python_builtin *builtin)
{
    struct state *state = (struct state *)(void *)builtin;
    struct python_object *const owned[] = {state->array_struct, state->dtype, state->bshd,
                                           state->bhsd,         state->empty, state->float32,
                                           state->bfloat16};
    for (size_t i = 0; i < AF_COUNT(owned); i++)
        af_py.Py_DecRef(owned[i]);
    for (size_t i = 0; i < OPTION_COUNT; i++)
        af_py.Py_DecRef(state->option_names[i]);
    af_mem_free(state);
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
        done = intern(options[i].name, &state->option_names[i]);
    return done;
}

int32_t anyflash_python_interface(void)
{
    return ANYFLASH_PYTHON_INTERFACE;
}

void *anyflash_python_attend(void *python, struct anyflash_error *err)
{
    if (af_python_load(python, err) != ANYFLASH_OK)
        return NULL;
    struct state *state = af_mem_alloc(sizeof *state);
    if (state == NULL) {
        af_fail_memory(err);
        return NULL;
    }
    *state = (struct state){
        .builtin = {.method = {.name = "attend", .call = call_attend}, .release = release}};
    if (intern_all(state))
        return af_python_builtin(&state->builtin, err);
    release(&state->builtin);
    af_py.PyErr_Clear();
    af_fail_memory(err);
    return NULL;
}
