/*
 * database.h: SQLite helpers that the users of the state file share. Private to the journal
 * and the stored proofs.
 */
#ifndef AF_KIT_SYSTEM_DATABASE_H
#define AF_KIT_SYSTEM_DATABASE_H

#include <sqlite3.h>

#include "kit/system/state.h"

struct af_state {
    sqlite3 *database;
    char *path;
    bool writable;
};

/*
 * Makes SQLite allocate through memory.h. Has an effect only before SQLite is first used.
 */
void af_database_start(void);

/* Fails with SQLite's last error: DATA (corrupt) or IO. */
enum anyflash_status af_database_fail(const struct af_state *state, struct anyflash_error *err);

/* Runs SQL statements that return no rows. */
enum anyflash_status af_database_do(struct af_state *state, const char *sql,
                                    struct anyflash_error *err);

/* Prepares `sql`; false on failure. Finalize *statement_out in both cases. */
bool af_database_prepare(struct af_state *state, const char *sql, sqlite3_stmt **statement_out);

/* Binds a text that must live until the statement is done; NULL binds SQL's NULL. */
bool af_database_bind(sqlite3_stmt *statement, int at, const char *text);

/* A copy of column `at` in the arena; NULL for SQL's NULL. */
const char *af_database_text(sqlite3_stmt *statement, int at, struct af_arena *arena);

/* The first column of the first row that `sql` returns; -1 without one, or on failure. */
int64_t af_database_number(struct af_state *state, const char *sql);

/* Steps a statement without result rows, if it is `good` so far, and finalizes it. */
bool af_database_finish(sqlite3_stmt *statement, bool good);

#endif
