/* database.c: SQLite with our allocator and our error codes. */
#include "kit/system/database.h"

#include <string.h>

#include "kit/base/text.h"

/* Stored before each allocation: its size, which SQLite can ask for. */
union head {
    size_t size_bytes;
    max_align_t aligned;
};

static void *memory_get(int size_bytes)
{
    union head *head = af_memory_alloc(sizeof *head + (size_t)size_bytes);
    head->size_bytes = (size_t)size_bytes;
    return head + 1;
}

static void memory_free(void *memory)
{
    if (memory != NULL)
        af_memory_free((union head *)memory - 1);
}

static void *memory_resize(void *memory, int size_bytes)
{
    union head *head =
        af_memory_resize((union head *)memory - 1, sizeof *head + (size_t)size_bytes);
    head->size_bytes = (size_t)size_bytes;
    return head + 1;
}

static int memory_size(void *memory)
{
    return memory == NULL ? 0 : (int)((union head *)memory - 1)->size_bytes;
}

static int memory_round(int size_bytes)
{
    return (size_bytes + 7) & ~7;
}

static int memory_init(void *context)
{
    (void)context;
    return SQLITE_OK;
}

static void memory_shutdown(void *context)
{
    (void)context;
}

void af_database_start(void)
{
    sqlite3_mem_methods methods = {
        .xMalloc = memory_get,
        .xFree = memory_free,
        .xRealloc = memory_resize,
        .xSize = memory_size,
        .xRoundup = memory_round,
        .xInit = memory_init,
        .xShutdown = memory_shutdown,
    };
    sqlite3_config(SQLITE_CONFIG_MALLOC, &methods);
}

enum anyflash_status af_database_fail(const struct af_state *state, struct anyflash_error *err)
{
    char shown[200];
    char said[120];
    int code = state->database == NULL ? SQLITE_NOMEM : sqlite3_errcode(state->database);
    if (code == SQLITE_NOMEM)
        af_memory_end();
    const char *text = sqlite3_errmsg(state->database);
    af_text_quote(shown, sizeof shown, state->path, strlen(state->path));
    af_text_quote(said, sizeof said, text, strlen(text));
    enum anyflash_status status =
        code == SQLITE_CORRUPT || code == SQLITE_NOTADB ? ANYFLASH_E_DATA : ANYFLASH_E_IO;
    return af_fail(err, status, "the state file '%s' cannot be used: %s", shown, said);
}

enum anyflash_status af_database_do(struct af_state *state, const char *sql,
                                    struct anyflash_error *err)
{
    if (sqlite3_exec(state->database, sql, NULL, NULL, NULL) != SQLITE_OK)
        return af_database_fail(state, err);
    return ANYFLASH_OK;
}

bool af_database_prepare(struct af_state *state, const char *sql, sqlite3_stmt **statement_out)
{
    *statement_out = NULL;
    return sqlite3_prepare_v2(state->database, sql, -1, statement_out, NULL) == SQLITE_OK;
}

bool af_database_bind(sqlite3_stmt *statement, int at, const char *text)
{
    return sqlite3_bind_text(statement, at, text, -1, SQLITE_STATIC) == SQLITE_OK;
}

const char *af_database_text(sqlite3_stmt *statement, int at, struct af_arena *arena)
{
    const unsigned char *text = sqlite3_column_text(statement, at);
    if (text == NULL && sqlite3_column_type(statement, at) != SQLITE_NULL)
        af_memory_end(); /* only an allocation can have failed here */
    return af_arena_text(arena, (const char *)text);
}

int64_t af_database_number(struct af_state *state, const char *sql)
{
    sqlite3_stmt *statement;
    int64_t number = -1;
    if (af_database_prepare(state, sql, &statement) && sqlite3_step(statement) == SQLITE_ROW)
        number = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return number;
}

bool af_database_finish(sqlite3_stmt *statement, bool good)
{
    good = good && sqlite3_step(statement) == SQLITE_DONE;
    sqlite3_finalize(statement);
    return good;
}
