/*
 * ld_cache.c: searches the entries of ld.so.cache once. Numbers have the byte
 * order of the machine that wrote the cache, which is this one.
 */
#include "kit/formats/ld_cache.h"

#include <string.h>

#include "kit/formats/elf.h"

#define ENTRIES_MAX 200000u
#define OLD_HEADER_BYTES 16u
#define OLD_ENTRY_BYTES 12u
#define HEADER_BYTES 48u
#define ENTRY_BYTES 24u
#define KIND_LIBC6 3u
#define KIND_MASK 0xffu
#define ARCH_MASK 0xff00u

static uint32_t u32_at(struct af_span span, size_t offset)
{
    uint32_t number = 0;
    if (offset <= span.len && span.len - offset >= sizeof number)
        memcpy(&number, span.data + offset, sizeof number);
    return number;
}

/* FLAG_X8664_LIB64 and so on; 0 for machines without a flag. */
static uint32_t arch_flag(unsigned machine)
{
    static const struct {
        unsigned machine;
        uint32_t flag;
    } flags[] = {{AF_ELF_X86_64, 0x0300},
                 {AF_ELF_S390, 0x0400},
                 {AF_ELF_PPC64, 0x0500},
                 {AF_ELF_AARCH64, 0x0a00},
                 {AF_ELF_RISCV, 0x1000}};
    for (size_t i = 0; i < AF_COUNT(flags); i++) {
        if (flags[i].machine == machine)
            return flags[i].flag;
    }
    return 0;
}

/* The part in the new format: the whole file, or what follows the old format. */
static struct af_span new_part(struct af_span cache)
{
    static const char old_magic[] = "ld.so-1.7.0";
    size_t at = 0;
    if (cache.len >= OLD_HEADER_BYTES &&
        memcmp(cache.data, old_magic, sizeof old_magic - 1) == 0) {
        size_t bytes = (size_t)u32_at(cache, 12) * OLD_ENTRY_BYTES;
        at = (OLD_HEADER_BYTES + bytes + 7) / 8 * 8;
    }
    if (at > cache.len)
        at = cache.len;
    return (struct af_span){cache.data + at, cache.len - at};
}

/* A text that ends within the span, or NULL. */
static const char *text_at(struct af_span span, size_t offset)
{
    if (offset >= span.len || memchr(span.data + offset, '\0', span.len - offset) == NULL)
        return NULL;
    return span.data + offset;
}

const char *af_ld_cache_find(struct af_span cache, unsigned machine, const char *name)
{
    static const char magic[] = "glibc-ld.so.cache1.1";
    struct af_span part = new_part(cache);
    const char *found = NULL;
    if (part.len < HEADER_BYTES || memcmp(part.data, magic, sizeof magic - 1) != 0)
        return NULL;
    size_t count = u32_at(part, sizeof magic - 1);
    size_t capacity = (part.len - HEADER_BYTES) / ENTRY_BYTES;
    count = count < capacity ? count : capacity;
    for (size_t i = 0; i < count && i < ENTRIES_MAX; i++) {
        size_t at = HEADER_BYTES + i * ENTRY_BYTES;
        uint32_t flags = u32_at(part, at);
        bool plain = u32_at(part, at + 16) == 0 && u32_at(part, at + 20) == 0;
        if ((flags & KIND_MASK) != KIND_LIBC6 || (flags & ARCH_MASK) != arch_flag(machine) ||
            (found != NULL && !plain))
            continue;
        const char *key = text_at(part, u32_at(part, at + 4));
        if (key == NULL || strcmp(key, name) != 0)
            continue;
        found = text_at(part, u32_at(part, at + 8));
        if (plain)
            return found;
    }
    return found;
}
