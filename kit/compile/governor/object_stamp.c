/*
 * object_stamp.c: stamp files of finished objects.
 */
#include "kit/compile/governor/object_stamp.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/mem.h"
#include "kit/base/sha256.h"
#include "kit/base/text.h"
#include "kit/system/file.h"

#define DEPENDENCIES_BYTES_MAX (8u * 1024u * 1024u)
#define HEAD_BYTES 160
#define RESERVE_BYTES (1 << 20) /* flash_api.cpp reads files with 0.5 MB of names */

/* The files of a command. */
struct command {
    const char *source, *object, *dependencies; /* the last may be NULL */
    char hash[AF_SHA256_HEX_BYTES];
};

static bool read_command(const char *const *argv, struct command *command)
{
    char folder[4096];
    struct af_sha256 sum;
    *command = (struct command){0};
    if (getcwd(folder, sizeof folder) == NULL)
        return false;
    af_sha256_init(&sum);
    af_sha256_add(&sum, folder, strlen(folder) + 1);
    for (; *argv != NULL; argv++) {
        const char *next = argv[1];
        af_sha256_add(&sum, *argv, strlen(*argv) + 1);
        if (next != NULL && strcmp(*argv, "-c") == 0 && next[0] != '-')
            command->source = next;
        if (next != NULL && strcmp(*argv, "-o") == 0)
            command->object = next;
        if (next != NULL && strcmp(*argv, "-MF") == 0)
            command->dependencies = next;
    }
    af_sha256_finish(&sum, command->hash);
    return command->source != NULL && command->object != NULL;
}

static bool is_newer(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec != b->tv_sec ? a->tv_sec > b->tv_sec : a->tv_nsec > b->tv_nsec;
}

/* Whether the file exists and is not newer than the object. */
static bool is_older(const char *path, const struct stat *object)
{
    struct stat file;
    return stat(path, &file) == 0 && !is_newer(&file.st_mtim, &object->st_mtim);
}

/* The next name in a dependency file (make's syntax); false at its end. */
static bool next_name(struct af_span *rest, char *name, size_t name_bytes)
{
    size_t len = 0;
    size_t at = 0;
    const char *data = rest->data;
    while (at < rest->len && (data[at] == ' ' || data[at] == '\n' || data[at] == '\t' ||
                              (data[at] == '\\' && at + 1 < rest->len && data[at + 1] == '\n')))
        at += data[at] == '\\' ? 2 : 1;
    for (; at < rest->len && data[at] != ' ' && data[at] != '\n' && data[at] != '\t'; at++) {
        if (data[at] == '\\' && at + 1 < rest->len) {
            if (data[at + 1] == '\n')
                break;
            at += data[at + 1] == ' ' || data[at + 1] == '#' || data[at + 1] == '\\';
        }
        if (len + 1 < name_bytes)
            name[len++] = data[at];
    }
    name[len] = '\0';
    rest->data += at;
    rest->len -= at;
    return len > 0;
}

static bool dependencies_are_older(struct af_span rest, const struct stat *object)
{
    char name[4096];
    while (next_name(&rest, name, sizeof name)) {
        size_t len = strlen(name);
        if (name[len - 1] != ':' && !is_older(name, object)) /* "OBJECT:" is no dependency */
            return false;
    }
    return true;
}

/* The first line of a stamp, "HASH SIZE SECONDS NANOSECONDS\n". */
static void head_of(const struct command *command, const struct stat *object,
                    char head[HEAD_BYTES])
{
    snprintf(head, HEAD_BYTES, "%s %jd %jd %ld\n", command->hash, (intmax_t)object->st_size,
             (intmax_t)object->st_mtim.tv_sec, object->st_mtim.tv_nsec);
}

/* Replaces `path` atomically, through `staged`, which may have reserved space. */
static bool write_file(const char *staged, const char *path, const char *head,
                       struct af_span rest)
{
    int fd = staged == NULL ? -1 : open(staged, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0)
        return false;
    size_t head_len = strlen(head);
    bool good = write(fd, head, head_len) == (ssize_t)head_len &&
                write(fd, rest.data == NULL ? "" : rest.data, rest.len) == (ssize_t)rest.len &&
                ftruncate(fd, (off_t)(head_len + rest.len)) == 0;
    good = close(fd) == 0 && good && rename(staged, path) == 0;
    if (!good)
        unlink(staged);
    return good;
}

static const char *beside(struct af_arena *arena, const struct command *command,
                          const char *suffix)
{
    return af_arena_format(arena, "%s.%s", command->object, suffix);
}

/* Links the object under a second name. */
static void keep(struct af_arena *arena, const struct command *command)
{
    const char *kept = beside(arena, command, "kept");
    if (kept == NULL)
        return;
    unlink(kept);
    if (link(command->object, kept) != 0)
        unlink(kept); /* the file system has no links */
}

/* Links a removed object under its first name again; false if there is none. */
static bool restore(struct af_arena *arena, const struct command *command, struct stat *object)
{
    const char *kept = beside(arena, command, "kept");
    if (stat(command->object, object) == 0)
        return true;
    return errno == ENOENT && kept != NULL && link(kept, command->object) == 0 &&
           stat(command->object, object) == 0;
}

bool af_stamp_is_current(const char *const *argv)
{
    struct command command;
    struct stat object;
    struct af_span stamp;
    struct af_arena arena;
    char head[HEAD_BYTES];
    if (!read_command(argv, &command))
        return false;
    af_arena_init(&arena);
    const char *path = beside(&arena, &command, "done");
    bool current =
        path != NULL && restore(&arena, &command, &object) &&
        af_file_read(&arena, path, DEPENDENCIES_BYTES_MAX, &stamp, NULL) == ANYFLASH_OK;
    if (current) {
        head_of(&command, &object, head);
        current = af_starts_with(stamp.data, head) && is_older(command.source, &object);
    }
    if (current) {
        struct af_span rest = {stamp.data + strlen(head), stamp.len - strlen(head)};
        current =
            dependencies_are_older(rest, &object) &&
            (command.dependencies == NULL ||
             write_file(af_arena_format(&arena, "%s.%ld", command.dependencies, (long)getpid()),
                        command.dependencies, "", rest));
    }
    af_arena_release(&arena);
    return current;
}

/* Where the stamp is written before it is renamed. */
static const char *staged_stamp(struct af_arena *arena, const char *const *argv)
{
    struct command command;
    return read_command(argv, &command) ? beside(arena, &command, "done.new") : NULL;
}

void af_stamp_reserve(const char *const *argv)
{
    struct af_arena arena;
    af_arena_init(&arena);
    const char *staged = staged_stamp(&arena, argv);
    int fd = staged == NULL ? -1 : open(staged, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd >= 0) {
        fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, RESERVE_BYTES); /* a failure does not matter */
        close(fd);
    }
    af_arena_release(&arena);
}

void af_stamp_discard(const char *const *argv)
{
    struct af_arena arena;
    af_arena_init(&arena);
    const char *staged = staged_stamp(&arena, argv);
    if (staged != NULL)
        unlink(staged);
    af_arena_release(&arena);
}

void af_stamp_write(const char *const *argv)
{
    struct command command;
    struct stat object;
    struct af_span rest = {NULL, 0};
    struct af_arena arena;
    char head[HEAD_BYTES];
    if (!read_command(argv, &command) || stat(command.object, &object) != 0)
        return;
    af_arena_init(&arena);
    head_of(&command, &object, head);
    const char *path = beside(&arena, &command, "done");
    const char *staged = staged_stamp(&arena, argv);
    bool good = path != NULL && staged != NULL &&
                (command.dependencies == NULL ||
                 af_file_read(&arena, command.dependencies, DEPENDENCIES_BYTES_MAX - HEAD_BYTES,
                              &rest, NULL) == ANYFLASH_OK);
    if (good)
        keep(&arena, &command); /* before the stamp, which is what counts */
    if (!good || !write_file(staged, path, head, rest))
        af_stamp_discard(argv);
    af_arena_release(&arena);
}
