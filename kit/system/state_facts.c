/* state_facts.c: stores facts and places as rows of the state file. */
#include "kit/system/state_facts.h"

#include <stdio.h>
#include <time.h>

#include "kit/system/database.h"

#define FACTS_MAX 2048
#define FACTS_BYTES_MAX (32 * 1024 * 1024)
#define PLACES_MAX 16384
#define ROUNDS_MAX 64
#define SEEN_MAX 4096u
#define DAY_SECONDS 86400
#define TOUCH_DAYS 7 /* reading updates the time of use at most this often */

static int64_t today(void)
{
    return (int64_t)time(NULL) / DAY_SECONDS;
}

bool af_state_facts_begin(struct af_state *state)
{
    return state != NULL && state->writable &&
           sqlite3_exec(state->database, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_OK;
}

static bool is_begun(struct af_state *state)
{
    return state != NULL && sqlite3_get_autocommit(state->database) == 0;
}

/* Makes room: deletes the least recently used facts. */
static void trim(struct af_state *state)
{
    for (int i = 0; i < ROUNDS_MAX; i++) {
        if (af_database_number(state, "SELECT count(*) FROM facts") <= FACTS_MAX &&
            af_database_number(state, "SELECT total(bytes) FROM facts") <= FACTS_BYTES_MAX)
            break;
        sqlite3_exec(state->database,
                     "DELETE FROM facts WHERE id IN (SELECT id FROM facts "
                     "ORDER BY used, id LIMIT (SELECT count(*) / 8 + 1 FROM facts))",
                     NULL, NULL, NULL);
    }
    if (af_database_number(state, "SELECT count(*) FROM place") > PLACES_MAX)
        sqlite3_exec(state->database,
                     "DELETE FROM place WHERE id IN (SELECT id FROM place "
                     "ORDER BY used, id LIMIT 2048)",
                     NULL, NULL, NULL);
}

void af_state_facts_commit(struct af_state *state)
{
    if (!is_begun(state))
        return;
    trim(state);
    if (sqlite3_exec(state->database, "COMMIT", NULL, NULL, NULL) != SQLITE_OK)
        sqlite3_exec(state->database, "ROLLBACK", NULL, NULL, NULL);
}

/* Records the time of use. */
static void touch(struct af_state *state, int64_t id)
{
    sqlite3_stmt *statement;
    if (af_database_prepare(state, "UPDATE facts SET used = ?1 WHERE id = ?2", &statement) &&
        sqlite3_bind_int64(statement, 1, today()) == SQLITE_OK &&
        sqlite3_bind_int64(statement, 2, id) == SQLITE_OK)
        sqlite3_step(statement);
    sqlite3_finalize(statement);
}

bool af_state_facts_get(struct af_state *state, const char *sha256, const char *name,
                        int schema, struct af_arena *arena, struct af_span *json_out)
{
    sqlite3_stmt *statement;
    const char *json = NULL;
    int64_t id = 0;
    bool is_old = false;
    if (state == NULL)
        return false;
    if (af_database_prepare(state,
                            "SELECT json, id, used FROM facts WHERE sha256 = ?1 AND name = ?2"
                            " AND schema = ?3 AND length(json) <= ?4",
                            &statement) &&
        af_database_bind(statement, 1, sha256) && af_database_bind(statement, 2, name) &&
        sqlite3_bind_int(statement, 3, schema) == SQLITE_OK &&
        sqlite3_bind_int(statement, 4, (int)AF_STATE_JSON_BYTES_MAX) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW) {
        const char *text = (const char *)sqlite3_column_text(statement, 0);
        size_t len = (size_t)sqlite3_column_bytes(statement, 0);
        json = text == NULL ? NULL : af_arena_text_n(arena, text, len);
        *json_out = (struct af_span){json, len};
        id = sqlite3_column_int64(statement, 1);
        is_old = sqlite3_column_int64(statement, 2) + TOUCH_DAYS <= today();
    }
    sqlite3_finalize(statement);
    if (json != NULL && is_old && state->writable)
        touch(state, id);
    return json != NULL;
}

void af_state_facts_put(struct af_state *state, const char *sha256, const char *name,
                        int schema, struct af_span json)
{
    sqlite3_stmt *statement;
    if (!is_begun(state) || json.len > AF_STATE_JSON_BYTES_MAX)
        return;
    if (af_database_prepare(state,
                            "REPLACE INTO facts (sha256, name, schema, used, bytes, json) "
                            "VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                            &statement) &&
        af_database_bind(statement, 1, sha256) && af_database_bind(statement, 2, name) &&
        sqlite3_bind_int(statement, 3, schema) == SQLITE_OK &&
        sqlite3_bind_int64(statement, 4, today()) == SQLITE_OK &&
        sqlite3_bind_int64(statement, 5, (sqlite3_int64)json.len) == SQLITE_OK &&
        sqlite3_bind_text(statement, 6, json.data, (int)json.len, SQLITE_STATIC) == SQLITE_OK)
        sqlite3_step(statement);
    sqlite3_finalize(statement);
}

bool af_state_place_get(struct af_state *state, const char *place, const char *identity,
                        struct af_arena *arena, struct af_state_seen **rows_out,
                        size_t *count_out, size_t *whole_count_out)
{
    sqlite3_stmt *statement;
    size_t count = 0;
    if (state == NULL)
        return false;
    struct af_state_seen *rows = af_arena_array(arena, SEEN_MAX, sizeof *rows);
    if (rows != NULL &&
        af_database_prepare(state,
                            "SELECT member, sha256, whole FROM place WHERE name = ?1 "
                            "AND (?2 IS NULL OR identity = ?2) ORDER BY id",
                            &statement) &&
        af_database_bind(statement, 1, place) && af_database_bind(statement, 2, identity)) {
        while (count < SEEN_MAX && sqlite3_step(statement) == SQLITE_ROW) {
            rows[count++] = (struct af_state_seen){af_database_text(statement, 0, arena),
                                                   af_database_text(statement, 1, arena)};
            *whole_count_out = (size_t)sqlite3_column_int64(statement, 2);
        }
    }
    if (rows != NULL)
        sqlite3_finalize(statement);
    *rows_out = rows;
    *count_out = count;
    return count > 0 && !arena->failed;
}

void af_state_addresses(struct af_state *state, struct af_arena *arena,
                        const char ***addresses_out, size_t *count_out)
{
    static const char from[] =
        " FROM (SELECT name, max(id) AS last FROM place WHERE name LIKE 'http%' GROUP BY name)";
    sqlite3_stmt *statement;
    char sql[200];
    size_t count = 0;
    *count_out = 0;
    if (state == NULL)
        return;
    snprintf(sql, sizeof sql, "SELECT count(*)%s", from);
    int64_t there = af_database_number(state, sql);
    size_t capacity = there > (int64_t)SEEN_MAX ? SEEN_MAX : there < 0 ? 0 : (size_t)there;
    const char **addresses = af_arena_array(arena, capacity + 1, sizeof *addresses);
    snprintf(sql, sizeof sql, "SELECT name%s ORDER BY last DESC", from);
    if (addresses != NULL && capacity > 0 && af_database_prepare(state, sql, &statement)) {
        while (count < capacity && sqlite3_step(statement) == SQLITE_ROW)
            addresses[count++] = af_database_text(statement, 0, arena);
        sqlite3_finalize(statement);
    }
    *addresses_out = addresses;
    *count_out = arena->failed ? 0 : count;
}

static void run_texts(struct af_state *state, const char *sql, const char *first,
                      const char *second)
{
    sqlite3_stmt *statement;
    if (af_database_prepare(state, sql, &statement) && af_database_bind(statement, 1, first) &&
        af_database_bind(statement, 2, second))
        sqlite3_step(statement);
    sqlite3_finalize(statement);
}

void af_state_place_put(struct af_state *state, const char *place, const char *identity,
                        const struct af_state_seen *seen, size_t whole_count)
{
    sqlite3_stmt *statement;
    if (!is_begun(state))
        return;
    run_texts(state, "DELETE FROM place WHERE name = ?1 AND identity <> ?2", place, identity);
    if (af_database_prepare(state,
                            "REPLACE INTO place (name, member, identity, sha256, whole, used) "
                            "VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                            &statement) &&
        af_database_bind(statement, 1, place) && af_database_bind(statement, 2, seen->member) &&
        af_database_bind(statement, 3, identity) &&
        af_database_bind(statement, 4, seen->sha256) &&
        sqlite3_bind_int64(statement, 5, (sqlite3_int64)whole_count) == SQLITE_OK &&
        sqlite3_bind_int64(statement, 6, today()) == SQLITE_OK)
        sqlite3_step(statement);
    sqlite3_finalize(statement);
}
