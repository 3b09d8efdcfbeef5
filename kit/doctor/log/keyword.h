/*
 * keyword.h: finds all of many words in a text in one pass.
 */
#ifndef AF_KIT_DOCTOR_LOG_KEYWORD_H
#define AF_KIT_DOCTOR_LOG_KEYWORD_H

#include "engine/base/base.h"
#include "kit/base/memory.h"

#define AF_KEYWORD_BYTES_MIN 4u /* shorter words are never found */
#define AF_KEYWORD_HASHES 65536u

/* Each word is filed under the hash of AF_KEYWORD_BYTES_MIN of its bytes, its window.
   Immutable once built; in the arena. */
struct af_keyword_table {
    const struct af_span *words;
    uint64_t *present; /* bit H: a word is filed under H */
    uint32_t *first;   /* [hash]: 1 + the first word filed there; 0: none */
    uint32_t *also;    /* [word]: 1 + the next word with this hash */
    size_t *windows;   /* [word]: where its window begins */
};

/* Builds the table for `count` words, which must outlive it. */
void af_keyword_table_build(const struct af_span *words, size_t count, struct af_arena *arena,
                            struct af_keyword_table *out);

/* Called for each word that occurs, once per occurrence. */
typedef void af_keyword_found(void *context, size_t word);

void af_keyword_search(const struct af_keyword_table *table, const char *text, size_t len,
                       af_keyword_found *found, void *context);

#endif
