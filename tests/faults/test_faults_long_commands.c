/*
 * test_faults_long_commands.c: as test_faults_commands.c for commands that make
 * thousands of allocations, mostly in the reader of the doctor's tables or one
 * decision for each cell: after the first ones only some are tried.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "whole_command.h"

#define LOG AF_TEST_SEEDS "/fuzz_log/symbol.log"

static const struct command commands[] = {
    {{"anyflash", "doctor", LOG, "--given", "torch=2.4.0+cu121"}, AF_EXIT_YES},
    {{"anyflash", "doctor", LOG, "--json", "--given", "torch=2.4.0+cu121"}, AF_EXIT_YES},
};

static void test_long_commands__survive_lack_of_memory(void **state)
{
    (void)state;
    for (size_t i = 0; i < AF_COUNT(commands) * 2; i++) {
        struct every_allocation each = {
            .all_after = i % 2 == 1, .at_least = 40, .skip_part = 12};
        fail_each(each, &commands[i / 2], NULL);
    }
}

#define REPORT_BYTES_MAX (256 * 1024)
static char report[64]; /* its file */
static char whole[REPORT_BYTES_MAX];

/* Reads the report into `text`; false: there is none. */
static bool read_report(char *text)
{
    FILE *file = fopen(report, "r");
    if (file == NULL)
        return false;
    text[fread(text, 1, REPORT_BYTES_MAX - 1, file)] = '\0';
    fclose(file);
    return true;
}

/* No report may lack lines. */
static void report_is_whole_or_absent(void)
{
    static char text[REPORT_BYTES_MAX];
    if (!read_report(text))
        return;
    unlink(report);
    assert_string_equal(text, whole);
}

static void try_report(const struct command *command)
{
    int saved[2];
    silence(saved);
    run_command(command->words);
    speak(saved);
    assert_true(read_report(whole));
    unlink(report);
    for (int all = 0; all < 2; all++) {
        struct every_allocation each = {.all_after = all, .at_least = 40, .skip_part = 60};
        fail_each(each, command, report_is_whole_or_absent);
        unlink(report);
    }
}

static void a_report_is_whole_or_absent(void **state)
{
    const struct command of_machine = {{"anyflash", "doctor", "--given", "gpu=T4", "--given",
                                        "torch=2.9.1+cu128", "--report", "-o", report},
                                       AF_EXIT_YES};
    const struct command of_log = {
        {"anyflash", "doctor", LOG, "--given", "torch=2.4.0+cu121", "--report", "-o", report},
        AF_EXIT_YES};
    char folder[] = "/tmp/anyflash_report_XXXXXX";
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(report, sizeof report, "%s/report.md", folder);
    try_report(&of_machine);
    try_report(&of_log);
    assert_int_equal(rmdir(folder), 0);
}

/* Caches are skipped if they lack memory; they have their own tests. */
static int forget_state(void **state)
{
    (void)state;
    return setenv("ANYFLASH_STATE", "/dev/null/none", 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_long_commands__survive_lack_of_memory),
        cmocka_unit_test(a_report_is_whole_or_absent),
    };
    return cmocka_run_group_tests(tests, forget_state, NULL);
}
