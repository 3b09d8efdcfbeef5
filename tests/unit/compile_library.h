/*
 * compile_library.h: small real libraries for tests, made by the C compiler in
 * a temporary folder. Symbols get C++ names by asm labels.
 */
#ifndef AF_TESTS_COMPILE_LIBRARY_H
#define AF_TESTS_COMPILE_LIBRARY_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/system/file.h"
#include "kit/system/process.h"

#define COMPILE_WORDS_MAX 32

/*
 * Compiles `source` to `path` with more arguments (NULL-terminated, or NULL);
 * false if it fails.
 */
static inline bool compile_library(struct af_arena *arena, const char *path, const char *source,
                                   const char *const *more)
{
    const char *argv[COMPILE_WORDS_MAX] = {"cc",        "-shared", "-fPIC", "-O1",
                                           "-nostdlib", "-o",      path};
    size_t count = 7;
    const char *file = af_arena_format(arena, "%s.c", path);
    struct af_child child;
    struct af_span output;
    int code = -1;
    FILE *out = fopen(file, "w");
    if (out == NULL || fputs(source, out) < 0 || fclose(out) != 0)
        return false;
    argv[count++] = file;
    for (size_t i = 0; more != NULL && more[i] != NULL && count + 1 < COMPILE_WORDS_MAX; i++)
        argv[count++] = more[i];
    argv[count] = NULL;
    if (af_child_start_program(argv, NULL, &child, NULL) != ANYFLASH_OK ||
        af_child_collect(&child, 60000, arena, &output, &code, NULL) != ANYFLASH_OK)
        return false;
    return code == 0;
}

#endif
