/*
 * journal.c: operations and their entries in the state file. Every function that makes changes
 * is one transaction, which is on disk when it returns.
 */
#include "kit/install/journal.h"

#include <string.h>
#include <time.h>

#include "kit/base/text.h"
#include "kit/install/record.h"
#include "kit/system/database.h"

#ifdef AF_TEST_HOOKS

#include <signal.h>
#include <stdlib.h>

void af_install_step_hook(void)
{
    static int64_t count; /* counts steps, for tests only */
    int64_t at = 0;
    count++;
    if (af_parse_i64(getenv("ANYFLASH_KILL_AT"), 1, INT32_MAX, &at) && at == count)
        raise(SIGKILL);
}

#else

void af_install_step_hook(void)
{
}

#endif

static const char *now_text(struct af_arena *arena)
{
    char text[32];
    struct tm parts;
    time_t now = time(NULL);
    if (gmtime_r(&now, &parts) == NULL ||
        strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0)
        return "";
    return af_arena_text(arena, text);
}

/* Whether the operation is in that phase in the file. */
static bool is_written(struct af_state *state, int64_t id, enum af_phase phase)
{
    sqlite3_stmt *statement;
    bool is_there =
        af_database_prepare(state, "SELECT 1 FROM operation WHERE id = ?1 AND phase = ?2",
                            &statement) &&
        sqlite3_bind_int64(statement, 1, id) == SQLITE_OK &&
        sqlite3_bind_int(statement, 2, (int)phase) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW;
    sqlite3_finalize(statement);
    return is_there;
}

/* Commits the change that brings `operation` to `phase`, if it is `good`. */
static enum anyflash_status end(struct af_state *state, bool good,
                                const struct af_operation *operation, enum af_phase phase,
                                struct anyflash_error *err)
{
    enum anyflash_status status = ANYFLASH_OK;
    if (!good)
        status = af_database_fail(state, err);
    else
        status = af_database_do(state, "COMMIT", err);
    if (status != ANYFLASH_OK && sqlite3_get_autocommit(state->database) == 0)
        sqlite3_exec(state->database, "ROLLBACK", NULL, NULL, NULL);
    /* COMMIT also fails if the file is written and only its folder cannot be flushed. */
    if (status != ANYFLASH_OK && good && is_written(state, operation->id, phase))
        status = ANYFLASH_OK;
    af_install_step_hook();
    return status;
}

enum anyflash_status af_journal_begin(struct af_state *state, struct af_operation *operation,
                                      struct af_arena *arena, struct anyflash_error *err)
{
    sqlite3_stmt *statement;
    operation->phase = AF_PHASE_PREPARING;
    operation->time = now_text(arena);
    enum anyflash_status status = af_database_do(state, "BEGIN IMMEDIATE", err);
    if (status != ANYFLASH_OK)
        return status;
    bool good =
        af_database_prepare(state,
                            "INSERT INTO operation (kind, phase, undoes, title, time, site,"
                            " fresh_root, aside_root) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                            &statement) &&
        sqlite3_bind_int(statement, 1, (int)operation->kind) == SQLITE_OK &&
        sqlite3_bind_int(statement, 2, (int)operation->phase) == SQLITE_OK &&
        sqlite3_bind_int64(statement, 3, operation->undoes) == SQLITE_OK &&
        af_database_bind(statement, 4, operation->title) &&
        af_database_bind(statement, 5, operation->time) &&
        af_database_bind(statement, 6, operation->site) &&
        af_database_bind(statement, 7, operation->fresh_root) &&
        af_database_bind(statement, 8, operation->aside_root);
    good = af_database_finish(statement, good);
    if (good)
        operation->id = sqlite3_last_insert_rowid(state->database);
    return end(state, good, operation, AF_PHASE_PREPARING, err);
}

static bool write_entries(struct af_state *state, const struct af_operation *operation)
{
    sqlite3_stmt *statement;
    bool good =
        af_database_prepare(state, "INSERT INTO entry VALUES (?1, ?2, ?3, ?4, ?5)", &statement);
    for (size_t i = 0; good && i < operation->entry_count; i++) {
        const struct af_entry *entry = &operation->entries[i];
        good = sqlite3_bind_int64(statement, 1, operation->id) == SQLITE_OK &&
               sqlite3_bind_int64(statement, 2, (sqlite3_int64)i) == SQLITE_OK &&
               af_database_bind(statement, 3, entry->path) &&
               sqlite3_bind_int(statement, 4, entry->has_old) == SQLITE_OK &&
               sqlite3_bind_int(statement, 5, entry->has_new) == SQLITE_OK &&
               sqlite3_step(statement) == SQLITE_DONE && sqlite3_reset(statement) == SQLITE_OK;
    }
    sqlite3_finalize(statement);
    return good;
}

enum anyflash_status af_journal_write(struct af_state *state, struct af_operation *operation,
                                      enum af_phase phase, struct anyflash_error *err)
{
    sqlite3_stmt *statement;
    enum anyflash_status status = af_database_do(state, "BEGIN IMMEDIATE", err);
    if (status != ANYFLASH_OK)
        return status;
    bool good = af_database_prepare(
                    state,
                    "UPDATE operation SET phase = ?1, fresh = ?2, aside = ?3, fingerprint = ?4"
                    " WHERE id = ?5",
                    &statement) &&
                sqlite3_bind_int(statement, 1, (int)phase) == SQLITE_OK &&
                af_database_bind(statement, 2, operation->fresh) &&
                af_database_bind(statement, 3, operation->aside) &&
                af_database_bind(statement, 4, operation->fingerprint) &&
                sqlite3_bind_int64(statement, 5, operation->id) == SQLITE_OK;
    good = af_database_finish(statement, good);
    status = end(state, good && write_entries(state, operation), operation, phase, err);
    if (status == ANYFLASH_OK)
        operation->phase = phase;
    return status;
}

/* Runs a statement whose only parameter is a number. */
static bool do_with_id(struct af_state *state, const char *sql, int64_t id)
{
    sqlite3_stmt *statement;
    bool good = af_database_prepare(state, sql, &statement) &&
                sqlite3_bind_int64(statement, 1, id) == SQLITE_OK;
    return af_database_finish(statement, good);
}

enum anyflash_status af_journal_phase(struct af_state *state, struct af_operation *operation,
                                      enum af_phase phase, struct anyflash_error *err)
{
    sqlite3_stmt *statement;
    enum anyflash_status status = af_database_do(state, "BEGIN IMMEDIATE", err);
    if (status != ANYFLASH_OK)
        return status;
    bool good = af_database_prepare(
                    state, "UPDATE operation SET phase = ?1, fingerprint = ?2 WHERE id = ?3",
                    &statement) &&
                sqlite3_bind_int(statement, 1, (int)phase) == SQLITE_OK &&
                af_database_bind(statement, 2, operation->fingerprint) &&
                sqlite3_bind_int64(statement, 3, operation->id) == SQLITE_OK;
    good = af_database_finish(statement, good);
    if (good && phase == AF_PHASE_GONE)
        good = do_with_id(state, "DELETE FROM entry WHERE operation = ?1", operation->id);
    if (good && phase == AF_PHASE_COMMITTED && operation->undoes != 0)
        good = do_with_id(state, "UPDATE operation SET phase = 5 WHERE id = ?1", /* 5: GONE */
                          operation->undoes) &&
               do_with_id(state, "DELETE FROM entry WHERE operation = ?1", operation->undoes);
    status = end(state, good, operation, phase, err);
    if (status == ANYFLASH_OK)
        operation->phase = phase;
    return status;
}

/* Whether `folder` is one of ours, directly in `site`. */
static bool is_own_folder(const char *folder, const char *site)
{
    size_t len = strlen(site);
    return folder != NULL && strncmp(folder, site, len) == 0 && folder[len] == '/' &&
           af_starts_with(folder + len + 1, AF_OWN_PREFIX) &&
           strchr(folder + len + 1, '/') == NULL;
}

/* Whether `path` is NULL, `root`, or below it. */
static bool is_below(const char *path, const char *root)
{
    size_t len = strlen(root);
    return path == NULL ||
           (strncmp(path, root, len) == 0 && (path[len] == '\0' || path[len] == '/') &&
            strstr(path + len, "/../") == NULL && !af_ends_with(path, "/.."));
}

/* Whether the operation can only move and remove files of its environment. */
static bool is_sound(const struct af_operation *operation)
{
    const char *site = operation->site;
    return site != NULL && site[0] == '/' && is_own_folder(operation->fresh_root, site) &&
           is_own_folder(operation->aside_root, site) &&
           is_below(operation->fresh, operation->fresh_root) &&
           is_below(operation->aside, operation->aside_root);
}

static enum anyflash_status fail_unsound(const struct af_state *state,
                                         struct anyflash_error *err)
{
    return af_fail(err, ANYFLASH_E_DATA,
                   "the state file '%s' lists files outside the environment that was changed",
                   state->path);
}

static void read_row(sqlite3_stmt *row, struct af_arena *arena, struct af_operation *operation)
{
    *operation = (struct af_operation){
        .id = sqlite3_column_int64(row, 0),
        .kind = (enum af_operation_kind)sqlite3_column_int(row, 1),
        .phase = (enum af_phase)sqlite3_column_int(row, 2),
        .undoes = sqlite3_column_int64(row, 3),
        .title = af_database_text(row, 4, arena),
        .time = af_database_text(row, 5, arena),
        .site = af_database_text(row, 6, arena),
        .fresh_root = af_database_text(row, 7, arena),
        .fresh = af_database_text(row, 8, arena),
        .aside_root = af_database_text(row, 9, arena),
        .aside = af_database_text(row, 10, arena),
        .fingerprint = af_database_text(row, 11, arena),
    };
}

/* Reads the rows of a prepared statement into an array that grows in the arena. */
static bool read_rows(sqlite3_stmt *statement, struct af_arena *arena,
                      struct af_operation **list_out, size_t *count_out)
{
    struct af_operation *list = NULL;
    size_t count = 0;
    size_t capacity = 0;
    int code;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        if (count == capacity) {
            capacity = capacity == 0 ? 16 : capacity * 2;
            struct af_operation *larger = af_arena_array(arena, capacity, sizeof *larger);
            if (count > 0)
                memcpy(larger, list, count * sizeof *list);
            list = larger;
        }
        read_row(statement, arena, &list[count++]);
    }
    *list_out = list;
    *count_out = count;
    return code == SQLITE_DONE;
}

enum anyflash_status af_journal_list(struct af_state *state, enum af_phase first,
                                     enum af_phase last, const char *site,
                                     struct af_arena *arena, struct af_operation **list_out,
                                     size_t *count_out, struct anyflash_error *err)
{
    sqlite3_stmt *statement;
    *list_out = NULL;
    *count_out = 0;
    if (state == NULL)
        return ANYFLASH_OK;
    bool good =
        af_database_prepare(state,
                            "SELECT id, kind, phase, undoes, title, time, site, fresh_root,"
                            " fresh, aside_root, aside, fingerprint FROM operation WHERE phase"
                            " BETWEEN ?1 AND ?2 AND (?3 IS NULL OR site = ?3) ORDER BY id DESC",
                            &statement) &&
        sqlite3_bind_int(statement, 1, (int)first) == SQLITE_OK &&
        sqlite3_bind_int(statement, 2, (int)last) == SQLITE_OK &&
        af_database_bind(statement, 3, site) &&
        read_rows(statement, arena, list_out, count_out);
    enum anyflash_status status = good ? ANYFLASH_OK : af_database_fail(state, err);
    sqlite3_finalize(statement);
    for (size_t i = 0; status == ANYFLASH_OK && i < *count_out; i++)
        if (!is_sound(&(*list_out)[i]))
            status = fail_unsound(state, err);
    return status;
}

static bool read_entries(sqlite3_stmt *statement, struct af_arena *arena,
                         struct af_entry *entries, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (sqlite3_step(statement) != SQLITE_ROW)
            return false;
        entries[i] = (struct af_entry){.path = af_database_text(statement, 0, arena),
                                       .has_old = sqlite3_column_int(statement, 1) != 0,
                                       .has_new = sqlite3_column_int(statement, 2) != 0};
    }
    return true;
}

enum anyflash_status af_journal_entries(struct af_state *state, struct af_operation *operation,
                                        struct af_arena *arena, struct anyflash_error *err)
{
    sqlite3_stmt *statement;
    int64_t count = -1;
    if (af_database_prepare(state, "SELECT count(*) FROM entry WHERE operation = ?1",
                            &statement) &&
        sqlite3_bind_int64(statement, 1, operation->id) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW)
        count = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    if (count < 0)
        return af_database_fail(state, err);
    if (count > AF_ENTRIES_MAX)
        return af_fail(err, ANYFLASH_E_DATA, "the journal lists too many files");
    struct af_entry *entries = af_arena_array(arena, (size_t)count + 1, sizeof *entries);
    bool good = af_database_prepare(state,
                                    "SELECT path, has_old, has_new FROM entry WHERE"
                                    " operation = ?1 ORDER BY position",
                                    &statement) &&
                sqlite3_bind_int64(statement, 1, operation->id) == SQLITE_OK &&
                read_entries(statement, arena, entries, (size_t)count);
    enum anyflash_status status = good ? ANYFLASH_OK : af_database_fail(state, err);
    sqlite3_finalize(statement);
    for (size_t i = 0; status == ANYFLASH_OK && i < (size_t)count; i++)
        if (entries[i].path == NULL || !af_record_path_is_inside(entries[i].path))
            status = fail_unsound(state, err);
    if (status != ANYFLASH_OK)
        return status;
    operation->entries = entries;
    operation->entry_count = (size_t)count;
    return ANYFLASH_OK;
}
