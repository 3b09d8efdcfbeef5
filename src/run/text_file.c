/*
 * text_file.c: used for direct_url.json, RECORD and saved plans.
 */
#include "run/text_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum anyflash_status af_text_file_write(struct af_arena *arena, const char *path,
                                        const char *text, struct anyflash_error *err)
{
    const char *part = af_arena_format(arena, "%s.part", path);
    if (part == NULL)
        return af_fail_memory(err);
    int fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    bool good = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    int number = errno;
    if (fd >= 0)
        good = close(fd) == 0 && good;
    if (good && rename(part, path) == 0)
        return ANYFLASH_OK;
    number = good ? errno : number;
    unlink(part);
    return af_fail(err, ANYFLASH_E_IO, "cannot write '%s': %s", path, strerror(number));
}
