/*
 * test_faults_cli.c: makes allocations fail in whole runs of the program. Each
 * run must end with exit code 3 and a message, print no partial answer, and
 * leak nothing (checked by the sanitize preset). jansson keeps its own
 * allocator here, because its parser (2.14) corrupts the heap when one of its
 * allocations fails.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/base/base.h"
#include "engine/base/mem.h"
#include "kit/cli/cli.h"
#include "tests/unit/every_allocation.h"

#define WORDS_MAX 12

#define CATALOG "--catalog=" AF_TEST_DATA "/faults/few_wheels.jsonl"
#define MACHINE "--machine=" AF_TEST_DATA "/cases/machines/rtx4090-torch2.15.json"

static int out_fd;

static int redirect(void **state)
{
    (void)state;
    char name[] = "/tmp/anyflash-faults-XXXXXX";
    out_fd = mkstemp(name);
    assert_true(out_fd >= 0);
    unlink(name);
    return 0;
}

/* Runs with stdout to the file and stderr discarded; *len_out: bytes of stdout. */
static int run(const char *const *words, off_t *len_out)
{
    char *argv[WORDS_MAX + 1] = {NULL};
    int argc = 0;
    int kept_out = dup(STDOUT_FILENO);
    int kept_err = dup(STDERR_FILENO);
    int null_fd = open("/dev/null", O_WRONLY);
    for (; words[argc] != NULL; argc++)
        argv[argc] = (char *)(uintptr_t)words[argc];
    fflush(stdout);
    assert_int_equal(ftruncate(out_fd, 0), 0);
    lseek(out_fd, 0, SEEK_SET);
    dup2(out_fd, STDOUT_FILENO);
    dup2(null_fd, STDERR_FILENO);
    int code = af_cli_main(argc, argv);
    dup2(kept_out, STDOUT_FILENO);
    dup2(kept_err, STDERR_FILENO);
    close(kept_out);
    close(kept_err);
    close(null_fd);
    *len_out = lseek(out_fd, 0, SEEK_END);
    return code;
}

static const char *const lines[][WORDS_MAX] = {
    {"anyflash", "plan", MACHINE, CATALOG},
    {"anyflash", "plan", MACHINE, CATALOG, "--json"},
    {"anyflash", "plan", MACHINE, CATALOG, "--all", "-v"},
    {"anyflash", "doctor", MACHINE, CATALOG},
    {"anyflash", "doctor", MACHINE, CATALOG, "--json", "--given", "torch=2.8.0+cu128"},
    {"anyflash", "find", "torch=2.9", CATALOG},
    {"anyflash", "find", MACHINE, CATALOG, "--json"},
    {"anyflash", "machine", MACHINE},
    {"anyflash", "machine", MACHINE, "--tags"},
    {"anyflash", "machine", "--schema"},
    {"anyflash", "help", "plan"},
    {"anyflash", "help", "--man"},
    {"anyflash", "nosuchcommand"},
};

static void fail_everywhere(const char *const *words, bool all_after)
{
    struct every_allocation each = {.all_after = all_after};
    while (every_allocation_next(&each)) {
        off_t len = 0;
        every_allocation_begin(&each);
        int code = run(words, &len);
        every_allocation_end(&each);
        if (each.failed && (code != AF_EXIT_WORLD || len != 0))
            fail_msg("%s %s: allocation %zu fails: exit %d, %ld bytes", words[1],
                     words[2] != NULL ? words[2] : "", each.nth, code, (long)len);
    }
}

static void test_cli__lack_of_memory_exits_3_without_half_answers(void **state)
{
    (void)state;
    for (size_t i = 0; i < AF_COUNT(lines); i++) {
        fail_everywhere(lines[i], false);
        fail_everywhere(lines[i], true);
    }
}

int main(void)
{
    setenv("ANYFLASH_STATE", "/dev/null/none", 1); /* not this user's settings */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_cli__lack_of_memory_exits_3_without_half_answers, redirect),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
