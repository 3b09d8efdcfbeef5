/*
 * intern.c: a growing table with open addressing over FNV-1a hashes. Called by
 * the catalog's reader and packer.
 */
#include "kit/catalog/intern.h"

#include <string.h>

#define FIRST_SLOTS 1024u
#define TEXTS_MAX (UINT32_MAX / 4u)

static size_t hash_of(const char *text, size_t len)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (unsigned char)text[i]) * UINT64_C(1099511628211);
    return (size_t)(hash ^ (hash >> 32));
}

/* The slot that contains `text`, or the free one where it belongs. */
static uint32_t *find_slot(const struct af_intern *intern, const char *text, size_t len)
{
    size_t mask = intern->slot_count - 1;
    for (size_t at = hash_of(text, len) & mask;; at = (at + 1) & mask) {
        uint32_t *slot = &intern->slots[at];
        if (*slot == 0)
            return slot;
        const char *known = intern->texts[*slot - 1];
        if (strncmp(known, text, len) == 0 && known[len] == '\0')
            return slot;
    }
}

/* Doubles the slots when they are half full. */
static bool grow_slots(struct af_intern *intern)
{
    if (intern->slot_count > intern->count * 2)
        return true;
    struct af_intern larger = *intern;
    larger.slot_count = intern->slot_count == 0 ? FIRST_SLOTS : intern->slot_count * 2;
    larger.slots = af_mem_alloc(larger.slot_count * sizeof *larger.slots);
    if (larger.slots == NULL)
        return false;
    memset(larger.slots, 0, larger.slot_count * sizeof *larger.slots);
    for (size_t i = 0; i < intern->count; i++)
        *find_slot(&larger, intern->texts[i], strlen(intern->texts[i])) = (uint32_t)(i + 1);
    af_mem_free(intern->slots);
    *intern = larger;
    return true;
}

static bool grow_texts(struct af_intern *intern)
{
    if (intern->count < intern->text_capacity)
        return true;
    size_t capacity = intern->text_capacity == 0 ? FIRST_SLOTS : intern->text_capacity * 2;
    const char **texts = af_mem_resize(intern->texts, capacity * sizeof *texts);
    if (texts == NULL)
        return false;
    intern->texts = texts;
    intern->text_capacity = capacity;
    return true;
}

bool af_intern_add(struct af_intern *intern, struct af_arena *arena, const char *text,
                   size_t len, size_t *number_out)
{
    if (intern->count >= TEXTS_MAX || !grow_slots(intern) || !grow_texts(intern))
        return false;
    uint32_t *slot = find_slot(intern, text, len);
    if (*slot == 0) {
        char *copy = af_arena_text_n(arena, text, len);
        if (copy == NULL)
            return false;
        intern->texts[intern->count++] = copy;
        *slot = (uint32_t)intern->count;
    }
    *number_out = *slot - 1;
    return true;
}

void af_intern_release(struct af_intern *intern)
{
    af_mem_free(intern->texts);
    af_mem_free(intern->slots);
    *intern = (struct af_intern){0};
}
