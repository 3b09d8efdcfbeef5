/*
 * mem.h: every allocation of the program, so that tests can make each fail.
 *
 * af_mem_* behave as malloc, realloc and free. Memory from an arena is released
 * all at once. Failure is sticky: after one failed request `failed` is true and
 * every further request returns NULL, so a caller can make many requests and
 * check once.
 */
#ifndef AF_ENGINE_BASE_MEM_H
#define AF_ENGINE_BASE_MEM_H

#include "engine/base/base.h"

void *af_mem_alloc(size_t size_bytes);
void *af_mem_resize(void *memory, size_t size_bytes);
void af_mem_free(void *memory);

/*
 * Test hook: makes the `nth` allocation from now on (1 = the next) fail and,
 * with `all_after`, every later one too. 0 switches it off. Not thread-safe.
 */
void af_mem_fail_nth(size_t nth, bool all_after);

/* How many allocations were requested since the last af_mem_fail_nth(). */
size_t af_mem_request_count(void);

/*
 * How many requests have failed since the program started. A caller of many
 * readers that turn a failure into an unknown fact compares it before and after.
 */
size_t af_mem_failure_count(void);

struct af_arena {
    struct af_arena_block *newest;
    bool failed;
};

void af_arena_init(struct af_arena *arena);
void af_arena_release(struct af_arena *arena);

/* Zeroed memory aligned for any type, or NULL and arena->failed. */
void *af_arena_alloc(struct af_arena *arena, size_t size_bytes);

/* As af_arena_alloc() for `count` elements of `size_bytes`; overflow fails. */
void *af_arena_array(struct af_arena *arena, size_t count, size_t size_bytes);

/* NUL-terminated copies. NULL for a NULL `text`, which is not a failure. */
char *af_arena_text(struct af_arena *arena, const char *text);
char *af_arena_text_n(struct af_arena *arena, const char *text, size_t len);
char *af_arena_format(struct af_arena *arena, const char *format, ...) AF_PRINTF(2, 3);

#endif
