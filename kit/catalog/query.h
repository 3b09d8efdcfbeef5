/*
 * query.h: the query language of `anyflash find`: terms that must all match.
 *
 * "torch=2.9 python=3.12 cuda=12 abi=true platform=linux_x86_64 version=2.8",
 * or a word without a key, which must occur in the file name.
 *
 * A number also matches more exact values: torch=2.9 matches 2.9 and 2.9.1; and
 * less exact ones: cuda=12.8 matches 12. torch=2.9.1+cu128 is torch=2.9.1 and
 * cuda=12.8. A value missing from the file name matches nothing, but pure Python
 * wheels match every torch, CUDA, ABI, GPU and glibc.
 */
#ifndef AF_KIT_CATALOG_QUERY_H
#define AF_KIT_CATALOG_QUERY_H

#include "kit/catalog/catalog.h"

#define AF_QUERY_WORDS_MAX 64

struct af_query_word; /* one parsed term (query_word.h) */

/* Texts belong to the arena passed to af_query_parse(). */
struct af_query {
    const struct af_query_word *words;
    size_t count;
};

/*
 * Parses `words`. Fails with ARGUMENT for a word that is not a valid term; the
 * error names the word, the problem and the known keys.
 */
enum anyflash_status af_query_parse(const char *const *words, size_t word_count,
                                    struct af_arena *arena, struct af_query *query_out,
                                    struct anyflash_error *err);

/*
 * Lists the wheels that match all terms, in `arena`. They are grouped by package
 * (flash_attn first), newest version first, official before community, then by
 * source, file name and row.
 */
void af_query_run(const struct af_query *query, const struct af_catalog *catalog,
                  struct af_arena *arena, const struct af_catalog_wheel *const **wheels_out,
                  size_t *count_out);

/*
 * The torch that the query asks for ("9.9", in `arena`), if no wheel of the catalog was built
 * for it, so that only wheels for every torch can match; else NULL.
 */
const char *af_query_unbuilt_torch(const struct af_query *query,
                                   const struct af_catalog *catalog, struct af_arena *arena);

#endif
