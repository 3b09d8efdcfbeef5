/*
 * query.h: the language of `anyflash find`: words that all must hold.
 *
 * "torch=2.9 python=3.12 cuda=12 abi=true platform=linux_x86_64 version>=2.8" or
 * a word without a key, which must occur in the file name.
 *
 * A number matches what begins with it: torch=2.9 is 2.9 and 2.9.1; and what is
 * said less exactly: cuda=12.8 is also 12. What a name does not say matches
 * nothing, but pure Python wheels match every torch, CUDA, ABI, GPU and glibc.
 */
#ifndef AF_KIT_CATALOG_QUERY_H
#define AF_KIT_CATALOG_QUERY_H

#include "kit/catalog/catalog.h"

#define AF_QUERY_WORDS_MAX 64

struct af_query_word; /* one parsed word */

/* Texts belong to the arena that was passed to af_query_parse(). */
struct af_query {
    const struct af_query_word *words;
    size_t count;
};

/*
 * Reads `words`. A word that is no query fails with ARGUMENT and names the word,
 * what is wrong, and the keys there are.
 */
enum anyflash_status af_query_parse(const char *const *words, size_t word_count,
                                    struct af_arena *arena, struct af_query *query_out,
                                    struct anyflash_error *err);

/*
 * The wheels that satisfy all words, in `arena`, package by package (flash_attn
 * first): newest version first, official before community, then by source, file
 * name and row.
 */
enum anyflash_status af_query_run(const struct af_query *query,
                                  const struct af_catalog *catalog, struct af_arena *arena,
                                  const struct af_catalog_wheel *const **wheels_out,
                                  size_t *count_out, struct anyflash_error *err);

#endif
