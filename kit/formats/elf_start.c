/*
 * elf_start.c: finds the tables of an extension in the first bytes of its file.
 * The dynamic section, which points to them, comes after the code, possibly
 * after hundreds of megabytes of GPU code. The tables are in the first segment,
 * in the order of GNU ld and gold: .gnu.hash, .dynsym, .dynstr, .gnu.version,
 * .gnu.version_r, relocations. Each guess is verified with the hashes of symbol
 * and version names in the tables.
 */
#include <string.h>

#include "kit/formats/elf_tables.h"

#define SEARCH_BYTES 4096u
#define BUCKETS_MAX 200000u
#define RECORDS_MAX 4096u
/* For aarch64, GNU ld puts code and GPU code into the first segment, after the tables. */
#define START_BYTES_MAX (16u << 20)

static struct af_span from(struct af_span span, uint64_t offset)
{
    if (offset >= span.len)
        return (struct af_span){NULL, 0};
    return (struct af_span){span.data + offset, span.len - (size_t)offset};
}

static uint64_t align(uint64_t offset, uint64_t to)
{
    return (offset + to - 1) / to * to;
}

/* Whether .gnu.hash could be at `offset`; if so, sets hash, symbols and strings. */
static bool try_hash(struct af_dynamic *dynamic, uint64_t offset)
{
    struct af_elf_gnu_table table;
    struct af_span file = dynamic->elf.bytes;
    size_t step = af_elf_symbol_bytes(dynamic);
    dynamic->gnu_hash = from(file, offset);
    if (!af_elf_read_gnu_table(dynamic, &table) || table.first_symbol == 0 ||
        table.bucket_count > BUCKETS_MAX || table.bloom_shift > 31 || table.bloom_count == 0 ||
        (table.bloom_count & (table.bloom_count - 1)) != 0)
        return false;
    size_t count = af_elf_count_gnu_symbols(dynamic);
    if (count <= table.first_symbol)
        return false;
    uint64_t symbols = align(offset + table.chains + 4 * (count - table.first_symbol), 8);
    uint64_t strings = symbols + count * (uint64_t)step;
    if (strings >= file.len || file.data[strings] != '\0')
        return false;
    dynamic->symbols = from(file, symbols);
    dynamic->strings = from(file, strings);
    dynamic->symbol_count = count;
    while (dynamic->strings.len > 0 && dynamic->strings.data[dynamic->strings.len - 1] != '\0')
        dynamic->strings.len--;
    /* The table has the hash of each symbol's name; the last one must match. */
    uint32_t name = af_elf_u32_at(dynamic, dynamic->symbols, (count - 1) * step);
    const char *text = af_elf_text_at(dynamic, name);
    uint64_t chain = table.chains + 4 * (uint64_t)(count - 1 - table.first_symbol);
    return text != NULL && name != 0 &&
           (af_elf_gnu_hash_of(text) | 1) ==
               (af_elf_u32_at(dynamic, dynamic->gnu_hash, chain) | 1);
}

/* Bytes of the chain of verneed records at `span`; 0 if there is no valid chain. */
static uint64_t needs_bytes(const struct af_dynamic *dynamic, struct af_span span)
{
    uint64_t at = 0;
    for (size_t i = 0; i < RECORDS_MAX; i++) {
        unsigned ones = af_elf_u16_at(dynamic, span, at + 2);
        uint32_t next = af_elf_u32_at(dynamic, span, at + 12);
        uint64_t bytes = 16 + 16 * (uint64_t)ones;
        if (af_elf_u16_at(dynamic, span, at) != 1 || ones == 0 ||
            af_elf_u32_at(dynamic, span, at + 8) != 16 || (next != 0 && next != bytes) ||
            !af_elf_contains(span, at, (size_t)bytes))
            return 0;
        for (unsigned n = 0; n < ones; n++) {
            uint64_t one = at + 16 + 16 * (uint64_t)n;
            const char *text = af_elf_text_at(dynamic, af_elf_u32_at(dynamic, span, one + 8));
            if (text == NULL || af_elf_sysv_hash_of(text) != af_elf_u32_at(dynamic, span, one))
                return 0;
        }
        at += bytes;
        if (next == 0)
            return at;
    }
    return 0;
}

/* The highest version index that the chain of verneed records assigns. */
static unsigned highest_index(const struct af_dynamic *dynamic, struct af_span needs)
{
    unsigned highest = 1;
    uint64_t at = 0;
    uint32_t next;
    do {
        unsigned ones = af_elf_u16_at(dynamic, needs, at + 2);
        for (unsigned n = 0; n < ones; n++) {
            unsigned index = af_elf_u16_at(dynamic, needs, at + 16 + 16 * (uint64_t)n + 6);
            highest = index > highest ? index : highest;
        }
        next = af_elf_u32_at(dynamic, needs, at + 12);
        at += next;
    } while (next != 0);
    return highest;
}

/*
 * Whether the span is a table of version indices: 0 for the first symbol, all in
 * range, and a nonzero one for each symbol of the hash table, because these are
 * exported. The last condition rejects a wrong offset, where the padding after
 * the indices would count as the last ones.
 */
static bool are_indices(const struct af_dynamic *dynamic, struct af_span span,
                        struct af_span needs)
{
    unsigned highest = highest_index(dynamic, needs);
    struct af_elf_gnu_table table;
    if (af_elf_u16_at(dynamic, span, 0) != 0 || span.data[-1] != '\0' ||
        !af_elf_read_gnu_table(dynamic, &table))
        return false;
    for (size_t i = 1; i < dynamic->symbol_count; i++) {
        unsigned index = af_elf_u16_at(dynamic, span, 2 * (uint64_t)i);
        if ((index & AF_ELF_VERSION_MASK) > highest || (i >= table.first_symbol && index == 0))
            return false;
    }
    return true;
}

/*
 * Finds .gnu.version and .gnu.version_r after the strings; returns their end in
 * the file, or 0.
 */
static uint64_t find_versions(struct af_dynamic *dynamic)
{
    struct af_span file = dynamic->elf.bytes;
    uint64_t strings = (uint64_t)(dynamic->strings.data - file.data);
    uint64_t indices = 2 * (uint64_t)dynamic->symbol_count;
    for (uint64_t at = align(strings + indices, 8); at + 32 <= file.len; at += 8) {
        if (af_elf_u16_at(dynamic, file, at) != 1)
            continue;
        struct af_span needs = from(file, at);
        uint64_t bytes = needs_bytes(dynamic, needs);
        if (bytes == 0)
            continue;
        for (uint64_t pad = 0; pad < 8; pad += 2) {
            struct af_span found = from(file, at - pad - indices);
            if (!are_indices(dynamic, found, needs))
                continue;
            dynamic->version_needs = needs;
            dynamic->version_indices = found;
            dynamic->strings.len = (size_t)(at - pad - indices - strings);
            return at + bytes;
        }
    }
    return 0;
}

/* Collects relocations from `offset` on, as long as they look valid. */
static void find_relocations(struct af_dynamic *dynamic, uint64_t offset)
{
    struct af_span span = from(dynamic->elf.bytes, align(offset, 8));
    size_t step = af_elf_relocation_bytes(dynamic, 0);
    uint64_t at = 0;
    for (; af_elf_contains(span, at, step); at += step) {
        uint64_t info = af_elf_word_at(dynamic, span, at + 8);
        if ((info & 0xffffffffu) == 0 || (info & 0xffffffffu) > 2048 ||
            info >> 32 >= dynamic->symbol_count)
            break;
    }
    span.len = (size_t)at;
    dynamic->relocations[0] = span;
}

/* Collects the library names in the string table, which include the DT_NEEDED names. */
static void find_needed(struct af_dynamic *dynamic, const char *own_name)
{
    const char *at = dynamic->strings.data;
    const char *end = at + dynamic->strings.len;
    while (at < end && dynamic->needed_count < AF_DYNAMIC_NEEDED_MAX) {
        size_t len = strnlen(at, (size_t)(end - at));
        const char *so = len > 5 ? strstr(at, ".so") : NULL;
        if (len < 200 && memchr(at, '/', len) == NULL && so != NULL && so < at + len &&
            (strncmp(at, "lib", 3) == 0 || strncmp(at, "ld-linux", 8) == 0) &&
            (so[3] == '\0' || so[3] == '.') && strcmp(at, own_name) != 0)
            dynamic->needed[dynamic->needed_count++] = at;
        at += len + 1;
    }
}

uint64_t af_dynamic_start_bytes(struct af_span start)
{
    struct af_elf elf;
    struct af_elf_part part;
    if (af_elf_open_bytes(start, "", &elf, NULL) != ANYFLASH_OK || !elf.is_64)
        return 0;
    for (uint32_t i = 0; i < elf.segment_count; i++) {
        if (af_elf_segment(&elf, i, &part, NULL) != ANYFLASH_OK)
            return 0;
        if (part.type == AF_ELF_SEGMENT_LOAD && part.offset == 0)
            return part.len < START_BYTES_MAX ? part.len : START_BYTES_MAX;
        if (part.type == AF_ELF_SEGMENT_LOAD)
            return 0;
    }
    return 0;
}

enum anyflash_status af_dynamic_read_start(struct af_arena *arena, struct af_span start,
                                           const char *name, struct af_dynamic *out,
                                           struct anyflash_error *err)
{
    struct af_dynamic dynamic = {0};
    bool found = false;
    uint64_t end = 0;
    if (af_elf_open_bytes(start, name, &dynamic.elf, NULL) == ANYFLASH_OK &&
        dynamic.elf.is_64) {
        for (uint64_t at = 64; at < SEARCH_BYTES && at < start.len && !found; at += 8)
            found = try_hash(&dynamic, at);
        end = found ? find_versions(&dynamic) : 0;
    }
    if (end == 0)
        return af_fail(err, ANYFLASH_E_UNSUPPORTED,
                       "the beginning of the file does not contain its ELF tables");
    find_relocations(&dynamic, end);
    find_needed(&dynamic, name);
    enum anyflash_status status = af_elf_read_versions(arena, &dynamic, err);
    if (status == ANYFLASH_OK)
        *out = dynamic;
    return status;
}
