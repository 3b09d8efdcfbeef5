/*
 * numpy.h: arrays of NumPy read and made, without its headers: through the C
 * structure behind `__array_struct__` that NumPy documents as the array
 * interface. Private to this module.
 */
#ifndef AF_BINDINGS_NUMPY_NUMPY_H
#define AF_BINDINGS_NUMPY_NUMPY_H

#include "bindings/numpy/arrays.h"
#include "bindings/numpy/python_api.h"

/*
 * What `object` holds; borrowed for as long as the caller holds `object`. False,
 * without an exception, for what is no array of at most four dimensions in
 * native byte order, aligned, with strides in whole elements, or is read-only
 * where `writable` is asked for.
 */
bool af_numpy_read(struct state *state, struct python_object *object, bool writable,
                   struct af_array *array_out);

/*
 * numpy.empty(sizes, dtype), a new reference, and what it holds; NULL, without an
 * exception, when Python refuses. dtype NULL: float32.
 */
struct python_object *af_numpy_new(struct state *state, int32_t rank, const int64_t *sizes,
                                   struct python_object *dtype, struct af_array *array_out);

#endif
