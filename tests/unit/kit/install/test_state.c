/*
 * test_state.c: the state file and the journal in it. Also makes each
 * allocation fail in turn: nothing leaks, and nothing is half written.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kit/base/text.h"
#include "kit/install/journal.h"
#include "kit/system/database.h"
#include "kit/system/state.h"

/* In memory if possible, because thousands of transactions are synced. */
static char in_memory[] = "/dev/shm/anyflash-state-XXXXXX";
static char on_disk[] = "/tmp/anyflash-state-XXXXXX";
static const char *folder;

static int make_folder(void **state)
{
    (void)state;
    af_database_start();
    folder = mkdtemp(in_memory);
    if (folder == NULL)
        folder = mkdtemp(on_disk);
    if (folder == NULL || setenv("ANYFLASH_STATE", folder, 1) != 0)
        return 1;
    return 0;
}

static void remove_file(void)
{
    char path[64];
    snprintf(path, sizeof path, "%s/state.db", folder);
    unlink(path);
}

static int remove_folder(void **state)
{
    (void)state;
    remove_file();
    return rmdir(folder);
}

static struct af_state *open_state(struct af_arena *arena)
{
    struct af_state *state;
    const char *remark;
    struct anyflash_error err = {0};
    if (af_state_open(AF_STATE_WRITE, arena, &state, &remark, &err) != ANYFLASH_OK)
        fail_msg("%s", err.message);
    assert_null(remark);
    return state;
}

static const struct af_state_proof loads = {.address = "https://u:p@host/a.whl?key=secret#x",
                                            .environment = "torch 2.8",
                                            .answer = AF_YES,
                                            .built_for = "torch 2.7"};

/* The number of proofs for the environment, and the latest. */
static size_t find(struct af_state *state, const char *environment, const char *surroundings,
                   struct af_arena *arena, struct af_state_proof *latest)
{
    const struct af_state_proof *proofs;
    size_t count;
    af_state_proofs_find(state, environment, surroundings, arena, &proofs, &count);
    if (count > 0 && latest != NULL)
        *latest = proofs[0];
    return count;
}

static void test_state__proofs_are_of_one_environment(void **unused)
{
    struct af_arena arena;
    struct af_state_proof found;
    (void)unused;
    af_arena_init(&arena);
    struct af_state *state = open_state(&arena);
    af_state_proof_put(state, &loads);
    af_state_close(state);
    state = open_state(&arena);
    assert_int_equal(find(state, "torch 2.8", "any", &arena, &found), 1);
    assert_string_equal(found.address, "https://host/a.whl");
    assert_int_equal(found.answer, AF_YES);
    assert_null(found.reason);
    assert_string_equal(found.built_for, "torch 2.7");
    assert_int_equal(find(state, "torch 2.9", "any", &arena, NULL), 0);
    assert_int_equal(find(NULL, "torch 2.8", "any", &arena, NULL), 0);
    af_state_proof_put(NULL, &loads);
    af_state_close(state);
    remove_file();
    af_arena_release(&arena);
}

static void test_state__a_proof_replaces_the_earlier_one(void **unused)
{
    struct af_arena arena;
    struct af_state_proof fails = loads;
    struct af_state_proof found;
    (void)unused;
    af_arena_init(&arena);
    struct af_state *state = open_state(&arena);
    fails.answer = AF_NO;
    fails.reason = "a function is missing\x1b[2J";
    fails.surroundings = "no GPU";
    af_state_proof_put(state, &loads);
    af_state_proof_put(state, &fails);
    assert_int_equal(find(state, "torch 2.8", "no GPU", &arena, &found), 1);
    assert_int_equal(found.answer, AF_NO);
    assert_string_equal(found.reason, "a function is missing\\x1b[2J");
    assert_int_equal(find(state, "torch 2.8", "one GPU", &arena, NULL), 0);
    af_state_proof_put(state, &loads);
    assert_int_equal(find(state, "torch 2.8", "one GPU", &arena, NULL), 1);
    af_state_close(state);
    remove_file();
    af_arena_release(&arena);
}

static void test_state__old_proofs_make_room_for_new_ones(void **unused)
{
    struct af_arena arena;
    struct af_state_proof found;
    char address[40];
    (void)unused;
    af_arena_init(&arena);
    struct af_state *state = open_state(&arena);
    assert_int_equal(af_database_do(state, "BEGIN", NULL), ANYFLASH_OK);
    for (int i = 0; i < 5000; i++) {
        struct af_state_proof proof = loads;
        snprintf(address, sizeof address, "https://host/%d.whl", i);
        proof.address = address;
        af_state_proof_put(state, &proof);
    }
    assert_int_equal(af_database_do(state, "COMMIT", NULL), ANYFLASH_OK);
    assert_int_equal(find(state, "torch 2.8", "", &arena, &found), AF_STATE_PROOFS_MAX);
    assert_string_equal(found.address, address);
    assert_int_equal(af_database_number(state, "SELECT count(*) FROM proof"), 4096);
    af_state_close(state);
    remove_file();
    af_arena_release(&arena);
}

/* The file as written by the first version of this program, with one installation. */
static const char schema_1[] =
    "PRAGMA application_id = 1095134305;"
    "CREATE TABLE binary (sha256 TEXT PRIMARY KEY, schema INTEGER NOT NULL,"
    " used INTEGER NOT NULL, json TEXT NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE operation (id INTEGER PRIMARY KEY AUTOINCREMENT,"
    " kind INTEGER NOT NULL, phase INTEGER NOT NULL, undoes INTEGER NOT NULL,"
    " title TEXT NOT NULL, time TEXT NOT NULL, site TEXT NOT NULL, fresh_root TEXT NOT NULL,"
    " fresh TEXT, aside_root TEXT NOT NULL, aside TEXT, fingerprint TEXT);"
    "CREATE TABLE entry (operation INTEGER NOT NULL, position INTEGER NOT NULL,"
    " path TEXT NOT NULL, has_old INTEGER NOT NULL, has_new INTEGER NOT NULL,"
    " PRIMARY KEY (operation, position)) WITHOUT ROWID;"
    "INSERT INTO operation (kind, phase, undoes, title, time, site, fresh_root, aside_root)"
    " VALUES (0, 3, 0, 'kept', '2026', '/old', '/old/.anyflash-new-1', '/old/.anyflash-old-1');"
    "PRAGMA user_version = 1;";

static void make_schema_1(void)
{
    char path[64];
    sqlite3 *database;
    remove_file();
    snprintf(path, sizeof path, "%s/state.db", folder);
    assert_int_equal(sqlite3_open(path, &database), SQLITE_OK);
    assert_int_equal(chmod(path, 0600), 0); /* as the program makes it under any umask */
    assert_int_equal(sqlite3_exec(database, schema_1, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(database);
}

static void check_old_operation(struct af_state *state, struct af_arena *arena)
{
    struct af_operation *list;
    size_t count;
    assert_int_equal(af_journal_list(state, AF_PHASE_PREPARING, AF_PHASE_GONE, "/old", arena,
                                     &list, &count, NULL),
                     ANYFLASH_OK);
    assert_int_equal(count, 1);
    assert_string_equal(list[0].title, "kept");
}

static void test_state__an_older_file_is_read_and_brought_up_to_date(void **unused)
{
    struct af_arena arena;
    struct af_state *state;
    const char *remark;
    (void)unused;
    static const enum af_state_use uses[] = {AF_STATE_READ, AF_STATE_CACHE, AF_STATE_WRITE};
    for (size_t i = 0; i < AF_COUNT(uses); i++) {
        af_arena_init(&arena);
        make_schema_1();
        assert_int_equal(af_state_open(uses[i], &arena, &state, &remark, NULL), ANYFLASH_OK);
        check_old_operation(state, &arena);
        assert_int_equal(find(state, "torch 2.8", "any", &arena, NULL), 0);
        if (uses[i] != AF_STATE_READ) {
            af_state_proof_put(state, &loads);
            assert_int_equal(find(state, "torch 2.8", "any", &arena, NULL), 1);
        }
        af_state_close(state);
        af_arena_release(&arena);
    }
    remove_file();
}

static void test_state__a_cache_leaves_a_damaged_file_where_it_is(void **unused)
{
    char path[64];
    struct af_arena arena;
    struct af_state *state;
    const char *remark;
    (void)unused;
    af_arena_init(&arena);
    snprintf(path, sizeof path, "%s/state.db", folder);
    FILE *file = fopen(path, "w");
    fputs("this is no database, and it is longer than the head of one would be ........."
          "............................................................................",
          file);
    fclose(file);
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(af_state_open(AF_STATE_CACHE, &arena, &state, &remark, NULL),
                     ANYFLASH_E_DATA);
    assert_null(state);
    assert_int_equal(access(path, F_OK), 0);
    remove_file();
    af_arena_release(&arena);
}

/* A complete installation, as the journal sees it. */
static enum anyflash_status write_operation(struct af_state *state, struct af_arena *arena,
                                            struct anyflash_error *err)
{
    static const struct af_entry entries[] = {{"flash_attn", true, true},
                                              {"\xff odd", false, true}};
    struct af_operation operation = {.kind = AF_OPERATION_INSTALL,
                                     .title = "flash-attn 2.8.3",
                                     .site = "/site",
                                     .fresh_root = "/site/.anyflash-new-1",
                                     .aside_root = "/site/.anyflash-old-1",
                                     .fresh = "/site/.anyflash-new-1/lib",
                                     .aside = "/site/.anyflash-old-1/lib",
                                     .fingerprint = "f",
                                     .entries = entries,
                                     .entry_count = 2};
    enum anyflash_status status = af_journal_begin(state, &operation, arena, err);
    if (status == ANYFLASH_OK)
        status = af_journal_write(state, &operation, AF_PHASE_MOVING, err);
    if (status == ANYFLASH_OK)
        status = af_journal_phase(state, &operation, AF_PHASE_COMMITTED, err);
    if (status == ANYFLASH_OK)
        status = af_journal_phase(state, &operation, AF_PHASE_DONE, err);
    return status;
}

static void test_journal__gives_back_what_was_written(void **unused)
{
    struct af_arena arena;
    struct anyflash_error err = {0};
    struct af_operation *list;
    size_t count;
    (void)unused;
    af_arena_init(&arena);
    struct af_state *state = open_state(&arena);
    assert_int_equal(write_operation(state, &arena, &err), ANYFLASH_OK);
    assert_int_equal(af_journal_list(state, AF_PHASE_DONE, AF_PHASE_DONE, "/site", &arena,
                                     &list, &count, &err),
                     ANYFLASH_OK);
    assert_int_equal(count, 1);
    assert_string_equal(list[0].title, "flash-attn 2.8.3");
    assert_string_equal(list[0].aside, "/site/.anyflash-old-1/lib");
    assert_int_equal(af_journal_entries(state, &list[0], &arena, &err), ANYFLASH_OK);
    assert_int_equal(list[0].entry_count, 2);
    assert_string_equal(list[0].entries[1].path, "\xff odd");
    assert_false(list[0].entries[1].has_old);
    assert_int_equal(af_journal_phase(state, &list[0], AF_PHASE_GONE, &err), ANYFLASH_OK);
    assert_int_equal(af_journal_list(state, AF_PHASE_PREPARING, AF_PHASE_DONE, NULL, &arena,
                                     &list, &count, &err),
                     ANYFLASH_OK);
    assert_int_equal(count, 0);
    af_state_close(state);
    af_arena_release(&arena);
}

/* What the journal answers about an operation with these folders and this entry. */
static enum anyflash_status read_planted(const char *fresh_root, const char *fresh,
                                         const char *aside_root, const char *entry)
{
    struct af_arena arena;
    struct af_operation *list;
    size_t count;
    const struct af_entry entries[] = {{entry, true, true}};
    struct af_operation operation = {.kind = AF_OPERATION_INSTALL,
                                     .title = "planted",
                                     .site = "/site",
                                     .fresh_root = fresh_root,
                                     .aside_root = aside_root,
                                     .fresh = fresh,
                                     .aside = aside_root,
                                     .entries = entries,
                                     .entry_count = 1};
    af_arena_init(&arena);
    struct af_state *state = open_state(&arena);
    assert_int_equal(af_journal_begin(state, &operation, &arena, NULL), ANYFLASH_OK);
    assert_int_equal(af_journal_write(state, &operation, AF_PHASE_MOVING, NULL), ANYFLASH_OK);
    enum anyflash_status status = af_journal_list(state, AF_PHASE_MOVING, AF_PHASE_MOVING, NULL,
                                                  &arena, &list, &count, NULL);
    if (status == ANYFLASH_OK)
        status = af_journal_entries(state, &list[0], &arena, NULL);
    af_state_close(state);
    remove_file();
    af_arena_release(&arena);
    return status;
}

static void test_journal__nothing_outside_the_environment_is_listed(void **unused)
{
    static const char fresh[] = "/site/.anyflash-new-1";
    static const char aside[] = "/site/.anyflash-old-1";
    (void)unused;
    remove_file();
    assert_int_equal(read_planted(fresh, fresh, aside, "../../../bin/x"), ANYFLASH_OK);
    assert_int_equal(read_planted("/victim/.anyflash-1", fresh, aside, "x"), ANYFLASH_E_DATA);
    assert_int_equal(read_planted("/site/torch", fresh, aside, "x"), ANYFLASH_E_DATA);
    assert_int_equal(read_planted(fresh, "/victim", aside, "x"), ANYFLASH_E_DATA);
    assert_int_equal(read_planted(fresh, "/site/.anyflash-new-1/../../v", aside, "x"),
                     ANYFLASH_E_DATA);
    assert_int_equal(read_planted(fresh, fresh, "/site/.anyflash-x/y", "x"), ANYFLASH_E_DATA);
    assert_int_equal(read_planted(fresh, fresh, aside, "/victim"), ANYFLASH_E_DATA);
    assert_int_equal(read_planted(fresh, fresh, aside, "../../../../victim"), ANYFLASH_E_DATA);
    assert_int_equal(read_planted(fresh, fresh, aside, "a/../../x"), ANYFLASH_E_DATA);
}

static enum anyflash_status try_open(enum af_state_use use)
{
    struct af_arena arena;
    struct af_state *state;
    const char *remark;
    af_arena_init(&arena);
    enum anyflash_status status = af_state_open(use, &arena, &state, &remark, NULL);
    af_state_close(state);
    af_arena_release(&arena);
    return status;
}

static void test_state__what_others_can_write_is_not_read(void **unused)
{
    char path[64];
    (void)unused;
    snprintf(path, sizeof path, "%s/state.db", folder);
    assert_int_equal(try_open(AF_STATE_WRITE), ANYFLASH_OK);
    assert_int_equal(chmod(path, 0620), 0);
    assert_int_equal(try_open(AF_STATE_READ), ANYFLASH_E_IO);
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(chmod(folder, 0702), 0);
    assert_int_equal(try_open(AF_STATE_WRITE), ANYFLASH_E_IO);
    assert_int_equal(chmod(folder, 0700), 0);
    if (geteuid() == 0) {
        assert_int_equal(chown(path, 1, 1), 0);
        assert_int_equal(try_open(AF_STATE_WRITE), ANYFLASH_E_IO);
        assert_int_equal(chown(folder, 1, 1), 0);
        assert_int_equal(try_open(AF_STATE_CACHE), ANYFLASH_E_IO);
        assert_int_equal(chown(folder, 0, 0), 0);
    }
    remove_file();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_state__proofs_are_of_one_environment),
        cmocka_unit_test(test_state__a_proof_replaces_the_earlier_one),
        cmocka_unit_test(test_state__old_proofs_make_room_for_new_ones),
        cmocka_unit_test(test_state__an_older_file_is_read_and_brought_up_to_date),
        cmocka_unit_test(test_state__a_cache_leaves_a_damaged_file_where_it_is),
        cmocka_unit_test(test_journal__gives_back_what_was_written),
        cmocka_unit_test(test_journal__nothing_outside_the_environment_is_listed),
        cmocka_unit_test(test_state__what_others_can_write_is_not_read),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
