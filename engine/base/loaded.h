/*
 * loaded.h: functions of libraries that the process has loaded.
 */
#ifndef AF_ENGINE_BASE_LOADED_H
#define AF_ENGINE_BASE_LOADED_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The address of `name` in `library`, NULL if it is not exported. `library` is a
 * handle of dlopen(), on Windows of LoadLibrary(). dlopen()'s also finds what the
 * library's own dependencies export.
 */
void *af_loaded_symbol(void *library, const char *name);

/*
 * Stores the address of a function in the function pointer at `function_out`, which has
 * `size` bytes; NULL and false if it is not exported.
 */
bool af_loaded_function(void *library, const char *name, void *function_out, size_t size);

#endif
