/*
 * facts.h: what was read of libraries before, so that nobody reads them twice.
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
#ifndef AF_RUN_FACTS_H
#define AF_RUN_FACTS_H

#include "formats/binary.h"
#include "formats/fatbin.h"
#include "formats/flash_kernel.h"
#include "run/state.h"

/* All that a proof asks of one library. */
struct af_facts {
    struct af_binary binary; /* is_complete false: from its start only */
    const struct af_gpu_code *gpu_code;     /* NULL: it holds none, or not read */
    const struct af_flash_kernels *kernels; /* NULL: not read */
};

/* A library that is known without being read. */
struct af_known_library {
    const char *path; /* its name in the wheel; "" for a library that is the file itself */
    struct af_facts facts;
};

/* What is known of a wheel or a library, by the path of libraries. */
struct af_known {
    const struct af_known_library *libraries;
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
                   struct af_known *out);

#endif
