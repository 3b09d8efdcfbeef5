/*
 * test_faults_commands.c: lack of memory at every allocation of whole
 * commands, from reading the record to the last byte of output. Whatever was
 * missing, the command ends with the exit code of a failed world (or, where
 * nothing was needed any more, its own), never with our own bug's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "cli/cli.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define WORDS_MAX 12
#define RECORD AF_TEST_DATA "/cases/machines/stale-after-torch-upgrade.json"

/* Runs the program's main with `words` (NULL-terminated), its output thrown away. */
static int run(const char *const *words)
{
    static char copies[WORDS_MAX][512];
    char *argv[WORDS_MAX + 1] = {0};
    int argc = 0;
    for (; words[argc] != NULL; argc++) {
        snprintf(copies[argc], sizeof copies[argc], "%s", words[argc]);
        argv[argc] = copies[argc];
    }
    return af_cli_main(argc, argv);
}

/* Sends standard output and error to /dev/null; gives back what they were. */
static void silence(int saved[2])
{
    fflush(NULL);
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    for (int fd = 1; fd <= 2; fd++) {
        saved[fd - 1] = dup(fd);
        dup2(nowhere, fd);
    }
    close(nowhere);
}

static void speak(const int saved[2])
{
    fflush(NULL);
    for (int fd = 1; fd <= 2; fd++) {
        dup2(saved[fd - 1], fd);
        close(saved[fd - 1]);
    }
}

static void fail_everywhere(const char *const *words, bool all_after)
{
    for (size_t nth = 1;; nth++) {
        int saved[2];
        silence(saved);
        af_mem_fail_nth(nth, all_after);
        int code = run(words);
        bool reached = af_mem_request_count() >= nth;
        af_mem_fail_nth(0, false);
        speak(saved);
        if (!reached) {
            assert_true(code == AF_EXIT_YES || code == AF_EXIT_NO);
            assert_true(nth > 1);
            return;
        }
        if (code != AF_EXIT_WORLD)
            fail_msg("'%s': request %zu: exit code %d", words[1], nth, code);
    }
}

#define TEST(name, ...)                                                                        \
    static void test_##name##__survives_every_lack_of_memory(void **state)                     \
    {                                                                                          \
        static const char *const words[] = {"anyflash", __VA_ARGS__, NULL};                    \
        (void)state;                                                                           \
        fail_everywhere(words, false);                                                         \
        fail_everywhere(words, true);                                                          \
    }

TEST(plan, "plan", "--machine", RECORD)
TEST(plan_json, "plan", "--json", "--machine", RECORD)
TEST(doctor, "doctor", "--machine", RECORD)
TEST(doctor_json, "doctor", "--json", "--machine", RECORD)
TEST(machine, "machine", "--machine", RECORD)
TEST(find, "find", "torch=2.9", "python=3.12", "cuda=13")
TEST(find_json, "find", "--json", "torch=2.9", "python=3.12", "cuda=13")
TEST(given, "plan", "--given", "torch=2.8.0+cu128", "--given", "python=3.12")
TEST(help, "help", "plan")

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plan__survives_every_lack_of_memory),
        cmocka_unit_test(test_plan_json__survives_every_lack_of_memory),
        cmocka_unit_test(test_doctor__survives_every_lack_of_memory),
        cmocka_unit_test(test_doctor_json__survives_every_lack_of_memory),
        cmocka_unit_test(test_machine__survives_every_lack_of_memory),
        cmocka_unit_test(test_find__survives_every_lack_of_memory),
        cmocka_unit_test(test_find_json__survives_every_lack_of_memory),
        cmocka_unit_test(test_given__survives_every_lack_of_memory),
        cmocka_unit_test(test_help__survives_every_lack_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
