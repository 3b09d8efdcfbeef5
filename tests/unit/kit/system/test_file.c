/*
 * test_file.c: bounded reading of regular, special and missing files; files are written whole.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kit/base/text.h"
#include "kit/system/file.h"
#include "kit/system/output.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/own_folder.h"

struct place {
    struct af_arena arena;
    char folder[OWN_FOLDER_BYTES];
};

static int place_make(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    if (!own_folder_make(place->folder))
        return -1;
    af_arena_init(&place->arena);
    *state = place;
    return 0;
}

static int place_remove(void **state)
{
    struct place *place = *state;
    const char **names;
    size_t count;
    af_folder_list(&place->arena, place->folder, 1000, &names, &count, NULL, NULL);
    for (size_t i = 0; i < count; i++)
        remove(af_path_join(&place->arena, place->folder, names[i]));
    rmdir(place->folder);
    af_arena_release(&place->arena);
    free(place);
    return 0;
}

static const char *put(struct place *place, const char *name, const char *content)
{
    const char *path = af_path_join(&place->arena, place->folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(content, file);
    fclose(file);
    return path;
}

static void test_read__gives_content_and_nul(void **state)
{
    struct place *place = *state;
    struct af_span content;
    const char *path = put(place, "a", "hello");
    assert_int_equal(af_file_read(&place->arena, path, 100, &content, NULL), ANYFLASH_OK);
    assert_int_equal(content.len, 5);
    assert_string_equal(content.data, "hello");
}

static void test_read__accepts_exactly_the_limit(void **state)
{
    struct place *place = *state;
    struct af_span content;
    const char *path = put(place, "a", "hello");
    assert_int_equal(af_file_read(&place->arena, path, 5, &content, NULL), ANYFLASH_OK);
    assert_int_equal(af_file_read(&place->arena, path, 4, &content, NULL), ANYFLASH_E_LIMIT);
}

static void test_read_start__takes_the_first_bytes(void **state)
{
    struct place *place = *state;
    struct af_span content;
    const char *path = put(place, "a", "hello");
    assert_int_equal(af_file_read_start(&place->arena, path, 2, &content, NULL), ANYFLASH_OK);
    assert_int_equal(content.len, 2);
    assert_string_equal(content.data, "he");
}

static void test_read__reads_proc_files_of_size_zero(void **state)
{
    struct place *place = *state;
    struct af_span content;
    assert_int_equal(af_file_read(&place->arena, "/proc/self/status", 100000, &content, NULL),
                     ANYFLASH_OK);
    assert_true(content.len > 100);
}

static void test_read__names_a_missing_file(void **state)
{
    struct place *place = *state;
    struct af_span content;
    struct anyflash_error err = {0};
    const char *path = af_path_join(&place->arena, place->folder, "not\x1bhere");
    assert_int_equal(af_file_read(&place->arena, path, 9, &content, &err),
                     ANYFLASH_E_NOT_FOUND);
    assert_non_null(strstr(err.message, "not\\x1bhere"));
}

static void test_read__refuses_fifo_without_blocking(void **state)
{
    struct place *place = *state;
    struct af_span content;
    const char *path = af_path_join(&place->arena, place->folder, "fifo");
    struct anyflash_error err = {0};
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(af_file_read(&place->arena, path, 9, &content, &err), ANYFLASH_E_IO);
    assert_non_null(strstr(err.message, "fifo': not a regular file"));
}

static void test_read__refuses_folder_and_link_loop(void **state)
{
    struct place *place = *state;
    struct af_span content;
    const char *loop = af_path_join(&place->arena, place->folder, "loop");
    assert_int_equal(symlink("loop", loop), 0);
    assert_int_equal(af_file_read(&place->arena, loop, 9, &content, NULL), ANYFLASH_E_IO);
    assert_int_equal(af_file_read(&place->arena, place->folder, 9, &content, NULL),
                     ANYFLASH_E_IO);
    assert_null(af_file_real_path(&place->arena, loop));
}

static void test_read__large_sparse_file_is_refused_at_once(void **state)
{
    struct place *place = *state;
    struct af_span content;
    const char *path = put(place, "big", "");
    assert_int_equal(truncate(path, (off_t)1 << 36), 0);
    assert_int_equal(af_file_read(&place->arena, path, 1000, &content, NULL), ANYFLASH_E_LIMIT);
    assert_int_equal(af_file_read_start(&place->arena, path, 1000, &content, NULL),
                     ANYFLASH_OK);
}

/* The path of a FIFO into which a child process writes "hello", and the child. */
static const char *fed_fifo(struct place *place, pid_t *writer_out)
{
    const char *path = af_path_join(&place->arena, place->folder, "fed");
    assert_int_equal(mkfifo(path, 0600), 0);
    *writer_out = fork();
    if (*writer_out == 0) {
        usleep(20000);
        put(place, "fed", "hello");
        _exit(0);
    }
    return path;
}

static void test_read_input__waits_for_the_writer_of_a_pipe(void **state)
{
    struct place *place = *state;
    struct af_span content;
    pid_t writer;
    const char *path = fed_fifo(place, &writer);
    assert_int_equal(af_file_read_input(&place->arena, path, 100, &content, NULL), ANYFLASH_OK);
    assert_string_equal(content.data, "hello");
    assert_int_equal(waitpid(writer, NULL, 0), writer);
}

static void test_read_input__ends_at_the_limit_of_an_endless_device(void **state)
{
    struct place *place = *state;
    struct af_span content;
    struct anyflash_error err = {0};
    assert_int_equal(af_file_read_input(&place->arena, "/dev/zero", 1000, &content, &err),
                     ANYFLASH_E_LIMIT);
    assert_non_null(strstr(err.message, "'/dev/zero' is larger than 1000 bytes"));
    assert_int_equal(af_file_read_input(&place->arena, "/dev/null", 1000, &content, NULL),
                     ANYFLASH_OK);
    assert_int_equal(content.len, 0);
}

static void test_read_input__refuses_a_folder_and_a_missing_file(void **state)
{
    struct place *place = *state;
    struct af_span content;
    assert_int_equal(af_file_read_input(&place->arena, place->folder, 9, &content, NULL),
                     ANYFLASH_E_IO);
    const char *missing = af_path_join(&place->arena, place->folder, "missing");
    assert_int_equal(af_file_read_input(&place->arena, missing, 9, &content, NULL),
                     ANYFLASH_E_NOT_FOUND);
}

static void count_bytes(void *context, const char *bytes, size_t len)
{
    (void)bytes;
    *(size_t *)context += len;
}

static void test_read_input_pieces__limits_streams_but_not_regular_files(void **state)
{
    struct place *place = *state;
    size_t total = 0;
    const char *path = put(place, "log", "hello");
    assert_int_equal(af_file_read_input_pieces(path, 1, count_bytes, &total, NULL),
                     ANYFLASH_OK);
    assert_int_equal(total, 5);
    assert_int_equal(af_file_read_input_pieces("/dev/zero", 1 << 20, count_bytes, &total, NULL),
                     ANYFLASH_E_LIMIT);
}

static void test_write_text__a_leftover_of_an_earlier_process_is_no_obstacle(void **state)
{
    struct place *place = *state;
    const char *path = af_path_join(&place->arena, place->folder, "text");
    const char *left = af_arena_format(&place->arena, "%s.%ld.part", path, (long)getpid());
    assert_int_equal(close(open(left, O_WRONLY | O_CREAT | O_EXCL, 0600)), 0);
    assert_int_equal(af_file_write_text(&place->arena, path, "content", NULL), ANYFLASH_OK);
    assert_int_equal(unlink(left), 0);
    assert_int_equal(unlink(path), 0);
}

static void end(int number)
{
    (void)number;
    _exit(7);
}

/* Writes the same file again and again until a signal ends it. */
static void write_for_ever(struct af_arena *arena, const char *path)
{
    signal(SIGTERM, end);
    while (af_file_write_text(arena, path, "content", NULL) == ANYFLASH_OK)
        continue;
    _exit(1);
}

static void test_write_text__is_whole_when_a_signal_ends_the_program(void **state)
{
    struct place *place = *state;
    const char *path = af_path_join(&place->arena, place->folder, "text");
    for (useconds_t run = 0; run < 20; run++) {
        const char **names;
        size_t count = 0;
        int ended = 0;
        pid_t child = fork();
        if (child == 0)
            write_for_ever(&place->arena, path);
        while (af_file_is_absent(path))
            usleep(100);
        usleep(100 * run);
        kill(child, SIGTERM);
        assert_int_equal(waitpid(child, &ended, 0), child);
        assert_int_equal(WEXITSTATUS(ended), 7);
        assert_int_equal(
            af_folder_list(&place->arena, place->folder, 10, &names, &count, NULL, NULL),
            ANYFLASH_OK);
        assert_int_equal(count, 1);
        assert_string_equal(names[0], "text");
        remove(path);
    }
}

static mode_t mode_at_rename;

/* In place of libc's: notes who may read the new file when it gets its name. */
int rename(const char *from, const char *to)
{
    struct stat facts;
    mode_at_rename = stat(from, &facts) == 0 ? facts.st_mode & 07777 : 0;
    return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

static void test_rewrite__keeps_the_permissions_at_any_time(void **state)
{
    struct place *place = *state;
    const struct af_span text = {"new", 3};
    const mode_t modes[] = {0600, 0640, 0444};
    mode_t mask = umask(022);
    for (size_t i = 0; i < AF_COUNT(modes); i++) {
        struct stat facts;
        const char *path = put(place, "file", "old");
        assert_int_equal(chmod(path, modes[i]), 0);
        assert_int_equal(af_file_rewrite(&place->arena, path, &text, NULL), ANYFLASH_OK);
        assert_int_equal(mode_at_rename, modes[i]);
        assert_int_equal(stat(path, &facts), 0);
        assert_int_equal(facts.st_mode & 07777, modes[i]);
        assert_int_equal(facts.st_size, 3);
        remove(path);
    }
    const char *path = af_path_join(&place->arena, place->folder, "fresh");
    assert_int_equal(af_file_rewrite(&place->arena, path, &text, NULL), ANYFLASH_OK);
    assert_int_equal(mode_at_rename, 0644);
    umask(mask);
}

static void test_list__is_sorted_and_capped(void **state)
{
    struct place *place = *state;
    const char **names;
    size_t count;
    bool cut;
    put(place, "b", "");
    put(place, "a", "");
    put(place, "c", "");
    assert_int_equal(
        af_folder_list(&place->arena, place->folder, 9, &names, &count, &cut, NULL),
        ANYFLASH_OK);
    assert_int_equal(count, 3);
    assert_string_equal(names[0], "a");
    assert_string_equal(names[2], "c");
    assert_false(cut);
    assert_int_equal(
        af_folder_list(&place->arena, place->folder, 2, &names, &count, &cut, NULL),
        ANYFLASH_OK);
    assert_int_equal(count, 2);
    assert_true(cut);
}

static void test_paths__join_and_folder(void **state)
{
    struct place *place = *state;
    assert_string_equal(af_path_join(&place->arena, "/a/", "b"), "/a/b");
    assert_string_equal(af_path_join(&place->arena, "/a", "b"), "/a/b");
    assert_string_equal(af_path_folder(&place->arena, "/a/b"), "/a");
    assert_string_equal(af_path_folder(&place->arena, "/a"), "/");
    assert_string_equal(af_path_folder(&place->arena, "a"), ".");
    assert_string_equal(af_path_name("/a/b"), "b");
}

#define PLACE_TEST(test) cmocka_unit_test_setup_teardown(test, place_make, place_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PLACE_TEST(test_read__gives_content_and_nul),
        PLACE_TEST(test_read__accepts_exactly_the_limit),
        PLACE_TEST(test_read_start__takes_the_first_bytes),
        PLACE_TEST(test_read__reads_proc_files_of_size_zero),
        PLACE_TEST(test_read__names_a_missing_file),
        PLACE_TEST(test_read__refuses_fifo_without_blocking),
        PLACE_TEST(test_read__refuses_folder_and_link_loop),
        PLACE_TEST(test_read__large_sparse_file_is_refused_at_once),
        PLACE_TEST(test_read_input__waits_for_the_writer_of_a_pipe),
        PLACE_TEST(test_read_input__ends_at_the_limit_of_an_endless_device),
        PLACE_TEST(test_read_input__refuses_a_folder_and_a_missing_file),
        PLACE_TEST(test_read_input_pieces__limits_streams_but_not_regular_files),
        PLACE_TEST(test_write_text__a_leftover_of_an_earlier_process_is_no_obstacle),
        PLACE_TEST(test_write_text__is_whole_when_a_signal_ends_the_program),
        PLACE_TEST(test_rewrite__keeps_the_permissions_at_any_time),
        PLACE_TEST(test_list__is_sorted_and_capped),
        PLACE_TEST(test_paths__join_and_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
