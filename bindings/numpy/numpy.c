/*
 * numpy.c: one attribute read per array. Strides there count bytes.
 */
#include "bindings/numpy/numpy.h"

/* PyArrayInterface of NumPy's manual, "The array interface protocol". */
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

/* bfloat16 has no letter of its own: its arrays say "two bytes of something". */
static bool is_bfloat16(struct state *state, struct python_object *object)
{
    struct python_object *dtype = af_py.PyObject_GetAttr(object, state->dtype);
    struct python_object *name = NULL;
    bool known = dtype != NULL && dtype == state->bfloat16;
    if (dtype != NULL && !known)
        name = af_py.PyObject_GetAttrString(dtype, "name");
    if (name != NULL && af_python_says(name, "bfloat16")) {
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

bool af_numpy_read(struct state *state, struct python_object *object, bool writable,
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

struct python_object *af_numpy_new(struct state *state, int32_t rank, const int64_t *sizes,
                                   struct python_object *dtype, struct af_array *array_out)
{
    struct python_object *array = NULL;
    struct python_object *shape = find_numpy(state) ? tuple_of(rank, sizes) : NULL;
    if (shape != NULL)
        array = af_py.PyObject_CallFunctionObjArgs(
            state->empty, shape, dtype != NULL ? dtype : state->float32, NULL);
    af_py.Py_DecRef(shape);
    if (array != NULL && af_numpy_read(state, array, true, array_out))
        return array;
    af_py.Py_DecRef(array);
    af_py.PyErr_Clear();
    return NULL;
}
