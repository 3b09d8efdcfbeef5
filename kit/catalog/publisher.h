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

/* The publishers that the user allows. Wheels of other publishers are not considered. */
struct af_publishers {
    const char *const *names; /* "Dao-AILab", "official", ... */
    size_t count;
    const char *from; /* where the list was read: "pyproject.toml", "--publishers" */
};

/*
 * Reads the list "Dao-AILab,mjun0812" into the arena. Fails with ARGUMENT if it is empty or
 * names a publisher that the catalog does not have (*hint_out, arena text, then says which ones
 * it has) or LIMIT. `from` is for messages.
 */
enum anyflash_status af_publishers_read(const struct af_catalog *catalog, const char *text,
                                        const char *from, struct af_arena *arena,
                                        struct af_publishers *list_out, const char **hint_out,
                                        struct anyflash_error *err);

/*
 * Reads the list of a TOML file: the key `publishers` of [tool.anyflash] in a pyproject.toml
 * (`is_project`), or of our own config.toml. list_out->count is 0 if there is none. Fails also
 * with DATA if the file is malformed or has another key: ignoring it would trust everybody.
 */
enum anyflash_status af_publishers_read_toml(const struct af_catalog *catalog,
                                             struct af_span text, bool is_project,
                                             const char *from, struct af_arena *arena,
                                             struct af_publishers *list_out,
                                             const char **hint_out, struct anyflash_error *err);

#endif
