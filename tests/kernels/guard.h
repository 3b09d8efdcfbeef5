/*
 * guard.h: memory between two inaccessible pages, so that a read or write past
 * a tensor ends the test at once. The bytes either start right after the first
 * guard page or end right before the last one.
 */
#ifndef AF_TEST_GUARD_H
#define AF_TEST_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

struct guard {
    char *pages; /* the first guard page */
    size_t pages_bytes;
    char *bytes;
    size_t size_bytes;
};

/* Fails the test if the system has no memory. */
static inline struct guard guard_new(size_t size_bytes, bool at_end)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t inner = (size_bytes + page - 1) / page * page;
    struct guard guard = {.pages_bytes = inner + 2 * page, .size_bytes = size_bytes};
    void *pages = mmap(NULL, guard.pages_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        fail_msg("no memory for a tensor");
    guard.pages = pages;
    if (inner > 0 && mprotect(guard.pages + page, inner, PROT_READ | PROT_WRITE) != 0)
        fail_msg("no memory for a tensor");
    guard.bytes = guard.pages + page + (at_end ? inner - size_bytes : 0);
    return guard;
}

/* Makes the bytes read-only. */
static inline void guard_freeze(const struct guard *guard)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (guard->pages_bytes > 2 * page)
        mprotect(guard->pages + page, guard->pages_bytes - 2 * page, PROT_READ);
}

static inline void guard_free(struct guard *guard)
{
    munmap(guard->pages, guard->pages_bytes);
}

#endif
