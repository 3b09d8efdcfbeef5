/*
 * elf.c: headers, sections and segments of an ELF file, one entry at a time.
 * The tables of the dynamic loader are in elf_dynamic.c, elf_version.c and elf_lookup.c.
 */
#include "kit/formats/elf.h"

#include <string.h>

#include "kit/base/text.h"

#define COUNT_MAX 4000000u    /* a cubin may have several sections per kernel */
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

/* Reads a number of the file; `bytes` is 2, 4 or 8. */
static uint64_t number(const struct af_elf *elf, uint64_t at, unsigned bytes)
{
    return af_elf_number_at(elf, elf->bytes, at, bytes);
}

/* How many entries of `entry_bytes` fit between `at` and the end, at most `count`. */
static uint32_t fitting(const struct af_elf *elf, uint64_t at, uint64_t count,
                        unsigned entry_bytes)
{
    if (at == 0 || at > elf->bytes.len)
        return 0;
    uint64_t capacity = (elf->bytes.len - at) / entry_bytes;
    uint64_t fits = count < capacity ? count : capacity;
    return (uint32_t)(fits < COUNT_MAX ? fits : COUNT_MAX);
}

/*
 * Counts that exceed the header's 16 bits are in section 0: its size is the
 * number of sections, its link the index of the name table.
 */
static void read_large_counts(struct af_elf *elf, unsigned count, unsigned names)
{
    const struct layout *layout = layout_of(elf);
    elf->section_count = fitting(elf, elf->sections_at, count, layout->section_bytes);
    elf->names_index = names;
    if (fitting(elf, elf->sections_at, 1, layout->section_bytes) == 0)
        return;
    if (count == 0)
        elf->section_count =
            fitting(elf, elf->sections_at,
                    number(elf, elf->sections_at + layout->sh_size, layout->word),
                    layout->section_bytes);
    if (names == NAMES_IN_ZERO)
        elf->names_index = (uint32_t)number(elf, elf->sections_at + layout->sh_link, 4);
}

/* Reads magic, class and byte order. */
static bool read_ident(struct af_elf *elf)
{
    const char *ident = elf->bytes.data;
    if (elf->bytes.len < 52 || memcmp(ident, "\177ELF", 4) != 0 ||
        (ident[4] != 1 && ident[4] != 2) || (ident[5] != 1 && ident[5] != 2))
        return false;
    elf->is_64 = ident[4] == 2;
    elf->is_little_endian = ident[5] == 1;
    return elf->bytes.len >= layout_of(elf)->header_bytes;
}

static void read_header(struct af_elf *elf)
{
    const struct layout *layout = layout_of(elf);
    elf->is_shared = number(elf, 16, 2) == TYPE_SHARED;
    elf->machine = (unsigned)number(elf, 18, 2);
    if (number(elf, layout->phentsize, 2) == layout->segment_bytes) {
        elf->segments_at = number(elf, layout->phoff, layout->word);
        elf->segment_count = fitting(elf, elf->segments_at, number(elf, layout->phnum, 2),
                                     layout->segment_bytes);
    }
    if (number(elf, layout->shentsize, 2) != layout->section_bytes)
        return;
    elf->sections_at = number(elf, layout->shoff, layout->word);
    read_large_counts(elf, (unsigned)number(elf, layout->shnum, 2),
                      (unsigned)number(elf, layout->shstrndx, 2));
}

enum anyflash_status af_elf_open(struct af_span bytes, const char *name, struct af_elf *elf_out,
                                 struct anyflash_error *err)
{
    char shown[200];
    struct af_elf elf = {.bytes = bytes};
    if (!read_ident(&elf))
        return af_fail(err, ANYFLASH_E_DATA, "'%s' is not an ELF file",
                       af_text_quote(shown, sizeof shown, name, strlen(name)));
    read_header(&elf);
    *elf_out = elf;
    return ANYFLASH_OK;
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

struct af_elf_part af_elf_section(const struct af_elf *elf, uint32_t index)
{
    const struct layout *layout = layout_of(elf);
    if (index >= elf->section_count)
        return (struct af_elf_part){0};
    uint64_t at = elf->sections_at + (uint64_t)index * layout->section_bytes;
    struct af_elf_part part = {
        .name = (uint32_t)number(elf, at, 4),
        .type = (uint32_t)number(elf, at + 4, 4),
        .link = (uint32_t)number(elf, at + layout->sh_link, 4),
        .address = number(elf, at + layout->sh_addr, layout->word),
        .offset = number(elf, at + layout->sh_offset, layout->word),
        .len = number(elf, at + layout->sh_size, layout->word),
    };
    part.is_inside =
        part.type != SECTION_NOBITS && af_elf_contains(elf->bytes, part.offset, part.len);
    return part;
}

struct af_elf_part af_elf_segment(const struct af_elf *elf, uint32_t index)
{
    const struct layout *layout = layout_of(elf);
    if (index >= elf->segment_count)
        return (struct af_elf_part){0};
    uint64_t at = elf->segments_at + (uint64_t)index * layout->segment_bytes;
    struct af_elf_part part = {
        .type = (uint32_t)number(elf, at, 4),
        .address = number(elf, at + layout->p_vaddr, layout->word),
        .offset = number(elf, at + layout->p_offset, layout->word),
        .len = number(elf, at + layout->p_filesz, layout->word),
    };
    part.is_inside = af_elf_contains(elf->bytes, part.offset, part.len);
    return part;
}

bool af_elf_is_truncated(const struct af_elf *elf)
{
    for (uint32_t i = 0; i < elf->segment_count; i++) {
        struct af_elf_part part = af_elf_segment(elf, i);
        if (part.type == AF_ELF_SEGMENT_LOAD && !part.is_inside)
            return true;
    }
    return false;
}

bool af_elf_section_is_named(const struct af_elf *elf, const struct af_elf_part *section,
                             const char *name)
{
    struct af_elf_part names = af_elf_section(elf, elf->names_index);
    size_t len = strlen(name) + 1;
    return names.is_inside && section->name <= names.len && len <= names.len - section->name &&
           memcmp(elf->bytes.data + names.offset + section->name, name, len) == 0;
}

bool af_elf_section_bytes(const struct af_elf *elf, const char *name, struct af_span *bytes_out)
{
    for (uint32_t i = 0; i < elf->section_count; i++) {
        struct af_elf_part part = af_elf_section(elf, i);
        if (part.type == SECTION_NOBITS || !af_elf_section_is_named(elf, &part, name))
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
        struct af_elf_part part = af_elf_segment(elf, i);
        if (part.type != AF_ELF_SEGMENT_INTERP)
            continue;
        if (!part.is_inside)
            return NULL;
        const char *text = elf->bytes.data + part.offset;
        return memchr(text, '\0', (size_t)part.len) != NULL ? text : NULL;
    }
    return NULL;
}
