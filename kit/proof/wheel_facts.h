/*
 * wheel_facts.h: what was read of libraries before, so that nobody reads them twice.
 *
 * Facts are kept in the state (run/state.h) by the SHA-256 of a library's bytes.
 * Beside them stands where such bytes were seen: a file by its path, device,
 * inode, size and times of change (so a file that was touched is read again), a
 * wheel behind an address by its ETag or date and its size; of a wheel each
 * library by its name in it. Bytes that were not hashed (only the start of a
 * library was read, or hashing a large file would take longer than reading it)
 * have the hash of that identity in place of their own.
 *
 * What is kept is checked as strictly as a file; what is damaged is passed over.
 * All of this only saves time: a NULL state knows nothing.
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
 * Where bytes lie: a file or an address, and what tells whether they are still
 * the same. Zero-initialised it is nowhere: nothing is known of it or kept.
 */
struct af_place {
    const char *name;     /* real path, or address without user, query and fragment */
    const char *identity; /* opaque text */
    const char *path;     /* of a file; NULL: an address */
    uint64_t size_bytes;
    bool is_settled; /* a change from now on would change the identity */
};

/* The file's place; nowhere when it is no regular file or its status cannot be read. */
struct af_place af_place_of_file(struct af_arena *arena, const char *path);

/*
 * The place of what an address gave with these validators of HTTP ("" for none)
 * and that size; nowhere when none of them would tell a change.
 */
struct af_place af_place_of_address(struct af_arena *arena, const char *url, const char *etag,
                                    const char *last_modified, uint64_t size_bytes);

/* Whether what is read of the place may be kept: a file must not have changed since. */
bool af_place_holds(struct af_arena *arena, const struct af_place *place);

/*
 * In place of the hash of bytes that nobody hashed: 64 hexadecimal digits for
 * `member` of the place ("" for the file itself). NULL without memory.
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
 * What is known of `where`, a file (a wheel or a library) or an address; nothing
 * is read but the state, and the file's status. Of an address it is what lay
 * there when it was last inspected: a hint, to be proved again before it is
 * relied on. False when nothing is known. Texts are in the arena, whose failure
 * is the caller's to look at.
 */
bool af_facts_find(struct af_state *state, const char *where, struct af_arena *arena,
                   struct af_proof_known *out);

/* The addresses that something is known of, at most 4096, latest first; in the arena. */
void af_facts_addresses(struct af_state *state, struct af_arena *arena,
                        const char ***addresses_out, size_t *count_out);

#endif
