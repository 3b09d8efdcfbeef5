/*
 * loaded.c: dlsym() and GetProcAddress().
 */
#include "engine/base/loaded.h"

#include <string.h>

#ifdef _WIN32
#include <windows.h>

void *af_loaded_symbol(void *library, const char *name)
{
    FARPROC function = GetProcAddress(library, name);
    void *address;
    memcpy(&address, &function, sizeof address);
    return address;
}

#else
#include <dlfcn.h>

void *af_loaded_symbol(void *library, const char *name)
{
    return dlsym(library, name);
}

#endif

bool af_loaded_function(void *library, const char *name, void *function_out, size_t size)
{
    /*
     * ISO C cannot convert void * to a function pointer; POSIX and Windows guarantee the
     * same representation.
     */
    void *address = af_loaded_symbol(library, name);
    memcpy(function_out, &address, size);
    return address != NULL;
}
