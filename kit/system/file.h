/*
 * file.h: reading files and folders that may be hostile, with bounded sizes; hashes and JSON of
 * files.
 *
 * Only regular files are read (a FIFO or device never blocks the program), except for inputs:
 * paths that the user named, which may be pipes, as in `-m <(ssh node anyflash machine)`. Sizes
 * are limited; the kernel follows links, and fails with ELOOP for too many. Writing is in
 * output.h.
 */
#ifndef AF_KIT_SYSTEM_FILE_H
#define AF_KIT_SYSTEM_FILE_H

#include "engine/base/base.h"
#include "kit/base/json.h"
#include "kit/base/memory.h"
#include "kit/base/sha256.h"
#include "kit/base/text.h"

/*
 * Reads a whole regular file of at most `max_bytes` into the arena, followed by a NUL. Fails
 * with NOT_FOUND (no such file), IO (any other system error, not a regular file) or LIMIT
 * (larger than max_bytes); the message names the path. Files of /proc and /sys, whose size is
 * reported as 0, are read to their end.
 */
enum anyflash_status af_file_read(struct af_arena *arena, const char *path, size_t max_bytes,
                                  struct af_span *content_out, struct anyflash_error *err);

/* As af_file_read(), but reads only the first `max_bytes` of a larger file. */
enum anyflash_status af_file_read_start(struct af_arena *arena, const char *path,
                                        size_t max_bytes, struct af_span *content_out,
                                        struct anyflash_error *err);

/*
 * As af_file_read(), but also reads a pipe or a character device to its end or to max_bytes,
 * and waits for what it delivers; "-" is standard input. For paths that the user named.
 */
enum anyflash_status af_file_read_input(struct af_arena *arena, const char *path,
                                        size_t max_bytes, struct af_span *content_out,
                                        struct anyflash_error *err);

/* Receives the next bytes of a file. */
typedef void af_file_take(void *context, const char *bytes, size_t len);

/* Reads a regular file of any size in pieces and constant memory. Fails as af_file_read(). */
enum anyflash_status af_file_read_pieces(const char *path, af_file_take *take, void *context,
                                         struct anyflash_error *err);

/*
 * As af_file_read_pieces(), but reads an input. Of anything but a regular file it reads at most
 * about `max_stream_bytes`, because it may have no end, and then fails with LIMIT.
 */
enum anyflash_status af_file_read_input_pieces(const char *path, uint64_t max_stream_bytes,
                                               af_file_take *take, void *context,
                                               struct anyflash_error *err);

/*
 * Maps a regular file read-only. Release with af_file_unmap(), which does nothing for a
 * zero-initialised mapping. If the file is truncated while it is mapped, reading raises SIGBUS:
 * use this for binaries and wheels only, not for files that others may be writing.
 */
struct af_mapping {
    const unsigned char *data;
    size_t len;
};
static inline struct af_span af_mapping_bytes(const struct af_mapping *mapping)
{
    return (struct af_span){(const char *)mapping->data, mapping->len};
}
enum anyflash_status af_file_map(const char *path, struct af_mapping *mapping_out,
                                 struct anyflash_error *err);
void af_file_unmap(struct af_mapping *mapping);

bool af_file_exists(const char *path);        /* follows links; any file type */
bool af_file_is_absent(const char *path);     /* certainly does not exist: no link, no error */
bool af_file_is_regular(const char *path);    /* follows links */
bool af_file_is_folder(const char *path);     /* follows links */
bool af_file_is_link(const char *path);       /* does not follow links */
bool af_file_is_executable(const char *path); /* a regular file that we may execute */

/*
 * Fails with IO if another user owns what is at `path` or may write to it: it is then not to
 * be obeyed. The message names `variable`, which chooses another folder. What does not exist is
 * accepted.
 */
enum anyflash_status af_file_check_owner(const char *path, const char *variable,
                                         struct anyflash_error *err);

/*
 * The same for a folder with programs that are run, which may not exist yet: nor may another
 * user than root own a folder above it, or everybody write there.
 */
enum anyflash_status af_file_check_owners(struct af_arena *arena, const char *folder,
                                          const char *variable, struct anyflash_error *err);

/* realpath(3), or NULL when it fails (dangling, loop, no permission). */
const char *af_file_real_path(struct af_arena *arena, const char *path);

/*
 * The path of the regular file `name` in `folder`, or (`upwards`) in the nearest of at most 64
 * folders above it; NULL: not found.
 */
const char *af_file_find(struct af_arena *arena, const char *folder, const char *name,
                         bool upwards);

/* The target of a symbolic link, or NULL. */
const char *af_file_link_text(struct af_arena *arena, const char *path);

/* Texts in a list that grows on the heap. Empty when zero-initialised. */
struct af_file_names {
    const char **items; /* release with af_memory_free() */
    size_t count;
    size_t capacity;
};

/* Adds `name` to the end. */
void af_file_names_add(struct af_file_names *names, const char *name);

/*
 * Names in a folder without "." and "..", sorted by bytes, at most `max_count`. If there are
 * more, they are left out and *cut_out (unless NULL) becomes true. Fails as af_file_read()
 * does.
 */
enum anyflash_status af_folder_list(struct af_arena *arena, const char *folder,
                                    size_t max_count, const char ***names_out,
                                    size_t *count_out, bool *cut_out,
                                    struct anyflash_error *err);

/*
 * The hash of a regular file, read in pieces; *size_out, unless NULL, becomes
 * its size. Fails with NOT_FOUND or IO, naming the path.
 */
enum anyflash_status af_file_sha256(const char *path, char hex[AF_SHA256_HEX_BYTES],
                                    uint64_t *size_out, struct anyflash_error *err);

/* As af_file_sha256(), from the position of `fd` to its end; `name` is for errors. */
enum anyflash_status af_file_sha256_fd(int fd, const char *name, char hex[AF_SHA256_HEX_BYTES],
                                       uint64_t *size_out, struct anyflash_error *err);

/* af_file_read() and af_json_parse(). */
enum anyflash_status af_file_read_json(const char *path, size_t max_bytes, json_t **json_out,
                                       struct anyflash_error *err);

/*
 * Fails with NOT_FOUND or IO, "cannot WHAT 'PATH': REASON", where `number` is an errno. Private
 * to file.c and folder_list.c.
 */
enum anyflash_status af_file_fail_errno(struct anyflash_error *err, const char *what,
                                        const char *path, int number);

#endif
