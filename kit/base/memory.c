/*
 * memory.c: allocation that ends the program instead of failing, and arenas.
 *
 * An arena is a list of blocks, newest first; a request that does not fit the
 * newest block opens another, at least as large as the request.
 */
#include "kit/base/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXIT_WORLD 3 /* as for every failure of the system */
#define BLOCK_BYTES (16u * 1024u)
#define ALIGN_BYTES (sizeof(max_align_t))

struct af_arena_block {
    struct af_arena_block *older;
    size_t used_bytes;
    size_t size_bytes;
    max_align_t memory[];
};

void af_memory_end(void)
{
#ifdef __wasm__
    __builtin_trap();
#else
    static const char message[] = "error: out of memory\n";
    /* stdio may need memory; nothing is left to do if this fails */
    ssize_t written = write(STDERR_FILENO, message, sizeof message - 1);
    (void)written;
    _exit(EXIT_WORLD);
#endif
}

void *af_memory_alloc(size_t size_bytes)
{
    void *memory = malloc(size_bytes == 0 ? 1 : size_bytes);
    if (memory == NULL)
        af_memory_end();
    return memory;
}

void *af_memory_resize(void *memory, size_t size_bytes)
{
    void *resized = realloc(memory, size_bytes == 0 ? 1 : size_bytes);
    if (resized == NULL)
        af_memory_end();
    return resized;
}

void af_memory_free(void *memory)
{
    free(memory);
}

void af_arena_init(struct af_arena *arena)
{
    arena->newest = NULL;
}

void af_arena_release(struct af_arena *arena)
{
    while (arena->newest != NULL) {
        struct af_arena_block *older = arena->newest->older;
        af_memory_free(arena->newest);
        arena->newest = older;
    }
}

/* The sum; sizes that no memory has end the program. */
static size_t sum(size_t a, size_t b)
{
    size_t added;
    if (!af_size_add(a, b, &added))
        af_memory_end();
    return added;
}

static struct af_arena_block *block_new(size_t needed_bytes)
{
    size_t size_bytes = needed_bytes > BLOCK_BYTES ? needed_bytes : BLOCK_BYTES;
    struct af_arena_block *block =
        af_memory_alloc(sum(size_bytes, sizeof(struct af_arena_block)));
    block->used_bytes = 0;
    block->size_bytes = size_bytes;
    return block;
}

void *af_arena_alloc(struct af_arena *arena, size_t size_bytes)
{
    size_t padded_bytes = sum(size_bytes, ALIGN_BYTES - 1);
    padded_bytes -= padded_bytes % ALIGN_BYTES;
    struct af_arena_block *block = arena->newest;
    if (block == NULL || block->size_bytes - block->used_bytes < padded_bytes) {
        block = block_new(padded_bytes);
        block->older = arena->newest;
        arena->newest = block;
    }
    void *memory = (char *)block->memory + block->used_bytes;
    block->used_bytes += padded_bytes;
    return memset(memory, 0, padded_bytes);
}

void *af_arena_array(struct af_arena *arena, size_t count, size_t size_bytes)
{
    size_t total_bytes;
    if (!af_size_mul(count, size_bytes, &total_bytes))
        af_memory_end();
    return af_arena_alloc(arena, total_bytes);
}

char *af_arena_text_n(struct af_arena *arena, const char *text, size_t len)
{
    if (text == NULL)
        return NULL;
    char *copy = af_arena_alloc(arena, sum(len, 1));
    memcpy(copy, text, len);
    return copy;
}

char *af_arena_text(struct af_arena *arena, const char *text)
{
    return text == NULL ? NULL : af_arena_text_n(arena, text, strlen(text));
}

char *af_arena_format(struct af_arena *arena, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int len = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (len < 0)
        af_memory_end(); /* longer than any text of ours */
    char *text = af_arena_alloc(arena, (size_t)len + 1);
    va_start(args, format);
    vsnprintf(text, (size_t)len + 1, format, args);
    va_end(args);
    return text;
}
