/*
 * database.h: what the users of the state file share about SQLite. Private to the
 * journal, the kept facts and the learned build costs.
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
 * Lets SQLite allocate through mem.h, so that tests can make it fail. Has an
 * effect only before SQLite is first used.
 */
void af_database_start(void);

/* Fails with what SQLite said last: NO_MEMORY, DATA (corrupt) or IO. */
enum anyflash_status af_database_fail(const struct af_state *state, struct anyflash_error *err);

/* Runs statements that give no rows. */
enum anyflash_status af_database_do(struct af_state *state, const char *sql,
                                    struct anyflash_error *err);

/* Whether `sql` could be prepared; finalize *statement_out in both cases. */
bool af_database_prepare(struct af_state *state, const char *sql, sqlite3_stmt **statement_out);

/* Binds a text that lives until the statement is done; NULL is NULL. */
bool af_database_bind(sqlite3_stmt *statement, int at, const char *text);

/* A copy of column `at` in the arena; NULL for NULL, and when memory lacks. */
const char *af_database_text(sqlite3_stmt *statement, int at, struct af_arena *arena);

/* Steps a statement that gives no rows and finalizes it; NULL fails. */
bool af_database_finish(sqlite3_stmt *statement);

#endif
