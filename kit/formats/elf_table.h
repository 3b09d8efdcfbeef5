/*
 * elf_table.h: where the parts of a 64-bit little-endian ELF file lie, read
 * entry by entry from a source, so that a file of gigabytes or one inside
 * another costs a few small reads. Libraries as a whole: formats/elf.h.
 *
 * Whatever lies outside the file is reported as absent.
 *
 * Source: System V gABI chapter 4 (headers, sections), chapter 5 (segments).
 */
#ifndef AF_KIT_FORMATS_ELF_TABLE_H
#define AF_KIT_FORMATS_ELF_TABLE_H

#include "kit/formats/source.h"

#define AF_ELF_TYPE_SYMTAB 2u
#define AF_ELF_TYPE_NOBITS 8u
#define AF_ELF_SEGMENT_LOAD 1u

struct af_elf_table {
    struct af_source *source;
    uint64_t base; /* of the ELF file within the source */
    uint64_t len;  /* bytes that it may take */
    unsigned machine;
    uint64_t sections_at;   /* from base */
    uint32_t section_count; /* 0: there are no section headers */
    uint32_t names_index;
    uint64_t segments_at;
    uint32_t segment_count;
};

/* A section or a segment; `offset` is one of the source. */
struct af_elf_part {
    uint32_t name; /* sections: where in the table of names */
    uint32_t type;
    uint32_t link;
    uint64_t offset;
    uint64_t len;
};

/*
 * Reads the header of the ELF file at `base`. Fails with DATA when there is
 * none or it is 32-bit or big-endian, and as the source does.
 */
enum anyflash_status af_elf_table_open(struct af_source *source, uint64_t base, uint64_t len,
                                       struct af_elf_table *table_out,
                                       struct anyflash_error *err);

/*
 * Section or segment `index`; *found_out false when it is not there, not in the
 * file or has no bytes there. Fails as the source does.
 */
enum anyflash_status af_elf_table_section(const struct af_elf_table *table, uint32_t index,
                                          struct af_elf_part *part_out, bool *found_out,
                                          struct anyflash_error *err);
enum anyflash_status af_elf_table_segment(const struct af_elf_table *table, uint32_t index,
                                          struct af_elf_part *part_out, bool *found_out,
                                          struct anyflash_error *err);

/* Whether the section's name is `name`, of at most 31 bytes. */
enum anyflash_status af_elf_table_named(const struct af_elf_table *table,
                                        const struct af_elf_part *section, const char *name,
                                        bool *same_out, struct anyflash_error *err);

#endif
