/*
 * log_cache.h: remembers which patterns are worth trying on recent lines of a
 * log. Logs repeat themselves: a line that comes again needs neither the search for
 * words nor the patterns that did not match it before.
 *
 * Lines are equal if all their bytes are equal after folding (pattern.h). The
 * memory is bounded: new lines overwrite the oldest.
 */
#ifndef AF_KIT_DOCTOR_LOG_LOG_CACHE_H
#define AF_KIT_DOCTOR_LOG_LOG_CACHE_H

#include "kit/base/memory.h"
#include "kit/doctor/log/log_lines.h"

#define AF_LOG_CACHE_SLOTS 16384u /* a power of two */
#define AF_LOG_CACHE_CHUNK_BYTES (64u * 1024u)
#define AF_LOG_CACHE_CHUNKS 128u

/* Patterns by index. Remove one by moving the rest up and lowering `count`. */
struct af_log_candidates {
    uint32_t count;
    uint32_t rows[];
};

/* Zero it to start. Memory comes from an arena, one chunk at a time. */
struct af_log_cache {
    uint64_t *slots; /* [hash of a line]: its entry, see log_cache.c; 0: none */
    unsigned char *chunks[AF_LOG_CACHE_CHUNKS];
    uint64_t written; /* bytes of entries since the start; places count the same way */
};

/* What is remembered for the line; NULL: it is not a recent one. Valid until the next add. */
struct af_log_candidates *af_log_cache_find(const struct af_log_cache *cache,
                                            const struct af_log_line *line);

/*
 * Remembers `candidates` for a line that find() did not find. Returns the copy in the
 * cache, valid until the next add; NULL if they need more than a chunk.
 */
struct af_log_candidates *af_log_cache_add(struct af_log_cache *cache,
                                           const struct af_log_line *line,
                                           const struct af_log_candidates *candidates,
                                           struct af_arena *arena);

#endif
