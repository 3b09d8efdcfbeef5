/*
 * state.h: what this program remembers between runs, in one SQLite file.
 *
 * It holds the journal of installations (install/journal.h) and the conclusions of inspections.
 * The file is $ANYFLASH_STATE/state.db, else $XDG_STATE_HOME/anyflash/state.db, else
 * ~/.local/state/anyflash/state.db, readable by its owner only. It uses a rollback journal, not
 * WAL, because home folders may be on NFS (docs/decisions/0030). Several processes may use it
 * at once; a writer waits up to AF_STATE_BUSY_MS. A file of an older version is upgraded when
 * it is opened for writing.
 *
 * Features that use the state only to save time work without it: every function here accepts a
 * NULL state, which is always empty. Not thread-safe: each state belongs to one thread.
 */
#ifndef AF_KIT_SYSTEM_STATE_H
#define AF_KIT_SYSTEM_STATE_H

#include "engine/base/base.h"
#include "kit/base/memory.h"

#define AF_STATE_SCHEMA 3
#define AF_STATE_BUSY_MS 10000
#define AF_STATE_CACHE_BUSY_MS 100

struct af_state;

enum af_state_use {
    AF_STATE_READ, /* only if the file exists; nothing is created, moved or changed */
    /*
     * For data that only saves time: created if missing (but not by root in another user's
     * home), never moved aside; waits at most AF_STATE_CACHE_BUSY_MS for another process.
     */
    AF_STATE_CACHE,
    AF_STATE_WRITE /* created if missing; a corrupt file is moved aside */
};

/*
 * Opens the state. With AF_STATE_READ and no file, *state_out is NULL and the status is OK.
 * Any other problem (no home, read-only, corrupt, made by a newer version, not a database, the
 * file or its folder belongs to another user or can be written by others)
 * fails with NOT_FOUND, IO, DATA or LIMIT; the message names the file and the reason. A caller
 * that does not need the state continues with NULL. If a corrupt file was moved aside to
 * state.db.corrupt-N, *remark_out (arena text; else NULL) says so.
 */
enum anyflash_status af_state_open(enum af_state_use use, struct af_arena *arena,
                                   struct af_state **state_out, const char **remark_out,
                                   struct anyflash_error *err);
void af_state_close(struct af_state *state);

/*
 * The folder of the state file, the folder where downloads are kept ($ANYFLASH_CACHE, else
 * $XDG_CACHE_HOME/anyflash, else ~/.cache/anyflash), and the folder of the user's own settings.
 * Nothing is created. NULL if there is no home folder.
 */
const char *af_state_folder(struct af_arena *arena);
const char *af_cache_folder(struct af_arena *arena);
const char *af_settings_folder(struct af_arena *arena);

/* The catalog that `anyflash update` leaves in `folder`; NULL without a folder. */
const char *af_state_catalog_path(struct af_arena *arena, const char *folder);

/*
 * The folder for the file at `url`: CACHE/wheels/HASH, where HASH is the hash of the address,
 * so that files of the same name from different publishers do not collide. The folder is not
 * created. Fails with NOT_FOUND without a home folder.
 */
enum anyflash_status af_cache_wheel_folder(struct af_arena *arena, const char *url,
                                           const char **folder_out, struct anyflash_error *err);

/*
 * The conclusions of earlier inspections, so that a decision can use them without reading the
 * wheels again. A row says whether the wheel at an address loads in an environment, and why.
 *
 * A row is about the bytes that the address had when it was inspected; an installation proves
 * the file that it downloads. Rows are found by hashes of what the answer depends on
 * (probe/probe.h), so a row is no longer found after torch, Python or the C library has
 * changed. Inspecting the wheel again stores a new one.
 *
 * Stored proofs only save time, so these functions report no failures: one that cannot be read
 * counts as absent, and one that cannot be written is not stored. A NULL state is empty.
 */
#define AF_STATE_PROOFS_MAX 256u

struct af_state_proof {
    const char *address;     /* of the wheel; secrets in it are not stored */
    const char *environment; /* hash of what decides whether a wheel loads */
    /* hash of the rest that this answer depends on, such as GPUs; NULL: on nothing else */
    const char *surroundings;
    enum af_answer answer; /* whether it loads */
    const char *reason;    /* why it does not load, in one sentence; NULL: it is not stated */
    const char *built_for; /* "torch 2.7 or 2.8"; NULL: not known */
};

/*
 * Stores a proof of today in place of the earlier one for the same address and environment. If
 * there are too many, the oldest are deleted.
 */
void af_state_proof_put(struct af_state *state, const struct af_state_proof *proof);

/*
 * The stored proofs that hold for an environment with these hashes, latest first, at most
 * AF_STATE_PROOFS_MAX. The list is in the arena; its texts are scrubbed for printing.
 */
void af_state_proofs_find(struct af_state *state, const char *environment,
                          const char *surroundings, struct af_arena *arena,
                          const struct af_state_proof **proofs_out, size_t *count_out);

#endif
