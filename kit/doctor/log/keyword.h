/*
 * keyword.h: finds all of many words in a text in one pass (Aho-Corasick).
 */
#ifndef AF_KIT_DOCTOR_LOG_KEYWORD_H
#define AF_KIT_DOCTOR_LOG_KEYWORD_H

#include "engine/base/base.h"
#include "engine/base/mem.h"

/* Bytes of a word that are compared; longer words are cut. */
#define AF_KEYWORD_BYTES_MAX 20u

/* Words by index, as a table of states. Immutable once built; in the arena. */
struct af_keyword_table {
    unsigned char class_of[256]; /* 0: in no word */
    size_t class_count;
    uint32_t
        *next; /* [state][class]: the next state, as an offset into this array, and a flag */
    uint32_t *found; /* [state]: 1 + the first word that ends here; 0: none */
    uint32_t *also;  /* [word]: 1 + the next word that ends in the same state */
};

/*
 * Builds the table for `count` words. Words without a byte are never found.
 * Fails with NO_MEMORY.
 */
enum anyflash_status af_keyword_table_build(const struct af_span *words, size_t count,
                                            struct af_arena *arena,
                                            struct af_keyword_table *out,
                                            struct anyflash_error *err);

/* Called for each word that occurs, once per occurrence. */
typedef void af_keyword_found(void *context, size_t word);

void af_keyword_search(const struct af_keyword_table *table, const char *text, size_t len,
                       af_keyword_found *found, void *context);

#endif
