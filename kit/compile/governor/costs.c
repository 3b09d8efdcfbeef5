/*
 * costs.c: stores one row for each kind of file. A higher peak replaces the
 * stored one; a lower one moves it down by an eighth of the difference.
 */
#include "kit/compile/governor/costs.h"

#include <stdio.h>
#include <string.h>

#include "kit/system/database.h"

#define MARGIN 1.05 /* calls of one kind differ a little */

static const char table[] = "CREATE TABLE IF NOT EXISTS build_cost (key TEXT PRIMARY KEY,"
                            " peak_bytes INTEGER NOT NULL, seconds REAL NOT NULL)";

static bool find(struct af_state *state, const char *key, uint64_t *peak, double *seconds)
{
    sqlite3_stmt *statement = NULL;
    bool found = false;
    if (state == NULL)
        return false;
    if (af_database_prepare(state, "SELECT peak_bytes, seconds FROM build_cost WHERE key = ?1",
                            &statement) &&
        af_database_bind(statement, 1, key) && sqlite3_step(statement) == SQLITE_ROW) {
        sqlite3_int64 bytes = sqlite3_column_int64(statement, 0);
        *seconds = sqlite3_column_double(statement, 1);
        found = bytes > 0 && *seconds >= 0;
        *peak = found ? (uint64_t)bytes : 0;
    }
    sqlite3_finalize(statement);
    return found;
}

static void keep(struct af_state *state, const char *key, uint64_t peak, double seconds)
{
    sqlite3_stmt *statement = NULL;
    if (state == NULL || !state->writable || af_database_do(state, table, NULL) != ANYFLASH_OK)
        return;
    if (af_database_prepare(state, "INSERT OR REPLACE INTO build_cost VALUES (?1, ?2, ?3)",
                            &statement) &&
        af_database_bind(statement, 1, key) &&
        sqlite3_bind_int64(statement, 2, (sqlite3_int64)peak) == SQLITE_OK &&
        sqlite3_bind_double(statement, 3, seconds) == SQLITE_OK)
        sqlite3_step(statement);
    sqlite3_finalize(statement);
}

bool af_costs_correct(struct af_state *state, struct af_prediction *prediction)
{
    uint64_t peak;
    double seconds;
    if (!find(state, prediction->key, &peak, &seconds))
        return false;
    prediction->bytes = (uint64_t)((double)peak * MARGIN);
    if (seconds > 0)
        prediction->seconds = seconds;
    return true;
}

void af_costs_learn(struct af_state *state, const struct af_prediction *prediction,
                    uint64_t peak_bytes, double seconds)
{
    uint64_t before;
    double seconds_before;
    if (find(state, prediction->key, &before, &seconds_before)) {
        if (before > peak_bytes)
            peak_bytes = before - (before - peak_bytes) / 8;
        if (seconds_before > 0)
            seconds = (seconds + seconds_before) / 2;
    }
    keep(state, prediction->key, peak_bytes, seconds);
}

void af_costs_raise(struct af_state *state, const struct af_prediction *prediction,
                    uint64_t bytes)
{
    uint64_t before = 0;
    double seconds = 0;
    if (!find(state, prediction->key, &before, &seconds) || before < bytes)
        keep(state, prediction->key, bytes, seconds);
}
