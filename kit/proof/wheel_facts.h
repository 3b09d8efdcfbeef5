/*
 * wheel_facts.h: facts of libraries that were read before, so that no library is read twice.
 *
 * Facts are kept in the state (system/state.h) under the SHA-256 of a library's bytes. The
 * state also records where such bytes were seen: a file by its path, device, inode, size and
 * times of change (so a changed file is read again), a wheel behind an address by its ETag or
 * date and its size; for a wheel, each library by its name in it. If the bytes were not hashed
 * (only the start of a library was read, or hashing a large file would take longer than reading
 * it), the facts are kept under the hash of that identity instead.
 *
 * Kept facts are validated as strictly as a file; damaged ones are ignored. All of this only
 * saves time: with a NULL state no facts are known.
 */
#ifndef AF_KIT_PROOF_WHEEL_FACTS_H
#define AF_KIT_PROOF_WHEEL_FACTS_H

#include "kit/formats/binary.h"
#include "kit/formats/fatbin.h"
#include "kit/formats/flash_kernel.h"
#include "kit/system/state.h"

/* Increase it when kept facts would be misread or would lack a field. */
#define AF_FACTS_SCHEMA 2

/* The facts of one library that a proof needs. */
struct af_facts {
    /* is_complete false: read from its first bytes only */
    struct af_binary binary;
    const struct af_gpu_code *gpu_code;     /* NULL: there is no GPU code, or it was not read */
    const struct af_flash_kernels *kernels; /* NULL: not read */
};

/* A new JSON object with all facts, or NULL if memory runs out. */
json_t *af_facts_to_json(const struct af_facts *facts);

/*
 * Reads what af_facts_to_json() wrote, in the arena; fails with DATA for anything
 * else and with NO_MEMORY.
 */
enum anyflash_status af_facts_from_json(struct af_arena *arena, const json_t *json,
                                        struct af_facts *out);

/*
 * Where bytes are: a file or an address, and an identity that changes when the bytes change. A
 * zero-initialised place is empty: nothing is known about it, and nothing is kept for it.
 */
struct af_place {
    const char *name;     /* real path, or address without user, query and fragment */
    const char *identity; /* opaque text */
    const char *path;     /* of a file; NULL: an address */
    uint64_t size_bytes;
    bool is_settled; /* any later change would also change the identity */
};

/* The file's place; zero when it is not a regular file or stat() fails. */
struct af_place af_place_of_file(struct af_arena *arena, const char *path);

/*
 * The place of the bytes that an address returned with these HTTP validators ("" for
 * none) and that size; zero when no validator would show a change.
 */
struct af_place af_place_of_address(struct af_arena *arena, const char *url, const char *etag,
                                    const char *last_modified, uint64_t size_bytes);

/* Whether facts read at the place may be kept: the file must not have changed since. */
bool af_place_holds(struct af_arena *arena, const struct af_place *place);

/*
 * A replacement for the hash of bytes that were not hashed: 64 hexadecimal digits
 * for `member` of the place ("" for the file itself). NULL without memory.
 */
const char *af_place_hash(struct af_arena *arena, const struct af_place *place,
                          const char *member);

/*
 * Looks up the facts of bytes with this hash in a file called `name` (some facts depend on the
 * name); false when they are not known or the stored copy is damaged.
 */
bool af_facts_get(struct af_state *state, const char *sha256, const char *name,
                  struct af_arena *arena, struct af_facts *out);

/* Stores the facts. Call it between af_state_facts_begin() and _commit(). */
void af_facts_put(struct af_state *state, const char *sha256, const struct af_facts *facts);

/* A library whose facts are known without reading it. */
struct af_proof_known_library {
    const char *path; /* its name in the wheel; "" if the file itself is the library */
    struct af_facts facts;
};

/* The known libraries of a wheel or file, ordered by path. */
struct af_proof_known {
    const struct af_proof_known_library *libraries;
    size_t count;
    bool is_whole; /* all libraries of the wheel are in the list */
};

/*
 * Looks up what is known about `where`: a file (a wheel or a library) or an address. Reads only
 * the state and the file's status. Facts of an address describe the bytes of the last
 * inspection: they are a hint and must be proved again before they are relied on. False when
 * nothing is known. Texts are in the arena; check arena->failed.
 */
bool af_facts_find(struct af_state *state, const char *where, struct af_arena *arena,
                   struct af_proof_known *out);

/* The addresses with known facts, at most 4096, latest first. The list is in the arena. */
void af_facts_addresses(struct af_state *state, struct af_arena *arena,
                        const char ***addresses_out, size_t *count_out);

#endif
