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

/* Index of the pending cost with this key; costs->count: none. */
static size_t pending_at(const struct af_costs *costs, const char *key)
{
    size_t at = 0;
    while (at < costs->count && strcmp(costs->pending[at].key, key) != 0)
        at++;
    return at;
}

static bool find(const struct af_costs *costs, const char *key, uint64_t *peak, double *seconds)
{
    sqlite3_stmt *statement = NULL;
    bool found = false;
    size_t at = pending_at(costs, key);
    if (at < costs->count) {
        *peak = costs->pending[at].peak_bytes;
        *seconds = costs->pending[at].seconds;
        return true;
    }
    if (costs->state == NULL)
        return false;
    if (af_database_prepare(costs->state,
                            "SELECT peak_bytes, seconds FROM build_cost WHERE key = ?1",
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

static void write_one(struct af_state *state, const struct af_cost *cost)
{
    sqlite3_stmt *statement = NULL;
    if (af_database_prepare(state, "INSERT OR REPLACE INTO build_cost VALUES (?1, ?2, ?3)",
                            &statement) &&
        af_database_bind(statement, 1, cost->key) &&
        sqlite3_bind_int64(statement, 2, (sqlite3_int64)cost->peak_bytes) == SQLITE_OK &&
        sqlite3_bind_double(statement, 3, cost->seconds) == SQLITE_OK)
        sqlite3_step(statement);
    sqlite3_finalize(statement);
}

void af_costs_write(struct af_costs *costs)
{
    struct af_state *state = costs->state;
    if (costs->count > 0 && state->writable &&
        af_database_do(state, "BEGIN IMMEDIATE", NULL) == ANYFLASH_OK) {
        bool good = af_database_do(state, table, NULL) == ANYFLASH_OK;
        for (size_t i = 0; good && i < costs->count; i++)
            write_one(state, &costs->pending[i]);
        if (af_database_do(state, good ? "COMMIT" : "ROLLBACK", NULL) != ANYFLASH_OK)
            af_database_do(state, "ROLLBACK", NULL);
    }
    costs->count = 0;
}

static void keep(struct af_costs *costs, const char *key, uint64_t peak, double seconds)
{
    if (costs->state == NULL)
        return;
    if (costs->count == AF_COSTS_PENDING_MAX)
        af_costs_write(costs);
    size_t at = pending_at(costs, key);
    struct af_cost *cost = &costs->pending[at];
    costs->count += at == costs->count;
    snprintf(cost->key, sizeof cost->key, "%s", key);
    cost->peak_bytes = peak;
    cost->seconds = seconds;
}

bool af_costs_known(const struct af_costs *costs, struct af_prediction *prediction)
{
    uint64_t peak;
    double seconds;
    if (!find(costs, prediction->key, &peak, &seconds))
        return false;
    prediction->bytes = (uint64_t)((double)peak * MARGIN);
    if (seconds > 0)
        prediction->seconds = seconds;
    return true;
}

bool af_costs_correct(struct af_state *state, struct af_prediction *prediction)
{
    const struct af_costs costs = {.state = state};
    return af_costs_known(&costs, prediction);
}

void af_costs_learn(struct af_costs *costs, const struct af_prediction *prediction,
                    uint64_t peak_bytes, double seconds)
{
    uint64_t before;
    double seconds_before;
    if (find(costs, prediction->key, &before, &seconds_before)) {
        if (before > peak_bytes)
            peak_bytes = before - (before - peak_bytes) / 8;
        if (seconds_before > 0)
            seconds = (seconds + seconds_before) / 2;
    }
    keep(costs, prediction->key, peak_bytes, seconds);
}

void af_costs_raise(struct af_costs *costs, const struct af_prediction *prediction,
                    uint64_t bytes)
{
    uint64_t before = 0;
    double seconds = 0;
    if (!find(costs, prediction->key, &before, &seconds) || before < bytes)
        keep(costs, prediction->key, bytes, seconds);
}
