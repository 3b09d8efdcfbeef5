/*
 * intern.h: stores each distinct text once, with a number. Used while catalog
 * rows are read and packed.
 */
#ifndef AF_KIT_CATALOG_INTERN_H
#define AF_KIT_CATALOG_INTERN_H

#include "engine/base/base.h"
#include "engine/base/mem.h"

/*
 * Distinct texts in the order in which they were added. A zero-initialised one
 * is empty; release with af_intern_release(). The texts are in the caller's
 * arena.
 */
struct af_intern {
    const char **texts;
    size_t count;
    size_t text_capacity;
    uint32_t *slots; /* number + 1 of a text, 0 free; slot_count is a power of two */
    size_t slot_count;
};

/*
 * Finds the number of `text`; a new text is copied into `arena`. False when
 * memory runs out.
 */
bool af_intern_add(struct af_intern *intern, struct af_arena *arena, const char *text,
                   size_t len, size_t *number_out);
void af_intern_release(struct af_intern *intern);

#endif
