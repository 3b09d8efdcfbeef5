/*
 * test_dialog.c: programs that answer line by line, hang, end, say too much or do
 * not exist.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kit/system/process.h"

static struct af_arena arena;
static struct af_dialog dialog;
static struct anyflash_error err;

static int setup(void **state)
{
    (void)state;
    af_arena_init(&arena);
    err = (struct anyflash_error){0};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    af_dialog_end(&dialog);
    assert_false(af_dialog_is_open(&dialog));
    af_arena_release(&arena);
    return 0;
}

/* Starts `script` in a shell and asks it "hello". */
static enum anyflash_status ask_shell(const char *script, int limit_ms, struct af_span *answer)
{
    const char *argv[] = {"sh", "-c", script, NULL};
    assert_int_equal(af_dialog_start(argv, &dialog, NULL), ANYFLASH_OK);
    return af_dialog_ask(&dialog, &arena, "hello", limit_ms, answer, &err);
}

static void assert_answer(struct af_span answer, const char *text)
{
    assert_int_equal(answer.len, strlen(text));
    assert_memory_equal(answer.data, text, answer.len);
}

static void test_dialog__answers_each_question_with_a_line(void **state)
{
    (void)state;
    struct af_span answer;
    const char *script = "while read -r x; do n=$((n + 1)); echo \"$n $x\"; done";
    assert_int_equal(ask_shell(script, 5000, &answer), ANYFLASH_OK);
    assert_answer(answer, "1 hello");
    assert_int_equal(af_dialog_ask(&dialog, &arena, "again", 5000, &answer, NULL), ANYFLASH_OK);
    assert_answer(answer, "2 again");
}

/* The state in /proc/PID/stat, once it is `wanted`, or what it is after 5 s. */
static char wait_for_state(int pid, char wanted)
{
    char path[64], name[64], state = '?';
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    for (int i = 0; i < 5000 && state != wanted; i++) {
        FILE *file = fopen(path, "r");
        assert_non_null(file);
        assert_int_equal(fscanf(file, "%*d %63s %c", name, &state), 2);
        fclose(file);
        usleep(1000);
    }
    return state;
}

static void test_dialog__is_stopped_when_it_has_answered(void **state)
{
    (void)state;
    struct af_span answer;
    const char *script = "read -r x; echo $x; while :; do :; done";
    assert_int_equal(ask_shell(script, 5000, &answer), ANYFLASH_OK);
    assert_int_equal(wait_for_state(dialog.child.pid, 'T'), 'T');
}

static void assert_fails(const char *script, int limit_ms, enum anyflash_status status,
                         const char *message)
{
    struct af_span answer;
    assert_int_equal(ask_shell(script, limit_ms, &answer), status);
    assert_string_equal(err.message, message);
    assert_false(af_dialog_is_open(&dialog));
}

static void test_dialog__says_how_the_program_ended(void **state)
{
    (void)state;
    assert_fails("exit 3", 5000, ANYFLASH_E_IO, "exit code 3");
    assert_fails("read -r x; printf half; exit 4", 5000, ANYFLASH_E_IO, "exit code 4");
    assert_fails("read -r x; kill -9 $$", 5000, ANYFLASH_E_IO, "killed by signal 9");
}

static void test_dialog__is_killed_at_the_limit(void **state)
{
    (void)state;
    assert_fails("read -r x; sleep 60", 1000, ANYFLASH_E_TIMEOUT, "no answer within 1 s");
}

static void test_dialog__bounds_the_answer(void **state)
{
    (void)state;
    assert_fails("read -r x; while :; do printf 0123456789abcdef; done", 60000,
                 ANYFLASH_E_LIMIT, "the program printed more than 262144 bytes");
}

static void test_dialog__reports_a_program_that_does_not_exist(void **state)
{
    (void)state;
    const char *argv[] = {"/no/such/program", NULL};
    struct af_span answer;
    assert_int_equal(af_dialog_start(argv, &dialog, NULL), ANYFLASH_OK);
    assert_int_equal(af_dialog_ask(&dialog, &arena, "hello", 5000, &answer, &err),
                     ANYFLASH_E_NOT_FOUND);
}

static void test_dialog_end__kills_what_the_program_started(void **state)
{
    (void)state;
    struct af_span answer;
    const char *script = "sleep 60 & read -r x; echo $!; read -r x";
    assert_int_equal(ask_shell(script, 5000, &answer), ANYFLASH_OK);
    int pid = (int)strtol(answer.data, NULL, 10);
    assert_int_equal(kill(pid, 0), 0);
    af_dialog_end(&dialog);
    for (int i = 0; i < 5000 && kill(pid, 0) == 0; i++)
        usleep(1000);
    assert_int_not_equal(kill(pid, 0), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_dialog__answers_each_question_with_a_line),
        TEST(test_dialog__is_stopped_when_it_has_answered),
        TEST(test_dialog__says_how_the_program_ended),
        TEST(test_dialog__is_killed_at_the_limit),
        TEST(test_dialog__bounds_the_answer),
        TEST(test_dialog__reports_a_program_that_does_not_exist),
        TEST(test_dialog_end__kills_what_the_program_started),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
