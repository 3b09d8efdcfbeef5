/*
 * loaded.h: functions of libraries that the process has loaded.
 */
#ifndef AF_ENGINE_BASE_LOADED_H
#define AF_ENGINE_BASE_LOADED_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The address of `name` in `library`, NULL if it is not exported. `library` is a
 * handle of dlopen(), on Windows of LoadLibrary(). A handle of dlopen() also finds what
 * the library's dependencies export; one of LoadLibrary() does not.
 */
void *af_loaded_symbol(void *library, const char *name);

/*
 * Finds a function. `function_out` points to a function pointer of `size` bytes, which
 * becomes NULL if the library does not export it. Returns whether it does.
 */
bool af_loaded_function(void *library, const char *name, void *function_out, size_t size);

#endif
