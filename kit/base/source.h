/*
 * source.h: random access to bytes wherever they are: in memory, in a file
 * (system/file_source.h) or at an address that is read in parts (proof/remote.h).
 * Functions that read parts of something large take a source; the caller opens
 * and closes it.
 *
 * A source serves one thread at a time.
 */
#ifndef AF_KIT_BASE_SOURCE_H
#define AF_KIT_BASE_SOURCE_H

#include "engine/base/base.h"

/*
 * Use af_source_read() and af_source_close(), not the members. Implementations
 * fill in everything; `close` may be NULL.
 */
struct af_source {
    uint64_t size_bytes;
    const char *name; /* for errors, scrubbed; lives as long as the source */
    enum anyflash_status (*read_at)(struct af_source *source, uint64_t offset, void *to,
                                    size_t len, struct anyflash_error *err);
    void (*close)(struct af_source *source);
    uint64_t
        bytes_read; /* fetched so far from where the bytes are: the price of what was asked */
    void *context;  /* the implementation's own */
};

/*
 * A source over borrowed bytes, which must outlive it, as must `name`, scrubbed
 * already.
 */
void af_source_of_bytes(struct af_span bytes, const char *name, struct af_source *source_out);

/*
 * All of the `len` bytes at `offset` into `to`. Fails with DATA when they are
 * not within the source, else as the implementation does (IO, TIMEOUT, ...).
 */
enum anyflash_status af_source_read(struct af_source *source, uint64_t offset, void *to,
                                    size_t len, struct anyflash_error *err);

/* Releases it; a zero-initialised source and a closed one are nothing to close. */
void af_source_close(struct af_source *source);

#endif
