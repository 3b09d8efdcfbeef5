/*
 * file.c: bounded reading of files: whole, their start, in pieces, mapped, as hash or JSON;
 * what is at a path. Used by the probes, the catalog and the commands. Folders are read in
 * folder_list.c; owners are checked in file_owner.c.
 */
#include "kit/system/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kit/base/memory.h"
#include "kit/base/text.h"

#define FIRST_BYTES 4096u
#define PIECE_BYTES (256u << 10)
#define FOLDERS_MAX 64

enum anyflash_status af_file_fail_errno(struct anyflash_error *err, const char *what,
                                        const char *path, int number)
{
    if (number == ENOMEM) /* says nothing about the file */
        af_memory_end();
    char shown[200];
    enum anyflash_status status =
        number == ENOENT || number == ENOTDIR ? ANYFLASH_E_NOT_FOUND : ANYFLASH_E_IO;
    af_text_quote(shown, sizeof shown, path, strlen(path));
    return af_fail(err, status, "cannot %s '%s': %s", what, shown, strerror(number));
}

/* Fails with a message that says what the path is instead of a regular file. */
static enum anyflash_status fail_irregular(struct anyflash_error *err, const char *path,
                                           mode_t mode)
{
    char shown[200];
    if (S_ISDIR(mode))
        return af_file_fail_errno(err, "read", path, EISDIR);
    af_text_quote(shown, sizeof shown, path, strlen(path));
    return af_fail(err, ANYFLASH_E_IO, "cannot read '%s': not a regular file", shown);
}

/* Opens without blocking on a FIFO and refuses everything but regular files. */
static enum anyflash_status open_regular(const char *path, int *fd_out, struct stat *facts,
                                         struct anyflash_error *err)
{
    enum anyflash_status status = ANYFLASH_OK;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return af_file_fail_errno(err, "open", path, errno);
    if (fstat(fd, facts) != 0)
        status = af_file_fail_errno(err, "look at", path, errno);
    else if (!S_ISREG(facts->st_mode))
        status = fail_irregular(err, path, facts->st_mode);
    if (status != ANYFLASH_OK)
        close(fd);
    else
        *fd_out = fd;
    return status;
}

/* Reads to the end or to max_bytes + 1, whichever comes first. */
static enum anyflash_status read_all(int fd, const char *path, size_t size_hint,
                                     size_t max_bytes, struct af_text *content,
                                     struct anyflash_error *err)
{
    size_t size_bytes = size_hint < FIRST_BYTES ? FIRST_BYTES : size_hint + 1;
    if (size_bytes > max_bytes + 1)
        size_bytes = max_bytes + 1;
    for (;;) {
        content->data = af_memory_resize(content->data, size_bytes + 1);
        ssize_t got = read(fd, content->data + content->len, size_bytes - content->len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return af_file_fail_errno(err, "read", path, errno);
        if (got == 0)
            return ANYFLASH_OK;
        content->len += (size_t)got;
        if (content->len > max_bytes)
            return ANYFLASH_OK;
        if (content->len == size_bytes)
            size_bytes = size_bytes > max_bytes / 2 ? max_bytes + 1 : size_bytes * 2;
    }
}

static enum anyflash_status fail_large(struct anyflash_error *err, const char *path,
                                       uint64_t max_bytes)
{
    char shown[200];
    af_text_quote(shown, sizeof shown, path, strlen(path));
    return af_fail(err, ANYFLASH_E_LIMIT, "'%s' is larger than %" PRIu64 " bytes", shown,
                   max_bytes);
}

/* Checks the size and moves what was read into the arena. */
static enum anyflash_status keep(struct af_arena *arena, const char *path, size_t max_bytes,
                                 bool start_only, const struct af_text *content,
                                 struct af_span *content_out, struct anyflash_error *err)
{
    size_t len = content->len;
    if (len > max_bytes && !start_only)
        return fail_large(err, path, max_bytes);
    if (len > max_bytes)
        len = max_bytes;
    *content_out = (struct af_span){af_arena_text_n(arena, content->data, len), len};
    return ANYFLASH_OK;
}

/* Reads what was opened as `fd`, and closes it; `name` is for messages. */
static enum anyflash_status read_opened(struct af_arena *arena, int fd,
                                        const struct stat *facts, const char *name,
                                        size_t max_bytes, bool start_only,
                                        struct af_span *content_out, struct anyflash_error *err)
{
    struct af_text content = {0};
    enum anyflash_status status = ANYFLASH_OK;
    size_t size_hint = facts->st_size < 0 ? 0 : (size_t)facts->st_size;
    if (!start_only && size_hint > max_bytes)
        content.len = size_hint; /* too large: do not read it first */
    else
        status = read_all(fd, name, size_hint, max_bytes, &content, err);
    close(fd);
    if (status == ANYFLASH_OK)
        status = keep(arena, name, max_bytes, start_only, &content, content_out, err);
    af_memory_free(content.data);
    return status;
}

static enum anyflash_status read_file(struct af_arena *arena, const char *path,
                                      size_t max_bytes, bool start_only,
                                      struct af_span *content_out, struct anyflash_error *err)
{
    struct stat facts;
    int fd;
    enum anyflash_status status = open_regular(path, &fd, &facts, err);
    return status == ANYFLASH_OK
               ? read_opened(arena, fd, &facts, path, max_bytes, start_only, content_out, err)
               : status;
}

enum anyflash_status af_file_read(struct af_arena *arena, const char *path, size_t max_bytes,
                                  struct af_span *content_out, struct anyflash_error *err)
{
    return read_file(arena, path, max_bytes, false, content_out, err);
}

enum anyflash_status af_file_read_start(struct af_arena *arena, const char *path,
                                        size_t max_bytes, struct af_span *content_out,
                                        struct anyflash_error *err)
{
    return read_file(arena, path, max_bytes, true, content_out, err);
}

static bool is_standard_input(const char *path)
{
    return strcmp(path, "-") == 0;
}

static const char *input_name(const char *path)
{
    return is_standard_input(path) ? "standard input" : path;
}

/* Whether it can be read once from start to end, although it has no size. */
static bool is_stream(mode_t mode)
{
    return S_ISFIFO(mode) || S_ISCHR(mode);
}

/* Waits for the writer of a pipe, which open_regular() must not do. */
static enum anyflash_status open_input(const char *path, int *fd_out, struct stat *facts,
                                       struct anyflash_error *err)
{
    if (!is_standard_input(path) && (stat(path, facts) != 0 || !is_stream(facts->st_mode)))
        return open_regular(path, fd_out, facts, err);
    int fd = is_standard_input(path) ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
                                     : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return af_file_fail_errno(err, "open", input_name(path), errno);
    if (fstat(fd, facts) != 0 || S_ISDIR(facts->st_mode)) {
        close(fd);
        return af_file_fail_errno(err, "read", input_name(path), EISDIR);
    }
    *fd_out = fd;
    return ANYFLASH_OK;
}

enum anyflash_status af_file_read_input(struct af_arena *arena, const char *path,
                                        size_t max_bytes, struct af_span *content_out,
                                        struct anyflash_error *err)
{
    struct stat facts;
    int fd;
    enum anyflash_status status = open_input(path, &fd, &facts, err);
    return status == ANYFLASH_OK ? read_opened(arena, fd, &facts, input_name(path), max_bytes,
                                               false, content_out, err)
                                 : status;
}

/* The next piece, of length 0 at the end. */
static enum anyflash_status read_piece(int fd, const char *name, char *piece, size_t *len_out,
                                       struct anyflash_error *err)
{
    ssize_t got;
    do
        got = read(fd, piece, PIECE_BYTES);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return af_file_fail_errno(err, "read", name, errno);
    *len_out = (size_t)got;
    return ANYFLASH_OK;
}

/* Reads what was opened as `fd` in pieces; `name` is for messages. */
static enum anyflash_status read_pieces(int fd, const char *name, uint64_t max_bytes,
                                        af_file_take *take, void *context,
                                        struct anyflash_error *err)
{
    uint64_t total = 0;
    size_t len = 1;
    char *piece = af_memory_alloc(PIECE_BYTES);
    enum anyflash_status status = ANYFLASH_OK;
    while (status == ANYFLASH_OK && len > 0) {
        status = read_piece(fd, name, piece, &len, err);
        if (status != ANYFLASH_OK || len == 0)
            break;
        take(context, piece, len);
        total += len;
        if (total > max_bytes)
            status = fail_large(err, name, max_bytes);
    }
    af_memory_free(piece);
    return status;
}

enum anyflash_status af_file_read_pieces(const char *path, af_file_take *take, void *context,
                                         struct anyflash_error *err)
{
    struct stat facts;
    int fd;
    enum anyflash_status status = open_regular(path, &fd, &facts, err);
    if (status != ANYFLASH_OK)
        return status;
    status = read_pieces(fd, path, UINT64_MAX, take, context, err);
    close(fd);
    return status;
}

enum anyflash_status af_file_read_input_pieces(const char *path, uint64_t max_stream_bytes,
                                               af_file_take *take, void *context,
                                               struct anyflash_error *err)
{
    struct stat facts;
    int fd;
    enum anyflash_status status = open_input(path, &fd, &facts, err);
    if (status != ANYFLASH_OK)
        return status;
    uint64_t max_bytes = S_ISREG(facts.st_mode) ? UINT64_MAX : max_stream_bytes;
    status = read_pieces(fd, input_name(path), max_bytes, take, context, err);
    close(fd);
    return status;
}

enum anyflash_status af_file_map(const char *path, struct af_mapping *mapping_out,
                                 struct anyflash_error *err)
{
    struct stat facts;
    int fd;
    enum anyflash_status status = open_regular(path, &fd, &facts, err);
    if (status != ANYFLASH_OK)
        return status;
    void *data = NULL;
    if (facts.st_size > 0)
        data = mmap(NULL, (size_t)facts.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    int number = errno;
    close(fd);
    if (data == MAP_FAILED)
        return af_file_fail_errno(err, "map", path, number);
    *mapping_out = (struct af_mapping){data, (size_t)facts.st_size};
    return ANYFLASH_OK;
}

void af_file_unmap(struct af_mapping *mapping)
{
    if (mapping->data != NULL)
        munmap((void *)(uintptr_t)mapping->data, mapping->len);
    *mapping = (struct af_mapping){NULL, 0};
}

bool af_file_exists(const char *path)
{
    struct stat facts;
    return stat(path, &facts) == 0;
}

bool af_file_is_absent(const char *path)
{
    struct stat facts;
    return lstat(path, &facts) != 0 && (errno == ENOENT || errno == ENOTDIR);
}

bool af_file_is_regular(const char *path)
{
    struct stat facts;
    return stat(path, &facts) == 0 && S_ISREG(facts.st_mode);
}

bool af_file_is_folder(const char *path)
{
    struct stat facts;
    return stat(path, &facts) == 0 && S_ISDIR(facts.st_mode);
}

bool af_file_is_link(const char *path)
{
    struct stat facts;
    return lstat(path, &facts) == 0 && S_ISLNK(facts.st_mode);
}

bool af_file_is_executable(const char *path)
{
    return af_file_is_regular(path) && access(path, X_OK) == 0;
}

const char *af_file_real_path(struct af_arena *arena, const char *path)
{
    char *found = path == NULL ? NULL : realpath(path, NULL);
    const char *copy = af_arena_text(arena, found);
    free(found);
    return copy;
}

const char *af_file_find(struct af_arena *arena, const char *folder, const char *name,
                         bool upwards)
{
    folder = af_file_real_path(arena, folder);
    for (int i = 0; folder != NULL && i < FOLDERS_MAX; i++) {
        const char *path = af_path_join(arena, folder, name);
        if (af_file_is_regular(path))
            return path;
        if (!upwards || strcmp(folder, "/") == 0)
            return NULL;
        folder = af_path_folder(arena, folder);
    }
    return NULL;
}

const char *af_file_link_text(struct af_arena *arena, const char *path)
{
    char buffer[4096];
    ssize_t len = readlink(path, buffer, sizeof buffer);
    return len <= 0 ? NULL : af_arena_text_n(arena, buffer, (size_t)len);
}

/* A hash that grows piece by piece. */
struct hashing {
    struct af_sha256 hash;
    uint64_t size_bytes;
};

static void hash_piece(void *context, const char *bytes, size_t len)
{
    struct hashing *hashing = context;
    af_sha256_add(&hashing->hash, bytes, len);
    hashing->size_bytes += len;
}

enum anyflash_status af_file_sha256_fd(int fd, const char *name, char hex[AF_SHA256_HEX_BYTES],
                                       uint64_t *size_out, struct anyflash_error *err)
{
    struct hashing hashing = {.size_bytes = 0};
    af_sha256_init(&hashing.hash);
    enum anyflash_status status = read_pieces(fd, name, UINT64_MAX, hash_piece, &hashing, err);
    if (status != ANYFLASH_OK)
        return status;
    af_sha256_finish(&hashing.hash, hex);
    if (size_out != NULL)
        *size_out = hashing.size_bytes;
    return ANYFLASH_OK;
}

enum anyflash_status af_file_sha256(const char *path, char hex[AF_SHA256_HEX_BYTES],
                                    uint64_t *size_out, struct anyflash_error *err)
{
    struct stat about;
    int fd;
    enum anyflash_status status = open_regular(path, &fd, &about, err);
    if (status != ANYFLASH_OK)
        return status;
    status = af_file_sha256_fd(fd, path, hex, size_out, err);
    close(fd);
    return status;
}

enum anyflash_status af_file_read_json(const char *path, size_t max_bytes, json_t **json_out,
                                       struct anyflash_error *err)
{
    struct af_arena arena;
    struct af_span bytes;
    af_arena_init(&arena);
    enum anyflash_status status = af_file_read(&arena, path, max_bytes, &bytes, err);
    if (status == ANYFLASH_OK)
        status = af_json_parse(bytes, max_bytes, path, json_out, err);
    af_arena_release(&arena);
    return status;
}
