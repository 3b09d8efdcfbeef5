/*
 * dynamic_tables.h: numbers and texts out of the tables of dynamic.h, checked
 * against their ends. Private to dynamic*.c.
 */
#ifndef AF_KIT_FORMATS_DYNAMIC_TABLES_H
#define AF_KIT_FORMATS_DYNAMIC_TABLES_H

#include <elf.h>

#include "kit/formats/dynamic.h"

#define AF_DYN_SYMBOLS_MAX 16000000u
#define AF_VERSION_INDEX_MASK 0x7fffu
#define AF_VERSION_HIDDEN 0x8000u

static inline bool af_dyn_lies_in(struct af_span span, uint64_t offset, size_t bytes)
{
    return offset <= span.len && bytes <= span.len - offset;
}

/* An unsigned number of 1, 2, 4 or 8 bytes; 0 outside the span. */
static inline uint64_t af_dyn_number_at(const struct af_dynamic *dynamic, struct af_span span,
                                        uint64_t offset, unsigned bytes)
{
    uint64_t number = 0;
    if (!af_dyn_lies_in(span, offset, bytes))
        return 0;
    const unsigned char *at = (const unsigned char *)span.data + offset;
    for (unsigned i = 0; i < bytes; i++)
        number |= (uint64_t)at[i] << 8 * (dynamic->is_little_endian ? i : bytes - 1 - i);
    return number;
}

static inline uint16_t af_dyn_u16_at(const struct af_dynamic *dynamic, struct af_span span,
                                     uint64_t offset)
{
    return (uint16_t)af_dyn_number_at(dynamic, span, offset, 2);
}

static inline uint32_t af_dyn_u32_at(const struct af_dynamic *dynamic, struct af_span span,
                                     uint64_t offset)
{
    return (uint32_t)af_dyn_number_at(dynamic, span, offset, 4);
}

/* An address or size: 4 bytes in a 32 bit file, 8 in a 64 bit one. */
static inline uint64_t af_dyn_word_at(const struct af_dynamic *dynamic, struct af_span span,
                                      uint64_t offset)
{
    return af_dyn_number_at(dynamic, span, offset, dynamic->is_64 ? 8 : 4);
}

static inline size_t af_dyn_symbol_bytes(const struct af_dynamic *dynamic)
{
    return dynamic->is_64 ? sizeof(Elf64_Sym) : sizeof(Elf32_Sym);
}

/* A text of the string table, or NULL. */
static inline const char *af_dyn_text_at(const struct af_dynamic *dynamic, uint64_t offset)
{
    return offset < dynamic->strings.len ? dynamic->strings.data + offset : NULL;
}

/* The parts of a GNU hash table. */
struct af_gnu_table {
    uint32_t bucket_count, first_symbol, bloom_count, bloom_shift;
    uint64_t buckets, chains; /* offsets */
};

static inline bool af_dyn_read_gnu_table(const struct af_dynamic *dynamic,
                                         struct af_gnu_table *table)
{
    struct af_span span = dynamic->gnu_hash;
    if (span.len < 16)
        return false;
    table->bucket_count = af_dyn_u32_at(dynamic, span, 0);
    table->first_symbol = af_dyn_u32_at(dynamic, span, 4);
    table->bloom_count = af_dyn_u32_at(dynamic, span, 8);
    table->bloom_shift = af_dyn_u32_at(dynamic, span, 12);
    table->buckets = 16 + (uint64_t)table->bloom_count * (dynamic->is_64 ? 8 : 4);
    table->chains = table->buckets + 4 * (uint64_t)table->bucket_count;
    return table->bucket_count > 0 && table->chains <= span.len;
}

static inline size_t af_dyn_relocation_bytes(const struct af_dynamic *dynamic, size_t kind)
{
    bool has_addend = kind % 2 == 0;
    if (dynamic->is_64)
        return has_addend ? sizeof(Elf64_Rela) : sizeof(Elf64_Rel);
    return has_addend ? sizeof(Elf32_Rela) : sizeof(Elf32_Rel);
}

/* The symbol that relocation `index` of `kind` names; 0: none. */
static inline size_t af_dyn_relocation_symbol(const struct af_dynamic *dynamic, size_t kind,
                                              size_t index)
{
    uint64_t at = (uint64_t)index * af_dyn_relocation_bytes(dynamic, kind);
    uint64_t info =
        af_dyn_word_at(dynamic, dynamic->relocations[kind], at + (dynamic->is_64 ? 8 : 4));
    return dynamic->is_64 ? (size_t)(info >> 32) : (size_t)(info >> 8);
}

static inline size_t af_dyn_relocation_count(const struct af_dynamic *dynamic, size_t kind)
{
    return dynamic->relocations[kind].len / af_dyn_relocation_bytes(dynamic, kind);
}

/* dynamic.c: magic, class and byte order. */
bool af_dyn_read_header(struct af_dynamic *dynamic);

/* The first PT_LOAD of a 64 bit file as its header says, kept in segments[0]; or NULL. */
const struct af_segment *af_dyn_first_segment(struct af_dynamic *dynamic);

/* One more than the last symbol of the GNU hash table: its last chain's end. */
size_t af_dyn_count_gnu_symbols(const struct af_dynamic *dynamic);

/* Fills `versions` from version_needs and version_defs. */
enum anyflash_status af_dyn_read_versions(struct af_arena *arena, struct af_dynamic *dynamic,
                                          struct anyflash_error *err);

/* dynamic_lookup.c: the hash functions of the two tables. */
uint32_t af_dyn_gnu_hash_of(const char *name);
uint32_t af_dyn_sysv_hash_of(const char *name);

#endif
