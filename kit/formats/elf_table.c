/*
 * elf_table.c: section and segment headers of an ELF file, one at a time.
 * Called by the readers of GPU code, which look for a few parts of files that
 * are too large to be mapped for that.
 */
#include "kit/formats/elf_table.h"

#include "kit/formats/little.h"

#include <string.h>

#define HEADER_BYTES 64u
#define SECTION_BYTES 64u
#define SEGMENT_BYTES 56u
#define COUNT_MAX 4000000u /* a cubin may have a handful of sections for each kernel */
#define NAME_MAX_BYTES 32u

/* How many entries of `entry_bytes` fit between `at` and the end, at most `count`. */
static uint32_t fitting(const struct af_elf_table *table, uint64_t at, uint64_t count,
                        uint64_t entry_bytes)
{
    if (at == 0 || at > table->len)
        return 0;
    uint64_t capacity = (table->len - at) / entry_bytes;
    uint64_t fits = count < capacity ? count : capacity;
    return (uint32_t)(fits < COUNT_MAX ? fits : COUNT_MAX);
}

static bool is_inside(const struct af_elf_table *table, uint64_t offset, uint64_t len)
{
    return offset <= table->len && len <= table->len - offset;
}

static enum anyflash_status read_entry(const struct af_elf_table *table, uint64_t at,
                                       uint32_t index, size_t entry_bytes, unsigned char *entry,
                                       struct anyflash_error *err)
{
    return af_source_read(table->source, table->base + at + (uint64_t)index * entry_bytes,
                          entry, entry_bytes, err);
}

/*
 * Counts that do not fit the header's 16 bits stand in section 0: its size is
 * the number of sections, its link the index of the names.
 */
static enum anyflash_status read_large_counts(struct af_elf_table *table, unsigned count,
                                              unsigned names, struct anyflash_error *err)
{
    unsigned char zero[SECTION_BYTES];
    table->section_count = fitting(table, table->sections_at, count, SECTION_BYTES);
    table->names_index = names;
    if (fitting(table, table->sections_at, 1, SECTION_BYTES) == 0 ||
        (count != 0 && names != 0xffff))
        return ANYFLASH_OK;
    enum anyflash_status status =
        read_entry(table, table->sections_at, 0, sizeof zero, zero, err);
    if (status != ANYFLASH_OK)
        return status;
    if (count == 0)
        table->section_count =
            fitting(table, table->sections_at, af_le64(zero + 32), SECTION_BYTES);
    if (names == 0xffff)
        table->names_index = af_le32(zero + 40);
    return ANYFLASH_OK;
}

enum anyflash_status af_elf_table_open(struct af_source *source, uint64_t base, uint64_t len,
                                       struct af_elf_table *table_out,
                                       struct anyflash_error *err)
{
    static const unsigned char magic[6] = {0x7f, 'E', 'L', 'F', 2 /* 64 bit */, 1 /* little */};
    unsigned char header[HEADER_BYTES];
    struct af_elf_table table = {.source = source, .base = base, .len = len};
    if (len < sizeof header)
        return af_fail(err, ANYFLASH_E_DATA, "'%s' is not an ELF file", source->name);
    enum anyflash_status status = af_source_read(source, base, header, sizeof header, err);
    if (status != ANYFLASH_OK)
        return status;
    if (memcmp(header, magic, sizeof magic) != 0)
        return af_fail(err, ANYFLASH_E_DATA, "'%s' is not a 64-bit little-endian ELF file",
                       source->name);
    table.machine = af_le16(header + 18);
    if (af_le16(header + 54) == SEGMENT_BYTES) {
        table.segments_at = af_le64(header + 32);
        table.segment_count =
            fitting(&table, table.segments_at, af_le16(header + 56), SEGMENT_BYTES);
    }
    if (af_le16(header + 58) == SECTION_BYTES) {
        table.sections_at = af_le64(header + 40);
        status = read_large_counts(&table, af_le16(header + 60), af_le16(header + 62), err);
    }
    if (status == ANYFLASH_OK)
        *table_out = table;
    return status;
}

enum anyflash_status af_elf_table_section(const struct af_elf_table *table, uint32_t index,
                                          struct af_elf_part *part_out, bool *found_out,
                                          struct anyflash_error *err)
{
    unsigned char entry[SECTION_BYTES];
    *found_out = false;
    if (index >= table->section_count)
        return ANYFLASH_OK;
    enum anyflash_status status =
        read_entry(table, table->sections_at, index, sizeof entry, entry, err);
    if (status != ANYFLASH_OK)
        return status;
    uint64_t offset = af_le64(entry + 24);
    *part_out = (struct af_elf_part){.name = af_le32(entry),
                                     .type = af_le32(entry + 4),
                                     .link = af_le32(entry + 40),
                                     .len = af_le64(entry + 32)};
    *found_out =
        part_out->type != AF_ELF_TYPE_NOBITS && is_inside(table, offset, part_out->len);
    part_out->offset = *found_out ? table->base + offset : 0;
    return ANYFLASH_OK;
}

enum anyflash_status af_elf_table_segment(const struct af_elf_table *table, uint32_t index,
                                          struct af_elf_part *part_out, bool *found_out,
                                          struct anyflash_error *err)
{
    unsigned char entry[SEGMENT_BYTES];
    *found_out = false;
    if (index >= table->segment_count)
        return ANYFLASH_OK;
    enum anyflash_status status =
        read_entry(table, table->segments_at, index, sizeof entry, entry, err);
    if (status != ANYFLASH_OK)
        return status;
    uint64_t offset = af_le64(entry + 8);
    *part_out = (struct af_elf_part){.type = af_le32(entry), .len = af_le64(entry + 32)};
    *found_out = is_inside(table, offset, part_out->len);
    part_out->offset = *found_out ? table->base + offset : 0;
    return ANYFLASH_OK;
}

enum anyflash_status af_elf_table_named(const struct af_elf_table *table,
                                        const struct af_elf_part *section, const char *name,
                                        bool *same_out, struct anyflash_error *err)
{
    char found[NAME_MAX_BYTES];
    struct af_elf_part names;
    size_t len = strlen(name) + 1;
    bool there;
    *same_out = false;
    enum anyflash_status status =
        af_elf_table_section(table, table->names_index, &names, &there, err);
    if (status != ANYFLASH_OK || !there || len > sizeof found || section->name > names.len ||
        len > names.len - section->name)
        return status;
    status = af_source_read(table->source, names.offset + section->name, found, len, err);
    *same_out = status == ANYFLASH_OK && memcmp(found, name, len) == 0;
    return status;
}
