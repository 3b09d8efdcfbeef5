/*
 * mem.c: counted allocation with a failure hook, and arenas.
 *
 * An arena is a list of blocks, newest first; a request that does not fit the
 * newest block opens another, at least as large as the request.
 */
#include "engine/base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES (16u * 1024u)
#define ALIGN_BYTES (sizeof(max_align_t))

struct af_arena_block {
    struct af_arena_block *older;
    size_t used_bytes;
    size_t size_bytes;
    max_align_t memory[];
};

/* Atomic: several threads may use the engine at once. */
static _Atomic size_t request_count;
static _Atomic size_t failure_count;
static size_t failing_request;
static bool failing_after;

static bool request_fails(void)
{
    size_t request = ++request_count;
    if (failing_request == 0)
        return false;
    return failing_after ? request >= failing_request : request == failing_request;
}

void af_mem_fail_nth(size_t nth, bool all_after)
{
    request_count = 0;
    failing_request = nth;
    failing_after = all_after;
}

size_t af_mem_request_count(void)
{
    return request_count;
}

size_t af_mem_failure_count(void)
{
    return failure_count;
}

/* Counts failed allocations. */
static void *given(void *memory)
{
    if (memory == NULL)
        failure_count++;
    return memory;
}

void *af_mem_alloc(size_t size_bytes)
{
    return given(request_fails() ? NULL : malloc(size_bytes == 0 ? 1 : size_bytes));
}

void *af_mem_resize(void *memory, size_t size_bytes)
{
    return given(request_fails() ? NULL : realloc(memory, size_bytes == 0 ? 1 : size_bytes));
}

void af_mem_free(void *memory)
{
    free(memory);
}

void af_arena_init(struct af_arena *arena)
{
    arena->newest = NULL;
    arena->failed = false;
}

void af_arena_release(struct af_arena *arena)
{
    while (arena->newest != NULL) {
        struct af_arena_block *older = arena->newest->older;
        af_mem_free(arena->newest);
        arena->newest = older;
    }
    arena->failed = false;
}

static struct af_arena_block *block_new(size_t needed_bytes)
{
    size_t size_bytes = needed_bytes > BLOCK_BYTES ? needed_bytes : BLOCK_BYTES;
    size_t total_bytes;
    if (!af_size_add(size_bytes, sizeof(struct af_arena_block), &total_bytes))
        return NULL;
    struct af_arena_block *block = af_mem_alloc(total_bytes);
    if (block != NULL) {
        block->used_bytes = 0;
        block->size_bytes = size_bytes;
    }
    return block;
}

void *af_arena_alloc(struct af_arena *arena, size_t size_bytes)
{
    size_t padded_bytes;
    if (arena->failed || !af_size_add(size_bytes, ALIGN_BYTES - 1, &padded_bytes)) {
        arena->failed = true;
        return NULL;
    }
    padded_bytes -= padded_bytes % ALIGN_BYTES;
    struct af_arena_block *block = arena->newest;
    if (block == NULL || block->size_bytes - block->used_bytes < padded_bytes) {
        block = block_new(padded_bytes);
        if (block == NULL) {
            arena->failed = true;
            return NULL;
        }
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
    if (!af_size_mul(count, size_bytes, &total_bytes)) {
        arena->failed = true;
        return NULL;
    }
    return af_arena_alloc(arena, total_bytes);
}

char *af_arena_text_n(struct af_arena *arena, const char *text, size_t len)
{
    size_t size_bytes;
    if (text == NULL)
        return NULL;
    if (!af_size_add(len, 1, &size_bytes)) {
        arena->failed = true;
        return NULL;
    }
    char *copy = af_arena_alloc(arena, size_bytes);
    if (copy != NULL)
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
    if (len < 0) {
        arena->failed = true;
        return NULL;
    }
    char *text = af_arena_alloc(arena, (size_t)len + 1);
    if (text != NULL) {
        va_start(args, format);
        vsnprintf(text, (size_t)len + 1, format, args);
        va_end(args);
    }
    return text;
}
