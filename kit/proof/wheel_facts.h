/*
 * wheel_facts.h: facts of libraries that were read before, so that no library is
 * read twice.
 *
 * Facts are kept in the state (system/state.h) under the SHA-256 of a library's
 * bytes. The state also records where such bytes were seen: a file by its path,
 * device, inode, size and times of change (so a changed file is read again), a wheel
 * behind an address by its ETag or date and its size; for a wheel, each library by
 * its name in it. Bytes that were not hashed (only the start of a library was read,
 * or hashing a large file would take longer than reading it) are kept under the hash
 * of that identity instead.
 *
 * Kept facts are checked as strictly as a file; damaged ones are ignored. All of
 * this only saves time: a NULL state has no facts.
 */
#ifndef AF_KIT_PROOF_WHEEL_FACTS_H
#define AF_KIT_PROOF_WHEEL_FACTS_H

#include "kit/formats/binary.h"
#include "kit/formats/fatbin.h"
#include "kit/formats/flash_kernel.h"
#include "kit/system/state.h"

/* Raised whenever kept facts would be read wrongly or lack something. */
#define AF_FACTS_SCHEMA 2

/* All that a proof asks of one library. */
struct af_facts {
    struct af_binary binary;                /* is_complete false: from its start only */
    const struct af_gpu_code *gpu_code;     /* NULL: it holds none, or not read */
    const struct af_flash_kernels *kernels; /* NULL: not read */
};

/* A new object with all of them, or NULL without memory. */
json_t *af_facts_to_json(const struct af_facts *facts);

/*
 * Reads what af_facts_to_json() wrote, in the arena; fails with DATA for anything
 * else and with NO_MEMORY.
 */
enum anyflash_status af_facts_from_json(struct af_arena *arena, const json_t *json,
                                        struct af_facts *out);

/*
 * Where bytes are: a file or an address, and an identity that changes when they
 * change. Zero-initialised it is no place: nothing is known about it, and nothing is
 * kept.
 */
struct af_place {
    const char *name;     /* real path, or address without user, query and fragment */
    const char *identity; /* opaque text */
    const char *path;     /* of a file; NULL: an address */
    uint64_t size_bytes;
    bool is_settled; /* a change from now on would change the identity */
};

/* The file's place; zero when it is not a regular file or its status cannot be read. */
struct af_place af_place_of_file(struct af_arena *arena, const char *path);

/*
 * The place of the bytes that an address returned with these HTTP validators ("" for
 * none) and that size; zero when no validator would show a change.
 */
struct af_place af_place_of_address(struct af_arena *arena, const char *url, const char *etag,
                                    const char *last_modified, uint64_t size_bytes);

/* Whether facts read at the place may be kept: a file must not have changed since. */
bool af_place_holds(struct af_arena *arena, const struct af_place *place);

/*
 * A replacement for the hash of bytes that were not hashed: 64 hexadecimal digits
 * for `member` of the place ("" for the file itself). NULL without memory.
 */
const char *af_place_hash(struct af_arena *arena, const struct af_place *place,
                          const char *member);

/*
 * The facts of bytes with this hash, as a file called `name` (its facts depend
 * on it); false when they are not known or what is kept is damaged.
 */
bool af_facts_get(struct af_state *state, const char *sha256, const char *name,
                  struct af_arena *arena, struct af_facts *out);

/* Keeps them, within af_state_facts_begin() and _commit(). */
void af_facts_put(struct af_state *state, const char *sha256, const struct af_facts *facts);

/* A library that is known without being read. */
struct af_proof_known_library {
    const char *path; /* its name in the wheel; "" for a library that is the file itself */
    struct af_facts facts;
};

/* What is known of a wheel or a library, by the path of libraries. */
struct af_proof_known {
    const struct af_proof_known_library *libraries;
    size_t count;
    bool is_whole; /* no library of it is lacking here */
};

/*
 * What is known about `where`, a file (a wheel or a library) or an address; only the
 * state and the file's status are read. For an address it is what was there when it
 * was last inspected: a hint, to be proved again before it is relied on. False when
 * nothing is known. Texts are in the arena; check arena->failed.
 */
bool af_facts_find(struct af_state *state, const char *where, struct af_arena *arena,
                   struct af_proof_known *out);

/* The addresses with known facts, at most 4096, latest first; in the arena. */
void af_facts_addresses(struct af_state *state, struct af_arena *arena,
                        const char ***addresses_out, size_t *count_out);

#endif
