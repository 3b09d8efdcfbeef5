/*
 * intern.h: equal texts become one pointer with a number. Used while catalog
 * rows are read and packed.
 */
#ifndef AF_KIT_CATALOG_INTERN_H
#define AF_KIT_CATALOG_INTERN_H

#include "engine/base/base.h"
#include "engine/base/mem.h"

/*
 * Texts in the order they were first seen. Zero-initialised it is empty;
 * release with af_intern_release(). The texts live in the caller's arena.
 */
struct af_intern {
    const char **texts;
    size_t count;
    size_t text_capacity;
    uint32_t *slots; /* number + 1 of a text, 0 free; a power of two */
    size_t slot_count;
};

/* The number of `text`, copied into `arena` when it is new; false without memory. */
bool af_intern_add(struct af_intern *intern, struct af_arena *arena, const char *text,
                   size_t len, size_t *number_out);
void af_intern_release(struct af_intern *intern);

#endif
