/*
 * publisher.h: who published a wheel, as one word: the owner of the repository that it comes
 * from. "Dao-AILab" are the authors of flash-attn; owners on Hugging Face have a prefix,
 * "huggingface:lldacing"; PyTorch's own index is "pytorch-wheel-index".
 */
#ifndef AF_KIT_CATALOG_PUBLISHER_H
#define AF_KIT_CATALOG_PUBLISHER_H

#include "kit/catalog/catalog.h"

/* Every wheel that is marked as official, whoever published it. */
#define AF_PUBLISHER_OFFICIAL "official"

/* Length of the publisher at the start of a wheel's source, such as "owner/name". */
size_t af_publisher_len(const char *source);

/*
 * Finds out from a URL who published the file. The result is in the arena; NULL if the URL is
 * neither on GitHub nor on Hugging Face, or contains "..", which could hide the real owner.
 */
const char *af_publisher_of_url(struct af_arena *arena, const char *url);

/*
 * Whether `name` stands for the wheel's publisher: the publisher, the whole repository
 * ("owner/name"), or AF_PUBLISHER_OFFICIAL. Case is ignored.
 */
bool af_publisher_is(const struct af_catalog_wheel *wheel, const char *name);

/* The publishers of the catalog, each once, in its order. The array is in the arena. */
enum anyflash_status af_publisher_list(const struct af_catalog *catalog, struct af_arena *arena,
                                       const char *const **names_out, size_t *count_out,
                                       struct anyflash_error *err);

#endif
