/*
 * test_process.c: child processes that respond, hang, write too much, crash or
 * do not exist.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kit/system/process.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static enum anyflash_status run(const char *const *argv, int limit_ms, struct af_arena *arena,
                                struct af_span *output, int *exit_code)
{
    struct af_child child = {0};
    af_arena_init(arena);
    assert_int_equal(af_child_start_program(argv, NULL, &child, NULL), ANYFLASH_OK);
    return af_child_collect(&child, limit_ms, arena, output, exit_code, NULL);
}

static void test_child__answer_and_exit_code(void **state)
{
    (void)state;
    const char *const argv[] = {"sh", "-c", "echo hello; exit 3", NULL};
    struct af_arena arena;
    struct af_span output;
    int exit_code;
    assert_int_equal(run(argv, 5000, &arena, &output, &exit_code), ANYFLASH_OK);
    assert_string_equal(output.data, "hello\n");
    assert_int_equal(exit_code, 3);
    af_arena_release(&arena);
}

static void test_child__missing_program_is_127(void **state)
{
    (void)state;
    const char *const argv[] = {"anyflash-no-such-program", NULL};
    struct af_arena arena;
    struct af_span output;
    int exit_code = 0;
    assert_int_equal(run(argv, 5000, &arena, &output, &exit_code), ANYFLASH_OK);
    assert_int_equal(exit_code, 127);
    af_arena_release(&arena);
}

static void test_child__hanging_family_is_killed_at_the_limit(void **state)
{
    (void)state;
    const char *const argv[] = {"sh", "-c", "sleep 1000 & echo $!; sleep 1000", NULL};
    struct af_arena arena;
    struct af_span output;
    int exit_code;
    assert_int_equal(run(argv, 200, &arena, &output, &exit_code), ANYFLASH_E_TIMEOUT);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    af_arena_release(&arena);
}

static void test_child__dies_with_an_interrupted_parent(void **state)
{
    (void)state;
    const char *const argv[] = {"sleep", "1000", NULL};
    int ends[2];
    int pid = 0;
    char byte;
    assert_int_equal(pipe(ends), 0);
    pid_t parent = fork();
    if (parent == 0) {
        struct af_child child = {0};
        af_child_start_program(argv, NULL, &child, NULL);
        ssize_t done = write(ends[1], &child.pid, sizeof child.pid);
        _exit(done > 0 ? 0 : 1);
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &pid, sizeof pid), (int)sizeof pid);
    assert_int_equal(waitpid(parent, NULL, 0), parent);
    /* The child holds the other end: it closes when the child is gone. */
    struct pollfd waiting = {.fd = ends[0], .events = POLLIN};
    assert_int_equal(poll(&waiting, 1, 5000), 1);
    assert_int_equal(read(ends[0], &byte, 1), 0);
    close(ends[0]);
}

static void test_child__flood_is_cut(void **state)
{
    (void)state;
    const char *const argv[] = {"sh", "-c", "while :; do echo yyyyyyyyyyyyyyyy; done", NULL};
    struct af_arena arena;
    struct af_span output;
    int exit_code;
    assert_int_equal(run(argv, 60000, &arena, &output, &exit_code), ANYFLASH_E_LIMIT);
    af_arena_release(&arena);
}

static int crash(int out_fd, void *context)
{
    (void)out_fd;
    (void)context;
    signal(SIGABRT, SIG_DFL);
    kill(getpid(), SIGKILL);
    return 0;
}

static void test_child__crash_is_an_error_not_ours(void **state)
{
    (void)state;
    struct af_child child = {0};
    struct af_arena arena;
    struct af_span output;
    struct anyflash_error err = {0};
    int exit_code;
    af_arena_init(&arena);
    assert_int_equal(af_child_start_fork(crash, NULL, &child, NULL), ANYFLASH_OK);
    assert_int_equal(af_child_collect(&child, 5000, &arena, &output, &exit_code, &err),
                     ANYFLASH_E_IO);
    assert_string_equal(err.message, "killed by signal 9");
    af_arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_child__answer_and_exit_code),
        cmocka_unit_test(test_child__missing_program_is_127),
        cmocka_unit_test(test_child__hanging_family_is_killed_at_the_limit),
        cmocka_unit_test(test_child__dies_with_an_interrupted_parent),
        cmocka_unit_test(test_child__flood_is_cut),
        cmocka_unit_test(test_child__crash_is_an_error_not_ours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
