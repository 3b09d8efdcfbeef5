/*
 * source.h: random access to bytes in memory or in a file (system/file.h). Functions that read
 * parts of something large take a source; the caller opens and closes it.
 *
 * Only one thread at a time may use a source.
 */
#ifndef AF_KIT_BASE_SOURCE_H
#define AF_KIT_BASE_SOURCE_H

#include "engine/base/base.h"

/*
 * Callers use af_source_read() and af_source_close(), not the members. An
 * implementation sets every member; `close` may be NULL.
 */
struct af_source {
    uint64_t size_bytes;
    const char *name; /* for errors, scrubbed; lives as long as the source */
    enum anyflash_status (*read_at)(struct af_source *source, uint64_t offset, void *to,
                                    size_t len, struct anyflash_error *err);
    void (*close)(struct af_source *source);
    uint64_t bytes_read; /* bytes fetched from the underlying storage so far */
    void *context;       /* the implementation's own */
};

/*
 * Makes a source over borrowed bytes. The bytes and `name`, which must be
 * scrubbed already, must outlive it.
 */
void af_source_of_bytes(struct af_span bytes, const char *name, struct af_source *source_out);

/*
 * Reads `len` bytes at `offset` into `to`. Fails with DATA when the range is not
 * within the source, else as the implementation does (IO, TIMEOUT, ...).
 */
enum anyflash_status af_source_read(struct af_source *source, uint64_t offset, void *to,
                                    size_t len, struct anyflash_error *err);

/* Closes the source. Does nothing if it is zero-initialised or closed already. */
void af_source_close(struct af_source *source);

#endif
