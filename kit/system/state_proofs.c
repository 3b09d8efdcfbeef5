/* state_proofs.c: stores conclusions about wheels as rows of the state file. */
#include "kit/system/state_proofs.h"

#include <time.h>

#include "kit/base/text.h"
#include "kit/base/url.h"
#include "kit/system/database.h"

#define ROWS_KEPT "4096"
#define TEXT_BYTES_MAX 1000u
#define DAY_SECONDS 86400

/* Deletes the oldest rows beyond ROWS_KEPT. */
static void trim(struct af_state *state)
{
    sqlite3_exec(state->database,
                 "DELETE FROM proof WHERE id <= (SELECT max(id) FROM proof) - " ROWS_KEPT, NULL,
                 NULL, NULL);
}

void af_state_proof_put(struct af_state *state, const struct af_state_proof *proof)
{
    char shown[AF_URL_BYTES_MAX];
    sqlite3_stmt *statement;
    if (state == NULL || !state->writable)
        return;
    af_url_show(shown, sizeof shown, proof->address);
    bool good =
        af_database_prepare(state,
                            "REPLACE INTO proof (address, environment, surroundings, answer,"
                            " reason, built_for, day) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                            &statement) &&
        af_database_bind(statement, 1, shown) &&
        af_database_bind(statement, 2, proof->environment) &&
        af_database_bind(statement, 3, proof->surroundings) &&
        sqlite3_bind_int(statement, 4, (int)proof->answer) == SQLITE_OK &&
        af_database_bind(statement, 5, proof->reason) &&
        af_database_bind(statement, 6, proof->built_for) &&
        sqlite3_bind_int64(statement, 7, (int64_t)time(NULL) / DAY_SECONDS) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_DONE;
    sqlite3_finalize(statement);
    if (good)
        trim(state);
}

static const char *take_text(sqlite3_stmt *row, int at, struct af_arena *arena)
{
    const char *text = (const char *)sqlite3_column_text(row, at);
    return text == NULL ? NULL : af_text_scrub(arena, text, TEXT_BYTES_MAX);
}

void af_state_proofs_find(struct af_state *state, const char *environment,
                          const char *surroundings, struct af_arena *arena,
                          const struct af_state_proof **proofs_out, size_t *count_out)
{
    static const char sql[] =
        "SELECT address, answer, reason, built_for FROM proof WHERE environment = ?1"
        " AND (surroundings IS NULL OR surroundings = ?2) AND answer BETWEEN 0 AND 2"
        " ORDER BY id DESC";
    sqlite3_stmt *row = NULL;
    size_t count = 0;
    *proofs_out = NULL;
    *count_out = 0;
    if (state == NULL)
        return;
    struct af_state_proof *proofs = af_arena_array(arena, AF_STATE_PROOFS_MAX, sizeof *proofs);
    if (proofs != NULL && af_database_prepare(state, sql, &row) &&
        af_database_bind(row, 1, environment) && af_database_bind(row, 2, surroundings))
        for (; count < AF_STATE_PROOFS_MAX && sqlite3_step(row) == SQLITE_ROW; count++)
            proofs[count] = (struct af_state_proof){
                .address = take_text(row, 0, arena),
                .environment = environment,
                .surroundings = surroundings,
                .answer = (enum af_answer)sqlite3_column_int(row, 1),
                .reason = take_text(row, 2, arena),
                .built_for = take_text(row, 3, arena),
            };
    sqlite3_finalize(row);
    *proofs_out = proofs;
    *count_out = arena->failed ? 0 : count;
}
