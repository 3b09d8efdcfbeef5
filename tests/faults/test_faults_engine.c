/*
 * test_faults_engine.c: makes each allocation of `anyflash attend` fail in
 * turn: exit code 3, and complete output files or none.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/own_folder.h"
#include "whole_command.h"

#include <stdlib.h>
#include <sys/stat.h>

#define PATH_BYTES (OWN_FOLDER_BYTES + 16)
#define NUMBERS (3 * 2 * 4)
#define HEAD_BYTES 128

static char folder[OWN_FOLDER_BYTES];
static char input[PATH_BYTES], output[PATH_BYTES], lse[PATH_BYTES];

/* A folder with one .npy file [1, 3, 2, 4] of f32 that is q, k and v. */
static int make_folder(void **state)
{
    static const char head[] =
        "\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, "
        "'shape': (1, 3, 2, 4), }";
    char padded[HEAD_BYTES];
    float numbers[NUMBERS];
    (void)state;
    assert_true(own_folder_make(folder));
    snprintf(input, sizeof input, "%s/q.npy", folder);
    snprintf(output, sizeof output, "%s/o.npy", folder);
    snprintf(lse, sizeof lse, "%s/lse.npy", folder);
    memset(padded, ' ', sizeof padded);
    memcpy(padded, head, sizeof head - 1);
    padded[sizeof padded - 1] = '\n';
    for (int i = 0; i < NUMBERS; i++)
        numbers[i] = (float)(i % 7) / 4;
    FILE *file = fopen(input, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(padded, 1, sizeof padded, file), sizeof padded);
    assert_int_equal(fwrite(numbers, sizeof numbers[0], NUMBERS, file), NUMBERS);
    assert_int_equal(fclose(file), 0);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(input);
    unlink(output);
    unlink(lse);
    return rmdir(folder);
}

/* Checks that an output file is complete or absent, then removes it. */
static void check_file(const char *path, off_t whole_bytes)
{
    struct stat found;
    if (stat(path, &found) != 0)
        return;
    assert_int_equal(found.st_size, whole_bytes);
    assert_int_equal(unlink(path), 0);
}

static void check_outputs(void)
{
    check_file(output, HEAD_BYTES + NUMBERS * sizeof(float));
    check_file(lse, HEAD_BYTES + NUMBERS / 4 * sizeof(float));
}

static void test_attend__survives_every_lack_of_memory(void **state)
{
    (void)state;
    const char *const words[] = {"anyflash", "attend",   input,       input, input, "-o",
                                 output,     "--causal", "--threads", "2",   NULL};
    fail_everywhere(words, false, check_outputs);
    fail_everywhere(words, true, check_outputs);
}

static void test_attend__survives_it_with_lse_and_json(void **state)
{
    (void)state;
    const char *const words[] = {"anyflash", "attend", input, input,    input, "-o",
                                 output,     "--lse",  lse,   "--json", NULL};
    fail_everywhere(words, false, check_outputs);
    fail_everywhere(words, true, check_outputs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attend__survives_every_lack_of_memory),
        cmocka_unit_test(test_attend__survives_it_with_lse_and_json),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
