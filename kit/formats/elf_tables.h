/*
 * elf_tables.h: bounds-checked reading of numbers and texts from the tables of
 * elf.h. Private to elf*.c.
 */
#ifndef AF_KIT_FORMATS_ELF_TABLES_H
#define AF_KIT_FORMATS_ELF_TABLES_H

#include "kit/formats/elf.h"

#define AF_ELF_SYMBOLS_MAX 16000000u
#define AF_ELF_VERSION_MASK 0x7fffu
#define AF_ELF_VERSION_HIDDEN 0x8000u

static inline bool af_elf_contains(struct af_span span, uint64_t offset, size_t bytes)
{
    return offset <= span.len && bytes <= span.len - offset;
}

/* An unsigned number of 1, 2, 4 or 8 bytes; 0 outside the span. */
static inline uint64_t af_elf_number_at(const struct af_elf *elf, struct af_span span,
                                        uint64_t offset, unsigned bytes)
{
    uint64_t number = 0;
    if (!af_elf_contains(span, offset, bytes))
        return 0;
    const unsigned char *at = (const unsigned char *)span.data + offset;
    for (unsigned i = 0; i < bytes; i++)
        number |= (uint64_t)at[i] << 8 * (elf->is_little_endian ? i : bytes - 1 - i);
    return number;
}

static inline uint16_t af_elf_u16_at(const struct af_dynamic *dynamic, struct af_span span,
                                     uint64_t offset)
{
    return (uint16_t)af_elf_number_at(&dynamic->elf, span, offset, 2);
}

static inline uint32_t af_elf_u32_at(const struct af_dynamic *dynamic, struct af_span span,
                                     uint64_t offset)
{
    return (uint32_t)af_elf_number_at(&dynamic->elf, span, offset, 4);
}

/* An address or size: 4 bytes in a 32-bit file, 8 in a 64-bit one. */
static inline uint64_t af_elf_word_at(const struct af_dynamic *dynamic, struct af_span span,
                                      uint64_t offset)
{
    return af_elf_number_at(&dynamic->elf, span, offset, dynamic->elf.is_64 ? 8 : 4);
}

/* sizeof Elf64_Sym, Elf32_Sym */
static inline size_t af_elf_symbol_bytes(const struct af_dynamic *dynamic)
{
    return dynamic->elf.is_64 ? 24 : 16;
}

/* A text in the string table, or NULL. */
static inline const char *af_elf_text_at(const struct af_dynamic *dynamic, uint64_t offset)
{
    return offset < dynamic->strings.len ? dynamic->strings.data + offset : NULL;
}

/* The parts of a GNU hash table. */
struct af_elf_gnu_table {
    uint32_t bucket_count, first_symbol, bloom_count, bloom_shift;
    uint64_t buckets, chains; /* offsets in the table */
};

static inline bool af_elf_read_gnu_table(const struct af_dynamic *dynamic,
                                         struct af_elf_gnu_table *table)
{
    struct af_span span = dynamic->gnu_hash;
    if (span.len < 16)
        return false;
    table->bucket_count = af_elf_u32_at(dynamic, span, 0);
    table->first_symbol = af_elf_u32_at(dynamic, span, 4);
    table->bloom_count = af_elf_u32_at(dynamic, span, 8);
    table->bloom_shift = af_elf_u32_at(dynamic, span, 12);
    table->buckets = 16 + (uint64_t)table->bloom_count * (dynamic->elf.is_64 ? 8 : 4);
    table->chains = table->buckets + 4 * (uint64_t)table->bucket_count;
    return table->bucket_count > 0 && table->chains <= span.len;
}

/*
 * sizeof Elf64_Rela, Elf64_Rel, Elf32_Rela, Elf32_Rel; entries of even kinds
 * have addends.
 */
static inline size_t af_elf_relocation_bytes(const struct af_dynamic *dynamic, size_t kind)
{
    bool has_addend = kind % 2 == 0;
    if (dynamic->elf.is_64)
        return has_addend ? 24 : 16;
    return has_addend ? 12 : 8;
}

#endif
