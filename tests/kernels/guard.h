/*
 * guard.h: memory between two inaccessible pages, so that a read or write past
 * a tensor ends the test at once. The bytes either start right after the first
 * guard page or end right before the last one.
 */
#ifndef AF_TEST_GUARD_H
#define AF_TEST_GUARD_H

#include <stdbool.h>
#include <stddef.h>

#ifdef _WIN32
#include <windows.h>
#else
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
#endif

struct guard {
    char *pages; /* the first guard page */
    size_t pages_bytes;
    char *bytes;
    size_t size_bytes;
};

#ifdef _WIN32
static inline size_t guard_page_bytes(void)
{
    return 4096; /* on x86-64 */
}

/* Inaccessible pages; NULL if the system has no memory. */
static inline void *guard_map(size_t bytes)
{
    return VirtualAlloc(NULL, bytes, MEM_RESERVE | MEM_COMMIT, PAGE_NOACCESS);
}

static inline bool guard_protect(char *pages, size_t bytes, bool writable)
{
    DWORD before;
    return VirtualProtect(pages, bytes, writable ? PAGE_READWRITE : PAGE_READONLY, &before);
}

static inline void guard_free(struct guard *guard)
{
    VirtualFree(guard->pages, 0, MEM_RELEASE);
}

#else
static inline size_t guard_page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* Inaccessible pages; NULL if the system has no memory. */
static inline void *guard_map(size_t bytes)
{
    void *pages = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return pages == MAP_FAILED ? NULL : pages;
}

static inline bool guard_protect(char *pages, size_t bytes, bool writable)
{
    return mprotect(pages, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ) == 0;
}

/*
 * Lets a fault end the program. cmocka would jump to the next test, out of a call that holds
 * the context's lock, and that test would wait for it forever.
 */
static inline void guard_end_at_fault(void)
{
    fflush(stdout); /* has the name of the test */
    signal(SIGSEGV, SIG_DFL);
    signal(SIGBUS, SIG_DFL);
}

static inline void guard_free(struct guard *guard)
{
    munmap(guard->pages, guard->pages_bytes);
}

#endif

/* Fails the test if the system has no memory. */
static inline struct guard guard_new(size_t size_bytes, bool at_end)
{
    const size_t page = guard_page_bytes();
    const size_t inner = (size_bytes + page - 1) / page * page;
    struct guard guard = {.pages_bytes = inner + 2 * page, .size_bytes = size_bytes};
#ifndef _WIN32
    guard_end_at_fault();
#endif
    guard.pages = guard_map(guard.pages_bytes);
    if (guard.pages == NULL || (inner > 0 && !guard_protect(guard.pages + page, inner, true)))
        fail_msg("no memory for a tensor");
    guard.bytes = guard.pages + page + (at_end ? inner - size_bytes : 0);
    return guard;
}

/* Makes the bytes read-only. */
static inline void guard_freeze(const struct guard *guard)
{
    const size_t page = guard_page_bytes();
    if (guard->pages_bytes > 2 * page)
        guard_protect(guard->pages + page, guard->pages_bytes - 2 * page, false);
}

#endif
