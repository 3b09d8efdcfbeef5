/*
 * file_source.c: a source (kit/base/source.h) over a regular file.
 */
#include "kit/system/file_source.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/mem.h"
#include "kit/base/text.h"

#define SHOWN_BYTES 300

struct file_source {
    int fd;
    char name[SHOWN_BYTES];
};

static enum anyflash_status read_file(struct af_source *source, uint64_t offset, void *to,
                                      size_t len, struct anyflash_error *err)
{
    const struct file_source *file = source->context;
    for (size_t done = 0; done < len;) {
        ssize_t got =
            pread(file->fd, (char *)to + done, len - done, (off_t)(offset + (uint64_t)done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return af_fail(err, ANYFLASH_E_IO, "cannot read '%s': %s", file->name,
                           strerror(errno));
        if (got == 0)
            return af_fail(err, ANYFLASH_E_DATA, "'%s' became shorter while it was read",
                           file->name);
        done += (size_t)got;
    }
    source->bytes_read += len;
    return ANYFLASH_OK;
}

static void close_file(struct af_source *source)
{
    struct file_source *file = source->context;
    close(file->fd);
    af_mem_free(file);
}

enum anyflash_status af_file_source_open(const char *path, struct af_source *source_out,
                                         struct anyflash_error *err)
{
    char shown[SHOWN_BYTES];
    struct stat about;
    af_text_quote(shown, sizeof shown, path, strlen(path));
    /* O_NONBLOCK: a FIFO must not block here; it is refused below. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return af_fail(err, errno == ENOENT ? ANYFLASH_E_NOT_FOUND : ANYFLASH_E_IO,
                       "cannot open '%s': %s", shown, strerror(errno));
    if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode)) {
        close(fd);
        return af_fail(err, ANYFLASH_E_IO, "'%s' is not a regular file", shown);
    }
    struct file_source *file = af_mem_alloc(sizeof *file);
    if (file == NULL) {
        close(fd);
        return af_fail_memory(err);
    }
    file->fd = fd;
    memcpy(file->name, shown, sizeof shown);
    *source_out = (struct af_source){.size_bytes = (uint64_t)about.st_size,
                                     .name = file->name,
                                     .read_at = read_file,
                                     .close = close_file,
                                     .context = file};
    return ANYFLASH_OK;
}
