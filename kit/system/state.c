/*
 * state.c: opens the state file, and stores there what was proved about wheels. journal.c has
 * the journal. Used by every command that changes or proves something, and by the check for a
 * killed run.
 */
#include "kit/system/state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "kit/base/sha256.h"
#include "kit/base/text.h"
#include "kit/base/url.h"
#include "kit/system/database.h"
#include "kit/system/file.h"
#include "kit/system/output.h"

#define APPLICATION_ID 0x41466c61 /* "AFla" */
#define CORRUPT_MAX 100
#define ROWS_KEPT "4096"
#define TEXT_BYTES_MAX 1000u
#define DAY_SECONDS 86400

/* Creates the tables in a new file, or upgrades an older file; the journal is kept. */
static const char schema_sql[] =
    "BEGIN IMMEDIATE;"
    "PRAGMA application_id = 1095134305;" /* APPLICATION_ID */
    /* facts of libraries, which schemas 1 and 2 stored instead of proofs */
    "DROP TABLE IF EXISTS binary; DROP TABLE IF EXISTS facts; DROP TABLE IF EXISTS place;"
    "CREATE TABLE IF NOT EXISTS proof (id INTEGER PRIMARY KEY, address TEXT NOT NULL,"
    " environment TEXT NOT NULL, surroundings TEXT, answer INTEGER NOT NULL, reason TEXT,"
    " built_for TEXT, day INTEGER NOT NULL, UNIQUE (address, environment));"
    "CREATE TABLE IF NOT EXISTS operation (id INTEGER PRIMARY KEY AUTOINCREMENT,"
    " kind INTEGER NOT NULL, phase INTEGER NOT NULL, undoes INTEGER NOT NULL,"
    " title TEXT NOT NULL, time TEXT NOT NULL, site TEXT NOT NULL, fresh_root TEXT NOT NULL,"
    " fresh TEXT, aside_root TEXT NOT NULL, aside TEXT, fingerprint TEXT);"
    "CREATE TABLE IF NOT EXISTS entry (operation INTEGER NOT NULL, position INTEGER NOT NULL,"
    " path TEXT NOT NULL, has_old INTEGER NOT NULL, has_new INTEGER NOT NULL,"
    " PRIMARY KEY (operation, position)) WITHOUT ROWID;"
    "PRAGMA user_version = 3;" /* AF_STATE_SCHEMA */
    "COMMIT;";

/* $name/anyflash if the variable holds an absolute path, else NULL. */
static const char *folder_of(struct af_arena *arena, const char *variable, const char *below)
{
    const char *value = getenv(variable);
    if (value == NULL || value[0] != '/')
        return NULL;
    return af_path_join(arena, value, below);
}

const char *af_state_folder(struct af_arena *arena)
{
    const char *own = getenv("ANYFLASH_STATE");
    if (own != NULL && own[0] != '\0')
        return af_arena_text(arena, own);
    const char *folder = folder_of(arena, "XDG_STATE_HOME", "anyflash");
    return folder != NULL ? folder : folder_of(arena, "HOME", ".local/state/anyflash");
}

const char *af_state_catalog_path(struct af_arena *arena, const char *folder)
{
    return folder == NULL ? NULL : af_path_join(arena, folder, "catalog.afu");
}

const char *af_cache_folder(struct af_arena *arena)
{
    const char *own = getenv("ANYFLASH_CACHE");
    if (own != NULL && own[0] != '\0')
        return af_arena_text(arena, own);
    const char *folder = folder_of(arena, "XDG_CACHE_HOME", "anyflash");
    return folder != NULL ? folder : folder_of(arena, "HOME", ".cache/anyflash");
}

const char *af_settings_folder(struct af_arena *arena)
{
    const char *folder = folder_of(arena, "XDG_CONFIG_HOME", "anyflash");
    return folder != NULL ? folder : folder_of(arena, "HOME", ".config/anyflash");
}

enum anyflash_status af_cache_wheel_folder(struct af_arena *arena, const char *url,
                                           const char **folder_out, struct anyflash_error *err)
{
    char hex[AF_SHA256_HEX_BYTES];
    af_sha256_bytes((struct af_span){url, strlen(url)}, hex);
    const char *cache = af_cache_folder(arena);
    if (cache == NULL)
        return af_fail(err, ANYFLASH_E_NOT_FOUND, "no folder for downloads: HOME is not set");
    *folder_out = af_arena_format(arena, "%s/wheels/%.16s", cache, hex);
    return ANYFLASH_OK;
}

/* Creates the file with mode 0600, because SQLite would make it readable by everybody. */
static enum anyflash_status make_file(const char *path, struct anyflash_error *err)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);
    if (fd < 0)
        return errno == EROFS || errno == EACCES
                   ? ANYFLASH_OK /* it exists and is read-only, or SQLite reports the error */
                   : af_file_fail("open the state file", path, err);
    close(fd);
    return ANYFLASH_OK;
}

/*
 * Accepts an empty file, which is new, and a file of this or an older version of the
 * program. Reading the journal of an older file needs no upgrade.
 */
static enum anyflash_status check_schema(struct af_state *state, enum af_state_use use,
                                         struct anyflash_error *err)
{
    int64_t version = af_database_number(state, "PRAGMA user_version");
    if (version < 0)
        return af_database_fail(state, err);
    bool is_older = version > 0 && version < AF_STATE_SCHEMA;
    if (version == AF_STATE_SCHEMA || (is_older && use == AF_STATE_READ))
        return af_database_number(state, "SELECT count(*) FROM operation WHERE id < 0") == 0
                   ? ANYFLASH_OK
                   : af_database_fail(state, err);
    if (version > AF_STATE_SCHEMA)
        return af_fail(err, ANYFLASH_E_LIMIT,
                       "the state file '%s' was made by a newer anyflash: update this one",
                       state->path);
    if (!state->writable && is_older)
        return af_fail(err, ANYFLASH_E_IO, "the state file '%s' is read-only", state->path);
    if (!state->writable)
        return af_fail(err, ANYFLASH_E_NOT_FOUND, "the state file '%s' is empty", state->path);
    int64_t foreign = af_database_number(state, "SELECT count(*) FROM sqlite_master");
    if (foreign > 0 && af_database_number(state, "PRAGMA application_id") != APPLICATION_ID)
        return af_fail(err, ANYFLASH_E_DATA, "'%s' belongs to another program", state->path);
    return af_database_do(state, schema_sql, err);
}

/* Runs SQLite's integrity check; it takes a few milliseconds, as the file is small. */
static enum anyflash_status check_pages(struct af_state *state, struct anyflash_error *err)
{
    sqlite3_stmt *statement;
    enum anyflash_status status = ANYFLASH_OK;
    if (!af_database_prepare(state, "PRAGMA quick_check(1)", &statement) ||
        sqlite3_step(statement) != SQLITE_ROW)
        status = af_database_fail(state, err);
    else if (!af_equal((const char *)sqlite3_column_text(statement, 0), "ok"))
        status = af_fail(err, ANYFLASH_E_DATA, "the state file '%s' is corrupt", state->path);
    sqlite3_finalize(statement);
    return status;
}

void af_state_close(struct af_state *state)
{
    if (state == NULL)
        return;
    sqlite3_close(state->database);
    af_memory_free(state->path);
    af_memory_free(state);
}

/*
 * Whether we are root (for example by sudo) in another user's home. A folder that root creates
 * there would not be writable for its owner later.
 */
static bool is_guest(struct af_arena *arena, const char *folder)
{
    struct stat status;
    const char *at = folder;
    while (stat(at, &status) != 0 && strcmp(at, "/") != 0 && strcmp(at, ".") != 0)
        at = af_path_folder(arena, at);
    return geteuid() == 0 && status.st_uid != 0;
}

static enum anyflash_status connect(struct af_state *state, enum af_state_use use,
                                    struct anyflash_error *err)
{
    int code = sqlite3_open_v2(state->path, &state->database,
                               SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
    state->writable = code == SQLITE_OK && sqlite3_db_readonly(state->database, "main") == 0;
    if (code != SQLITE_OK)
        return af_database_fail(state, err);
    sqlite3_busy_timeout(state->database,
                         use == AF_STATE_CACHE ? AF_STATE_CACHE_BUSY_MS : AF_STATE_BUSY_MS);
    enum anyflash_status status =
        af_database_do(state,
                       "PRAGMA trusted_schema = OFF; PRAGMA journal_mode = DELETE;"
                       "PRAGMA synchronous = EXTRA; PRAGMA temp_store = MEMORY;",
                       err);
    if (status == ANYFLASH_OK)
        status = check_schema(state, use, err);
    if (status == ANYFLASH_OK && use == AF_STATE_WRITE && !state->writable)
        status = af_fail(err, ANYFLASH_E_IO, "the state file '%s' is read-only", state->path);
    if (status == ANYFLASH_OK && use == AF_STATE_WRITE)
        status = check_pages(state, err);
    return status;
}

static enum anyflash_status open_once(const char *path, enum af_state_use use,
                                      struct af_state **state_out, struct anyflash_error *err)
{
    struct af_state *state = af_memory_alloc(sizeof *state);
    size_t len = strlen(path) + 1;
    *state = (struct af_state){.path = af_memory_alloc(len)};
    memcpy(state->path, path, len);
    enum anyflash_status status = connect(state, use, err);
    if (status != ANYFLASH_OK)
        af_state_close(state);
    else
        *state_out = state;
    return status;
}

/*
 * Renames state.db and its rollback journal to state.db.corrupt-1, -2, ... The journal must
 * move, too, because SQLite would apply it to the new file.
 */
static enum anyflash_status move_aside(const char *path, struct af_arena *arena,
                                       const char **to_out, struct anyflash_error *err)
{
    const char *journal = af_arena_format(arena, "%s-journal", path);
    const char *to = NULL;
    for (int i = 1; i <= CORRUPT_MAX; i++) {
        to = af_arena_format(arena, "%s.corrupt-%d", path, i);
        if (af_file_is_absent(to))
            break;
    }
    const char *journal_to = af_arena_format(arena, "%s-journal", to);
    if (rename(journal, journal_to) != 0 && errno != ENOENT)
        return af_file_fail("move aside", journal, err);
    if (rename(path, to) != 0)
        return af_file_fail("move aside", path, err);
    *to_out = to;
    return ANYFLASH_OK;
}

enum anyflash_status af_state_open(enum af_state_use use, struct af_arena *arena,
                                   struct af_state **state_out, const char **remark_out,
                                   struct anyflash_error *err)
{
    *state_out = NULL;
    *remark_out = NULL;
    const char *folder = af_state_folder(arena);
    const char *path = af_path_join(arena, folder, "state.db");
    if (path == NULL)
        return af_fail(err, ANYFLASH_E_NOT_FOUND,
                       "no folder for the state file: HOME is not set (set "
                       "ANYFLASH_STATE to a folder)");
    if (use == AF_STATE_READ && af_file_is_absent(path))
        return ANYFLASH_OK;
    if (use == AF_STATE_CACHE && af_file_is_absent(path) && is_guest(arena, folder))
        return af_fail(err, ANYFLASH_E_NOT_FOUND,
                       "not creating a state file in another user's home folder");
    af_database_start();
    enum anyflash_status status =
        use == AF_STATE_READ ? ANYFLASH_OK : af_folder_make(folder, 0700, err);
    if (status == ANYFLASH_OK)
        status = af_file_check_owner(folder, "ANYFLASH_STATE", err);
    if (status == ANYFLASH_OK && use != AF_STATE_READ)
        status = make_file(path, err);
    if (status == ANYFLASH_OK) /* the journal says which files to move */
        status = af_file_check_owner(path, "ANYFLASH_STATE", err);
    if (status == ANYFLASH_OK)
        status = open_once(path, use, state_out, err);
    if (status != ANYFLASH_E_DATA || use != AF_STATE_WRITE)
        return status;
    const char *to = NULL;
    status = move_aside(path, arena, &to, err);
    if (status == ANYFLASH_OK)
        status = make_file(path, err);
    if (status == ANYFLASH_OK)
        status = open_once(path, use, state_out, err);
    if (status == ANYFLASH_OK)
        *remark_out = af_arena_format(arena,
                                      "the state file was damaged: it is kept as '%s', and its "
                                      "record of earlier installations is lost",
                                      to);
    return status;
}

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
        sqlite3_bind_int64(statement, 7, (int64_t)time(NULL) / DAY_SECONDS) == SQLITE_OK;
    if (af_database_finish(statement, good))
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
    if (af_database_prepare(state, sql, &row) && af_database_bind(row, 1, environment) &&
        af_database_bind(row, 2, surroundings))
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
    *count_out = count;
}
