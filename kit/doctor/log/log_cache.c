/*
 * log_cache.c: a ring of entries of different lengths, and a table that leads from
 * a line's hash to its latest entry. An entry is gone once the ring has been
 * written past it; the table may still lead there, so places are never reused.
 */
#include "kit/doctor/log/log_cache.h"

#include <string.h>

#define TAG_BITS 16
#define RING_BYTES ((uint64_t)AF_LOG_CACHE_CHUNK_BYTES * AF_LOG_CACHE_CHUNKS)

/* Followed by the folded text, padded to a multiple of 4 bytes, and the candidates. */
struct entry {
    uint32_t len;
    uint32_t joint;
    uint32_t begins;
};

static size_t padded(size_t len)
{
    return (len + 3) / 4 * 4;
}

/* Eight bytes at a time. Equal hashes of different lines only cost time. */
static uint64_t hash_of(const struct af_log_line *line)
{
    const uint64_t factor = UINT64_C(0x9E3779B97F4A7C15);
    uint64_t hash = line->len ^ (uint64_t)line->joint << 32;
    for (size_t at = 0; at < line->len; at += 8) {
        uint64_t word = 0;
        memcpy(&word, line->folded + at, line->len - at < 8 ? line->len - at : 8);
        hash = (hash ^ word) * factor;
        hash ^= hash >> 32;
    }
    return hash;
}

/* What a slot holds: where the entry is, and the bits of the hash that are not in the slot's
   number. */
static uint64_t slot_value(uint64_t hash, uint64_t place)
{
    return (place + 1) << TAG_BITS | hash >> (64 - TAG_BITS);
}

/* The memory at a place in the ring. */
static unsigned char *memory_at(const struct af_log_cache *cache, uint64_t place)
{
    uint64_t offset = place % RING_BYTES;
    return cache->chunks[offset / AF_LOG_CACHE_CHUNK_BYTES] + offset % AF_LOG_CACHE_CHUNK_BYTES;
}

/* The two slots in which the line may be. */
static uint64_t *pair_of(const struct af_log_cache *cache, uint64_t hash)
{
    return cache->slots + hash % (AF_LOG_CACHE_SLOTS / 2) * 2;
}

/* What the slot holds for the line; NULL: nothing. */
static struct af_log_candidates *look_in(const struct af_log_cache *cache, uint64_t slot,
                                         uint64_t hash, const struct af_log_line *line)
{
    uint64_t place = (slot >> TAG_BITS) - 1;
    if (slot == 0 || slot != slot_value(hash, place) || place + RING_BYTES < cache->written)
        return NULL;
    unsigned char *memory = memory_at(cache, place);
    struct entry entry;
    memcpy(&entry, memory, sizeof entry);
    memory += sizeof entry;
    if (entry.len != line->len || entry.joint != line->joint ||
        entry.begins != (line->begins ? 1 : 0) || memcmp(memory, line->folded, line->len) != 0)
        return NULL;
    return (struct af_log_candidates *)(void *)(memory + padded(line->len));
}

struct af_log_candidates *af_log_cache_find(const struct af_log_cache *cache,
                                            const struct af_log_line *line)
{
    if (cache->slots == NULL)
        return NULL;
    uint64_t hash = hash_of(line);
    const uint64_t *pair = pair_of(cache, hash);
    struct af_log_candidates *found = look_in(cache, pair[0], hash, line);
    return found != NULL ? found : look_in(cache, pair[1], hash, line);
}

/* Makes a place with `size` bytes in one chunk, over the oldest entries. */
static void make_room(struct af_log_cache *cache, size_t size, struct af_arena *arena)
{
    uint64_t used = cache->written % AF_LOG_CACHE_CHUNK_BYTES;
    if (used + size > AF_LOG_CACHE_CHUNK_BYTES)
        cache->written += AF_LOG_CACHE_CHUNK_BYTES - used;
    size_t index = (size_t)(cache->written % RING_BYTES / AF_LOG_CACHE_CHUNK_BYTES);
    if (cache->slots == NULL)
        cache->slots = af_arena_array(arena, AF_LOG_CACHE_SLOTS, sizeof *cache->slots);
    if (cache->chunks[index] == NULL)
        cache->chunks[index] = af_arena_alloc(arena, AF_LOG_CACHE_CHUNK_BYTES);
}

struct af_log_candidates *af_log_cache_add(struct af_log_cache *cache,
                                           const struct af_log_line *line,
                                           const struct af_log_candidates *candidates,
                                           struct af_arena *arena)
{
    struct entry entry = {(uint32_t)line->len, (uint32_t)line->joint, line->begins ? 1 : 0};
    size_t rows = sizeof *candidates + candidates->count * sizeof *candidates->rows;
    size_t size = sizeof entry + padded(line->len) + rows;
    if (size > AF_LOG_CACHE_CHUNK_BYTES)
        return NULL;
    make_room(cache, size, arena);
    unsigned char *memory = memory_at(cache, cache->written);
    uint64_t hash = hash_of(line);
    uint64_t *pair = pair_of(cache, hash);
    pair[pair[0] <= pair[1] ? 0 : 1] = slot_value(hash, cache->written); /* the older one */
    cache->written += size;
    memcpy(memory, &entry, sizeof entry);
    memcpy(memory + sizeof entry, line->folded, line->len);
    memory += sizeof entry + padded(line->len);
    memcpy(memory, candidates, rows);
    return (struct af_log_candidates *)(void *)memory;
}
