/*
 * build_files.c: folders, small files, programs and locks for the steps of a
 * build.
 *
 * The lock of a folder is a file beside it, FOLDER.lock, because the folder
 * itself is removed and made again. The kernel releases the lock when its
 * process ends.
 */
#include "kit/compile/build_steps.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "kit/base/text.h"
#include "kit/system/file.h"
#include "kit/system/output.h"
#include "kit/system/process.h"
#include "kit/system/progress.h"

#define TEXT_BYTES_MAX (4u * 1024u * 1024u)
#define LINE_BYTES 400
#define POLL_NANOSECONDS 100000000L

enum anyflash_status af_build_write_file(struct af_arena *arena, const char *path,
                                         struct af_span bytes, struct anyflash_error *err)
{
    struct af_span old;
    if (af_file_read(arena, path, TEXT_BYTES_MAX, &old, NULL) == ANYFLASH_OK &&
        old.len == bytes.len && memcmp(old.data, bytes.data, bytes.len) == 0 &&
        af_file_check_owner(path, "ANYFLASH_CACHE", NULL) == ANYFLASH_OK)
        return ANYFLASH_OK;
    return af_file_write(arena, path, &bytes, 1, err);
}

static void add_to_log(const char *log, struct af_span text)
{
    int fd = log == NULL ? -1 : open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0)
        return;
    ssize_t ignored = write(fd, text.data == NULL ? "" : text.data, text.len);
    (void)ignored;
    close(fd);
}

/* Removes `mark` ("cause:") from the line; false if the line does not start with it. */
static bool take_mark(struct af_span *line, const char *mark)
{
    size_t len = strlen(mark);
    if (line->len < len || strncasecmp(line->data, mark, len) != 0)
        return false;
    *line = af_text_trim((struct af_span){line->data + len, line->len - len});
    return true;
}

/* The lines of a program's output that say why it failed. */
struct said {
    struct af_span error; /* the first "error:", as uv and pip print it */
    struct af_span first; /* the first "cause:" after it */
    struct af_span last;  /* the last "cause:"; without "error:" the last line but hints */
};

static struct said read_said(struct af_span text)
{
    struct said said = {{NULL, 0}, {NULL, 0}, {"", 0}};
    struct af_span line;
    while (af_text_line(&text, &line)) {
        line = af_text_trim(line);
        if (line.len == 0 || take_mark(&line, "hint:") || take_mark(&line, "tar: Exiting"))
            continue;
        if (said.error.data == NULL && take_mark(&line, "error:"))
            said.error = line;
        else if (take_mark(&line, "cause:") || take_mark(&line, "caused by:"))
            *(said.first.data == NULL ? &said.first : &said.last) = line;
        else if (said.error.data == NULL)
            said.last = line;
    }
    return said;
}

/* "request failed: no such host", scrubbed. */
static const char *why_it_failed(struct af_arena *arena, struct af_span text)
{
    const struct said said = read_said(text);
    const struct af_span parts[] = {said.error, said.first, said.last};
    char quoted[AF_COUNT(parts)][LINE_BYTES];
    const char *all = "";
    for (size_t i = 0; i < AF_COUNT(parts); i++) {
        if (parts[i].len == 0)
            continue;
        af_text_quote(quoted[i], LINE_BYTES, parts[i].data, parts[i].len);
        all = af_arena_format(arena, "%s%s%s", all, all[0] == '\0' ? "" : ": ", quoted[i]);
    }
    return all;
}

static bool is_wanted(void *context)
{
    (void)context;
    return !af_interrupted();
}

enum anyflash_status af_build_call(struct af_build *build, const char *log, const char *what,
                                   const char *const *argv, struct af_span *output_out,
                                   struct anyflash_error *err)
{
    const struct af_program program = {.argv = argv, .go_on = is_wanted};
    struct af_program_result result;
    enum anyflash_status status = af_program_run(&program, build->arena, &result, err);
    if (status != ANYFLASH_OK)
        return status;
    add_to_log(log, result.output);
    add_to_log(log, result.errors);
    if (output_out != NULL)
        *output_out = result.output;
    if (result.exit_code == 0)
        return ANYFLASH_OK;
    if (result.exit_code == 127)
        return af_fail(err, ANYFLASH_E_NOT_FOUND, "%s: program '%s' not found", what, argv[0]);
    return af_fail(
        err, ANYFLASH_E_IO, "%s failed (exit code %d): %s", what, result.exit_code,
        why_it_failed(build->arena, result.errors.len > 0 ? result.errors : result.output));
}

/* Whether the lock file still exists: its folder may have been removed meanwhile. */
static bool is_current(int fd, const char *path)
{
    struct stat held;
    struct stat named;
    return fstat(fd, &held) == 0 && stat(path, &named) == 0 && held.st_dev == named.st_dev &&
           held.st_ino == named.st_ino;
}

/* False if another process holds it, or the file was just removed. */
static bool try_once(int fd, const char *path, int operation)
{
    return flock(fd, operation | LOCK_NB) == 0 && is_current(fd, path);
}

enum anyflash_status af_build_lock(struct af_build *build, const char *folder,
                                   enum af_build_lock_mode mode, int *fd,
                                   struct anyflash_error *err)
{
    const struct timespec pause = {.tv_nsec = POLL_NANOSECONDS};
    const char *path = af_arena_format(build->arena, "%s.lock", folder);
    int operation = mode == AF_BUILD_ALONE ? LOCK_EX : LOCK_SH;
    for (bool is_announced = false;; is_announced = true) {
        if (*fd < 0)
            *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
        if (*fd < 0)
            return af_file_fail("write", path, err);
        if (try_once(*fd, path, operation))
            return ANYFLASH_OK;
        if (!is_current(*fd, path)) {
            close(*fd);
            *fd = -1;
            continue;
        }
        if (!is_announced)
            af_progress_message(&build->progress,
                                "waiting for another build that is using '%s'", folder);
        if (af_interrupted())
            return af_fail(err, ANYFLASH_E_TIMEOUT,
                           "interrupted while waiting for another build that is using '%s'",
                           folder);
        nanosleep(&pause, NULL);
    }
}

bool af_build_try_lock(const char *path, int *fd_out)
{
    *fd_out = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    return *fd_out < 0 || try_once(*fd_out, path, LOCK_EX);
}
