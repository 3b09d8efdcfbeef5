/*
 * test_state.c: the state file and the journal in it, also with a lack of
 * memory at every allocation: nothing leaks, nothing is half written.
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

#include "base/text.h"
#include "run/database.h"
#include "run/journal.h"
#include "run/swap.h"

#define SHA "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

/* In memory where that can be: thousands of transactions are synced. */
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

static void test_state__keeps_facts_under_hash_and_schema(void **unused)
{
    struct af_arena arena;
    struct af_span json = {0};
    (void)unused;
    af_arena_init(&arena);
    struct af_state *state = open_state(&arena);
    af_state_binary_put(state, SHA, 3, (struct af_span){"{\"a\":1}", 7});
    af_state_close(state);
    state = open_state(&arena);
    assert_true(af_state_binary_get(state, SHA, 3, &arena, &json));
    assert_int_equal(json.len, 7);
    assert_string_equal(json.data, "{\"a\":1}");
    assert_false(af_state_binary_get(state, SHA, 4, &arena, &json));
    assert_false(af_state_binary_get(NULL, SHA, 3, &arena, &json));
    af_state_binary_put(NULL, SHA, 3, json);
    af_state_close(state);
    af_arena_release(&arena);
}

/* An installation from its first line to its last, as the journal sees it. */
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
        status = af_journal_moving(state, &operation, err);
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

/* Everything that can be done with a state; the first failure ends it. */
static enum anyflash_status use_everything(struct anyflash_error *err)
{
    struct af_arena arena;
    struct af_state *state = NULL;
    struct af_operation *list;
    const char *remark;
    struct af_span json;
    size_t count = 0;
    af_arena_init(&arena);
    enum anyflash_status status = af_state_open(AF_STATE_WRITE, &arena, &state, &remark, err);
    if (status == ANYFLASH_OK) {
        af_state_binary_put(state, SHA, 3, (struct af_span){"{}", 2});
        af_state_binary_get(state, SHA, 3, &arena, &json);
        status = write_operation(state, &arena, err);
    }
    if (status == ANYFLASH_OK)
        status = af_journal_list(state, AF_PHASE_PREPARING, AF_PHASE_DONE, NULL, &arena, &list,
                                 &count, err);
    for (size_t i = 0; status == ANYFLASH_OK && i < count; i++)
        status = af_journal_entries(state, &list[i], &arena, err);
    if (status == ANYFLASH_OK && count > 0)
        status = af_journal_phase(state, &list[0], AF_PHASE_GONE, err);
    af_state_close(state);
    af_arena_release(&arena);
    return status;
}

static void test_state__survives_every_lack_of_memory(void **unused)
{
    struct anyflash_error err = {0};
    (void)unused;
    /* Every request of the first, then ever larger steps: the later ones are alike. */
    for (size_t nth = 1; nth < 100000; nth += 1 + nth / 40) {
        af_mem_fail_nth(nth, nth % 2 == 0);
        enum anyflash_status status = use_everything(&err);
        size_t asked = af_mem_request_count();
        af_mem_fail_nth(0, false);
        if (status != ANYFLASH_OK && status != ANYFLASH_E_NO_MEMORY)
            fail_msg("request %zu: %s", nth, err.message);
        assert_int_equal(use_everything(&err), ANYFLASH_OK); /* nothing is broken for later */
        remove_file();
        if (asked < nth)
            return;
    }
    fail_msg("no end");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_state__keeps_facts_under_hash_and_schema),
        cmocka_unit_test(test_journal__gives_back_what_was_written),
        cmocka_unit_test(test_state__survives_every_lack_of_memory),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
