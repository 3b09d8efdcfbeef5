/*
 * memory.h: the kit's memory. A request never fails: when memory runs out, the program says so
 * and ends. Whatever is half done then is as after kill -9, which every command survives.
 */
#ifndef AF_KIT_BASE_MEMORY_H
#define AF_KIT_BASE_MEMORY_H

#include "engine/base/base.h"

/* As malloc, realloc and free; never NULL. */
void *af_memory_alloc(size_t size_bytes);
void *af_memory_resize(void *memory, size_t size_bytes);
void af_memory_free(void *memory);

/*
 * Prints "error: out of memory" and ends the program with exit code 3. The web page's module
 * traps.
 */
AF_NORETURN void af_memory_end(void);

/* Memory that is released all at once. A zero-initialised one is empty. */
struct af_arena {
    struct af_arena_block *newest;
};

void af_arena_init(struct af_arena *arena);
void af_arena_release(struct af_arena *arena);

/* Zeroed memory, aligned for any type; never NULL. */
void *af_arena_alloc(struct af_arena *arena, size_t size_bytes);

/* As af_arena_alloc() for `count` elements of `size_bytes`. */
void *af_arena_array(struct af_arena *arena, size_t count, size_t size_bytes);

/* NUL-terminated copies; NULL only for a NULL `text`. */
char *af_arena_text(struct af_arena *arena, const char *text);
char *af_arena_text_n(struct af_arena *arena, const char *text, size_t len);
char *af_arena_format(struct af_arena *arena, const char *format, ...) AF_PRINTF(2, 3);

#endif
