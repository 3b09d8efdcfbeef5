/*
 * anyflash_python.h: the engine as a builtin function of a running CPython. The
 * functions of the interpreter's stable ABI are found by dlsym() at run time:
 * nothing is compiled against or linked with Python, so one binary works with
 * every version.
 */
#ifndef ANYFLASH_ANYFLASH_PYTHON_H
#define ANYFLASH_ANYFLASH_PYTHON_H

#include "anyflash/anyflash.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The number of the interface of libanyflash_python, that is, of this header and
 * anyflash_torch.h; it increases whenever a declaration in them changes. Unlike
 * that of libanyflash it is not kept stable: only the Python package of the same
 * build may call it, and the package refuses a library with another number.
 */
#define ANYFLASH_PYTHON_INTERFACE 6
ANYFLASH_API int32_t anyflash_python_interface(void);

/*
 * A new reference to a builtin
 *     attend(q, k, v, layout, out, return_lse, context, options)
 * which computes attention on arrays with `__array_struct__` (NumPy's) and
 * returns what anyflash.attend() of the Python package returns. If the call is
 * invalid or not supported, it returns None, without an exception and with
 * `out` unchanged. `context` is the address of a struct anyflash_context as an
 * int, `options` a dict. The GIL is released while the engine computes.
 *
 * `python` is a handle of dlopen() with the interpreter's functions; the caller
 * holds the GIL. Returns NULL, without an exception, when a function is missing
 * or memory runs out; *err says which. Not for interpreters without a GIL.
 */
ANYFLASH_API void *anyflash_python_attend(void *python, struct anyflash_error *err);

#ifdef __cplusplus
}
#endif

#endif
