/*
 * elf.c: headers, sections and segments of an ELF file, one entry at a time.
 * The tables of the dynamic loader are in elf_dynamic.c.
 */
#include "kit/formats/elf.h"

#include <string.h>

#include "kit/base/text.h"
#include "kit/formats/elf_tables.h"

#define HEADER_BYTES_MAX 64u
#define ENTRY_BYTES_MAX 64u
#define COUNT_MAX 4000000u /* a cubin may have several sections per kernel */
#define NAME_BYTES_MAX 32u
#define TYPE_SHARED 3u        /* ET_DYN */
#define SECTION_NOBITS 8u     /* SHT_NOBITS */
#define NAMES_IN_ZERO 0xffffu /* SHN_XINDEX */

/* Offsets and sizes of one class. Source: gABI, "ELF Header" and the tables. */
struct layout {
    unsigned word;
    unsigned header_bytes;
    unsigned phoff, shoff, phentsize, phnum, shentsize, shnum, shstrndx;
    unsigned section_bytes, sh_addr, sh_offset, sh_size, sh_link;
    unsigned segment_bytes, p_offset, p_vaddr, p_filesz;
};

static const struct layout *layout_of(const struct af_elf *elf)
{
    static const struct layout wide = {.word = 8,
                                       .header_bytes = 64,
                                       .phoff = 32,
                                       .shoff = 40,
                                       .phentsize = 54,
                                       .phnum = 56,
                                       .shentsize = 58,
                                       .shnum = 60,
                                       .shstrndx = 62,
                                       .section_bytes = 64,
                                       .sh_addr = 16,
                                       .sh_offset = 24,
                                       .sh_size = 32,
                                       .sh_link = 40,
                                       .segment_bytes = 56,
                                       .p_offset = 8,
                                       .p_vaddr = 16,
                                       .p_filesz = 32};
    static const struct layout narrow = {.word = 4,
                                         .header_bytes = 52,
                                         .phoff = 28,
                                         .shoff = 32,
                                         .phentsize = 42,
                                         .phnum = 44,
                                         .shentsize = 46,
                                         .shnum = 48,
                                         .shstrndx = 50,
                                         .section_bytes = 40,
                                         .sh_addr = 12,
                                         .sh_offset = 16,
                                         .sh_size = 20,
                                         .sh_link = 24,
                                         .segment_bytes = 32,
                                         .p_offset = 4,
                                         .p_vaddr = 8,
                                         .p_filesz = 16};
    return elf->is_64 ? &wide : &narrow;
}

static enum anyflash_status read_at(const struct af_elf *elf, uint64_t offset, void *to,
                                    size_t len, struct anyflash_error *err)
{
    if (elf->source != NULL)
        return af_source_read(elf->source, offset, to, len, err);
    if (!af_elf_contains(elf->bytes, offset, len))
        return af_fail(err, ANYFLASH_E_DATA, "an ELF file is truncated");
    memcpy(to, elf->bytes.data + offset, len);
    return ANYFLASH_OK;
}

/* Reads a number of an entry; `bytes` is 2, 4 or 8. */
static uint64_t number(const struct af_elf *elf, const char *entry, unsigned offset,
                       unsigned bytes)
{
    return af_elf_number_at(elf, (struct af_span){entry, ENTRY_BYTES_MAX}, offset, bytes);
}

/* How many entries of `entry_bytes` fit between `at` and the end, at most `count`. */
static uint32_t fitting(const struct af_elf *elf, uint64_t at, uint64_t count,
                        unsigned entry_bytes)
{
    if (at == 0 || at > elf->len)
        return 0;
    uint64_t capacity = (elf->len - at) / entry_bytes;
    uint64_t fits = count < capacity ? count : capacity;
    return (uint32_t)(fits < COUNT_MAX ? fits : COUNT_MAX);
}

/*
 * Counts that exceed the header's 16 bits are in section 0: its size is the
 * number of sections, its link the index of the name table.
 */
static enum anyflash_status read_large_counts(struct af_elf *elf, unsigned count,
                                              unsigned names, struct anyflash_error *err)
{
    const struct layout *layout = layout_of(elf);
    char zero[ENTRY_BYTES_MAX] = {0};
    elf->section_count = fitting(elf, elf->sections_at, count, layout->section_bytes);
    elf->names_index = names;
    if (fitting(elf, elf->sections_at, 1, layout->section_bytes) == 0 ||
        (count != 0 && names != NAMES_IN_ZERO))
        return ANYFLASH_OK;
    enum anyflash_status status =
        read_at(elf, elf->base + elf->sections_at, zero, layout->section_bytes, err);
    if (status != ANYFLASH_OK)
        return status;
    if (count == 0)
        elf->section_count =
            fitting(elf, elf->sections_at, number(elf, zero, layout->sh_size, layout->word),
                    layout->section_bytes);
    if (names == NAMES_IN_ZERO)
        elf->names_index = (uint32_t)number(elf, zero, layout->sh_link, 4);
    return ANYFLASH_OK;
}

/* Reads magic, class and byte order from the first bytes. */
static bool read_ident(struct af_elf *elf, const char ident[6])
{
    if (memcmp(ident, "\177ELF", 4) != 0 || (ident[4] != 1 && ident[4] != 2) ||
        (ident[5] != 1 && ident[5] != 2))
        return false;
    elf->is_64 = ident[4] == 2;
    elf->is_little_endian = ident[5] == 1;
    return true;
}

/* Reads the header at elf->base; `name` is printable. */
static enum anyflash_status open_any(struct af_elf *elf, const char *name,
                                     struct anyflash_error *err)
{
    char header[HEADER_BYTES_MAX] = {0};
    enum anyflash_status status = ANYFLASH_OK;
    bool is_elf = elf->len >= 52;
    if (is_elf)
        status = read_at(elf, elf->base, header, elf->len < 64 ? 52 : 64, err);
    if (status != ANYFLASH_OK)
        return status;
    if (!is_elf || !read_ident(elf, header) || elf->len < layout_of(elf)->header_bytes)
        return af_fail(err, ANYFLASH_E_DATA, "'%s' is not an ELF file", name);
    const struct layout *layout = layout_of(elf);
    elf->is_shared = number(elf, header, 16, 2) == TYPE_SHARED;
    elf->machine = (unsigned)number(elf, header, 18, 2);
    if (number(elf, header, layout->phentsize, 2) == layout->segment_bytes) {
        elf->segments_at = number(elf, header, layout->phoff, layout->word);
        elf->segment_count =
            fitting(elf, elf->segments_at, number(elf, header, layout->phnum, 2),
                    layout->segment_bytes);
    }
    if (number(elf, header, layout->shentsize, 2) != layout->section_bytes)
        return ANYFLASH_OK;
    elf->sections_at = number(elf, header, layout->shoff, layout->word);
    return read_large_counts(elf, (unsigned)number(elf, header, layout->shnum, 2),
                             (unsigned)number(elf, header, layout->shstrndx, 2), err);
}

enum anyflash_status af_elf_open(struct af_source *source, uint64_t base, uint64_t len,
                                 struct af_elf *elf_out, struct anyflash_error *err)
{
    struct af_elf elf = {.source = source, .base = base, .len = len};
    enum anyflash_status status = open_any(&elf, source->name, err);
    if (status == ANYFLASH_OK)
        *elf_out = elf;
    return status;
}

enum anyflash_status af_elf_open_bytes(struct af_span bytes, const char *name,
                                       struct af_elf *elf_out, struct anyflash_error *err)
{
    char shown[200];
    struct af_elf elf = {.bytes = bytes, .len = bytes.len};
    af_text_quote(shown, sizeof shown, name, strlen(name));
    enum anyflash_status status = open_any(&elf, shown, err);
    if (status == ANYFLASH_OK)
        *elf_out = elf;
    return status;
}

const char *af_elf_machine_name(const struct af_elf *elf)
{
    static const struct {
        enum af_elf_machine machine;
        bool is_64;
        bool is_little_endian;
        const char *name;
    } names[] = {
        {AF_ELF_X86_64, true, true, "x86_64"}, {AF_ELF_AARCH64, true, true, "aarch64"},
        {AF_ELF_386, false, true, "i686"},     {AF_ELF_ARM, false, true, "armv7l"},
        {AF_ELF_PPC64, true, true, "ppc64le"}, {AF_ELF_PPC64, true, false, "ppc64"},
        {AF_ELF_S390, true, false, "s390x"},   {AF_ELF_RISCV, true, true, "riscv64"},
    };
    for (size_t i = 0; i < AF_COUNT(names); i++) {
        if (names[i].machine == elf->machine && names[i].is_64 == elf->is_64 &&
            names[i].is_little_endian == elf->is_little_endian)
            return names[i].name;
    }
    return NULL;
}

static bool is_inside(const struct af_elf *elf, uint64_t offset, uint64_t len)
{
    return offset <= elf->len && len <= elf->len - offset;
}

enum anyflash_status af_elf_section(const struct af_elf *elf, uint32_t index,
                                    struct af_elf_part *part_out, struct anyflash_error *err)
{
    const struct layout *layout = layout_of(elf);
    char entry[ENTRY_BYTES_MAX] = {0};
    *part_out = (struct af_elf_part){0};
    if (index >= elf->section_count)
        return ANYFLASH_OK;
    uint64_t at = elf->base + elf->sections_at + (uint64_t)index * layout->section_bytes;
    enum anyflash_status status = read_at(elf, at, entry, layout->section_bytes, err);
    if (status != ANYFLASH_OK)
        return status;
    uint64_t offset = number(elf, entry, layout->sh_offset, layout->word);
    *part_out = (struct af_elf_part){
        .name = (uint32_t)number(elf, entry, 0, 4),
        .type = (uint32_t)number(elf, entry, 4, 4),
        .link = (uint32_t)number(elf, entry, layout->sh_link, 4),
        .address = number(elf, entry, layout->sh_addr, layout->word),
        .offset = elf->base + offset,
        .len = number(elf, entry, layout->sh_size, layout->word),
    };
    part_out->is_inside =
        part_out->type != SECTION_NOBITS && is_inside(elf, offset, part_out->len);
    return ANYFLASH_OK;
}

enum anyflash_status af_elf_segment(const struct af_elf *elf, uint32_t index,
                                    struct af_elf_part *part_out, struct anyflash_error *err)
{
    const struct layout *layout = layout_of(elf);
    char entry[ENTRY_BYTES_MAX] = {0};
    *part_out = (struct af_elf_part){0};
    if (index >= elf->segment_count)
        return ANYFLASH_OK;
    uint64_t at = elf->base + elf->segments_at + (uint64_t)index * layout->segment_bytes;
    enum anyflash_status status = read_at(elf, at, entry, layout->segment_bytes, err);
    if (status != ANYFLASH_OK)
        return status;
    uint64_t offset = number(elf, entry, layout->p_offset, layout->word);
    *part_out = (struct af_elf_part){
        .type = (uint32_t)number(elf, entry, 0, 4),
        .address = number(elf, entry, layout->p_vaddr, layout->word),
        .offset = elf->base + offset,
        .len = number(elf, entry, layout->p_filesz, layout->word),
    };
    part_out->is_inside = is_inside(elf, offset, part_out->len);
    return ANYFLASH_OK;
}

bool af_elf_is_truncated(const struct af_elf *elf)
{
    struct af_elf_part part;
    for (uint32_t i = 0; i < elf->segment_count; i++) {
        if (af_elf_segment(elf, i, &part, NULL) == ANYFLASH_OK &&
            part.type == AF_ELF_SEGMENT_LOAD && !part.is_inside)
            return true;
    }
    return false;
}

enum anyflash_status af_elf_section_is_named(const struct af_elf *elf,
                                             const struct af_elf_part *section,
                                             const char *name, bool *same_out,
                                             struct anyflash_error *err)
{
    char found[NAME_BYTES_MAX];
    struct af_elf_part names;
    size_t len = strlen(name) + 1;
    *same_out = false;
    enum anyflash_status status = af_elf_section(elf, elf->names_index, &names, err);
    if (status != ANYFLASH_OK || !names.is_inside || len > sizeof found ||
        section->name > names.len || len > names.len - section->name)
        return status;
    status = read_at(elf, names.offset + section->name, found, len, err);
    *same_out = status == ANYFLASH_OK && memcmp(found, name, len) == 0;
    return status;
}

bool af_elf_section_bytes(const struct af_elf *elf, const char *name, struct af_span *bytes_out)
{
    for (uint32_t i = 0; i < elf->section_count; i++) {
        struct af_elf_part part;
        bool same;
        if (af_elf_section(elf, i, &part, NULL) != ANYFLASH_OK ||
            af_elf_section_is_named(elf, &part, name, &same, NULL) != ANYFLASH_OK)
            return false;
        if (!same || part.type == SECTION_NOBITS)
            continue;
        if (!part.is_inside || part.len == 0)
            return false;
        *bytes_out = (struct af_span){elf->bytes.data + part.offset, (size_t)part.len};
        return true;
    }
    return false;
}

const char *af_elf_interpreter(const struct af_elf *elf)
{
    for (uint32_t i = 0; i < elf->segment_count; i++) {
        struct af_elf_part part;
        if (af_elf_segment(elf, i, &part, NULL) != ANYFLASH_OK)
            return NULL;
        if (part.type != AF_ELF_SEGMENT_INTERP)
            continue;
        if (!part.is_inside)
            return NULL;
        const char *text = elf->bytes.data + part.offset;
        return memchr(text, '\0', (size_t)part.len) != NULL ? text : NULL;
    }
    return NULL;
}
