/*
 * state.h: what this program remembers between runs: one SQLite file.
 *
 * It holds the journal of installations (run/journal.h) and facts of libraries
 * (run/facts.h), so that a second proof is instant. The file is
 * $ANYFLASH_STATE/state.db, else $XDG_STATE_HOME/anyflash/state.db, else
 * ~/.local/state/anyflash/state.db, readable by its owner only. A rollback
 * journal, not WAL: home folders may lie on NFS (docs/decisions/0030). Several
 * processes may use it at once; a writer waits up to AF_STATE_BUSY_MS. A file of
 * an older program is brought up to date when it is opened for writing.
 *
 * What only saves time works without a state: every function here takes a NULL
 * state, which remembers nothing. Not thread-safe: one state, one thread.
 */
#ifndef AF_KIT_SYSTEM_STATE_H
#define AF_KIT_SYSTEM_STATE_H

#include "engine/base/base.h"
#include "engine/base/mem.h"

#define AF_STATE_SCHEMA 2
#define AF_STATE_BUSY_MS 10000
#define AF_STATE_FACTS_BUSY_MS 100

struct af_state;

enum af_state_use {
    AF_STATE_READ, /* only if the file is there: nothing is created, moved or changed */
    /*
     * For what only saves time: created where it is missing (not by root in the
     * home of another user), but never moved aside, and who holds it is waited for
     * AF_STATE_FACTS_BUSY_MS at most.
     */
    AF_STATE_FACTS,
    AF_STATE_WRITE /* created where it is missing; a corrupt file is moved aside */
};

/*
 * Opens the state. Without one *state_out is NULL and the status is OK with
 * AF_STATE_READ when there is no file; any other reason (no home, read-only,
 * corrupt, made by a newer program, not a database) fails with NOT_FOUND, IO,
 * DATA or LIMIT and names file and reason: who can do without goes on with a
 * NULL state and says so. A corrupt file that was moved aside to
 * state.db.corrupt-N is told in *remark_out (arena text; else NULL).
 */
enum anyflash_status af_state_open(enum af_state_use use, struct af_arena *arena,
                                   struct af_state **state_out, const char **remark_out,
                                   struct anyflash_error *err);
void af_state_close(struct af_state *state);

/*
 * The folder of the state file, and the one where downloads are kept
 * ($ANYFLASH_CACHE, else $XDG_CACHE_HOME/anyflash, else ~/.cache/anyflash).
 * Nothing is created. NULL when there is no home or no memory.
 */
const char *af_state_folder(struct af_arena *arena);
const char *af_cache_folder(struct af_arena *arena);

/*
 * The folder for the file behind `url`: CACHE/wheels/HASH, where HASH is of the
 * address, so that files of the same name from different publishers do not
 * collide. The folder is not created. Fails with NOT_FOUND without a home folder,
 * or NO_MEMORY.
 */
enum anyflash_status af_cache_wheel_folder(struct af_arena *arena, const char *url,
                                           const char **folder_out, struct anyflash_error *err);

#endif
