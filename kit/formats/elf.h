/*
 * elf.h: reads ELF files: headers, sections and segments; the dynamic loader's
 * tables of symbols, versions and relocations.
 *
 * There are two views of a file. `struct af_elf` holds its headers; sections and
 * segments are read one at a time.
 * `struct af_dynamic` is a file as the dynamic loader sees it:
 * everything that PT_DYNAMIC points to, located through the loaded segments;
 * section headers are not used.
 *
 * Every address, index, count and chain is untrusted and checked; a damaged
 * table is treated as if it ended at the damage. 32 and 64 bit, either byte
 * order. Texts and spans borrow from the bytes. Nothing is modified after
 * opening or reading, so threads may share it.
 *
 * Source: System V gABI chapters 4 and 5; LSB 5 chapter 10.7 (versions); lookups
 * follow glibc's elf/dl-lookup.c.
 */
#ifndef AF_KIT_FORMATS_ELF_H
#define AF_KIT_FORMATS_ELF_H

#include "kit/base/memory.h"

/* e_machine. Source: gABI, and the processor supplements it lists. */
enum af_elf_machine {
    AF_ELF_386 = 3,
    AF_ELF_PPC64 = 21,
    AF_ELF_S390 = 22,
    AF_ELF_ARM = 40,
    AF_ELF_X86_64 = 62,
    AF_ELF_AARCH64 = 183,
    AF_ELF_CUDA = 190,
    AF_ELF_RISCV = 243,
};

/* ---- Headers, sections, segments ---- */

#define AF_ELF_SECTION_SYMTAB 2u  /* SHT_SYMTAB */
#define AF_ELF_SEGMENT_LOAD 1u    /* PT_LOAD */
#define AF_ELF_SEGMENT_DYNAMIC 2u /* PT_DYNAMIC */
#define AF_ELF_SEGMENT_INTERP 3u  /* PT_INTERP */

/* The headers of one file. Use the functions for sections and segments. */
struct af_elf {
    struct af_span bytes;
    bool is_64;
    bool is_little_endian;
    bool is_shared;   /* ET_DYN: a library, or a program that can be loaded anywhere */
    unsigned machine; /* enum af_elf_machine, or another number */
    uint64_t sections_at;
    uint32_t section_count; /* 0: there are no section headers */
    uint32_t names_index;
    uint64_t segments_at;
    uint32_t segment_count;
};

/* A section or a segment. */
struct af_elf_part {
    uint32_t name; /* sections: offset in the name table */
    uint32_t type;
    uint32_t link;    /* sections only */
    uint64_t address; /* where it is loaded */
    uint64_t offset;  /* in the bytes */
    uint64_t len;     /* in the file, as its header says */
    bool is_inside;   /* it has bytes in the file, and none are beyond its end */
};

/*
 * Reads the header of an ELF file; the bytes must outlive *elf_out. Fails with DATA
 * when it is not an ELF file; `name` is for errors.
 */
enum anyflash_status af_elf_open(struct af_span bytes, const char *name, struct af_elf *elf_out,
                                 struct anyflash_error *err);

/* "x86_64", "aarch64", "i686", "armv7l", "ppc64le", "s390x", "riscv64", or NULL. */
const char *af_elf_machine_name(const struct af_elf *elf);

/* Section or segment `index`; all zero beyond the last. */
struct af_elf_part af_elf_section(const struct af_elf *elf, uint32_t index);
struct af_elf_part af_elf_segment(const struct af_elf *elf, uint32_t index);

/* Whether the file ends within a segment that the loader maps: using it would be SIGBUS. */
bool af_elf_is_truncated(const struct af_elf *elf);

bool af_elf_section_is_named(const struct af_elf *elf, const struct af_elf_part *section,
                             const char *name);

/*
 * The bytes of section `name` of a file in memory; false when there is no such
 * section, it has no bytes in the file or they are beyond its end.
 */
bool af_elf_section_bytes(const struct af_elf *elf, const char *name,
                          struct af_span *bytes_out);

/* The loader that PT_INTERP names, of a file in memory; NULL: none. */
const char *af_elf_interpreter(const struct af_elf *elf);

/* ---- Tables of the dynamic loader ---- */

#define AF_DYNAMIC_NEEDED_MAX 256u
#define AF_DYNAMIC_SEGMENTS_MAX 64u

/* A part of the file that is loaded at `address`. */
struct af_segment {
    uint64_t address;
    uint64_t offset;
    uint64_t bytes; /* bytes in the file */
};

/* What a version index stands for. */
struct af_symbol_version {
    const char *name;    /* "GLIBC_2.34"; NULL: no version */
    const char *library; /* library with that version; NULL: this file */
};

struct af_symbol {
    const char *name; /* mangled; never NULL */
    uint64_t address;
    uint64_t size_bytes; /* st_size */
    bool is_defined;     /* by this file and visible to others */
    bool is_undefined;   /* must come from another file */
    bool is_weak;
    struct af_symbol_version version;
};

/* All zero for a file without a dynamic section, which defines and needs nothing. */
struct af_dynamic {
    struct af_elf elf;
    const char *soname;  /* or NULL */
    const char *rpath;   /* DT_RPATH, or NULL */
    const char *runpath; /* DT_RUNPATH, or NULL */
    /* DT_NEEDED, and paths of DT_AUXILIARY, DT_FILTER, DT_AUDIT and DT_DEPAUDIT */
    const char *needed[AF_DYNAMIC_NEEDED_MAX];
    size_t needed_count;
    struct af_segment segments[AF_DYNAMIC_SEGMENTS_MAX];
    size_t segment_count;
    /* Tables; empty when absent. */
    struct af_span strings;         /* ends in a NUL */
    struct af_span symbols;         /* at least symbol_count entries */
    struct af_span version_indices; /* one u16 per symbol */
    struct af_span version_needs;   /* chain of verneed records */
    struct af_span version_defs;    /* chain of verdef records */
    struct af_span gnu_hash;
    struct af_span hash;
    struct af_span relocations[4]; /* rela, rel, and the PLT's of either kind */
    size_t symbol_count;
    const struct af_symbol_version *versions; /* by index, in the arena */
    size_t version_count;
};

/*
 * Reads `bytes`, which must outlive *out; `name` is for errors. Fails with DATA
 * if the file is not ELF, is truncated, or has no dynamic section (a static program).
 */
enum anyflash_status af_dynamic_read(struct af_arena *arena, struct af_span bytes,
                                     const char *name, struct af_dynamic *out,
                                     struct anyflash_error *err);

/* Reads symbol `index`, below symbol_count; false when the file has no such symbol. */
bool af_dynamic_symbol(const struct af_dynamic *dynamic, size_t index, struct af_symbol *out);

/*
 * Finds the definition of `name` that the loader would use: at `version`, or the
 * default version when that is NULL. Uses DT_GNU_HASH, else DT_HASH, else
 * searches all symbols.
 */
bool af_dynamic_find(const struct af_dynamic *dynamic, const char *name, const char *version,
                     struct af_symbol *out);

/*
 * The bytes of the file from the definition of `name` to the end of its loaded
 * segment; false when there is none or fewer than `len_min` bytes.
 */
bool af_dynamic_data(const struct af_dynamic *dynamic, const char *name, size_t len_min,
                     struct af_span *bytes_out);

/*
 * Whether the file itself defines the version `version`; true for a file without
 * any versions, because the loader only warns about it.
 */
bool af_dynamic_has_version(const struct af_dynamic *dynamic, const char *version);

/*
 * The highest dotted number after `prefix` ("GLIBC_", "GLIBCXX_") among the
 * versions that the file needs, or defines when `is_defined`, as "2.36"; NULL
 * when there is none. Names such as GLIBC_PRIVATE do not count.
 */
const char *af_dynamic_version_max(const struct af_dynamic *dynamic, const char *prefix,
                                   bool is_defined);

/*
 * One byte per symbol, in the arena: 1 if a relocation names it, so that the
 * loader will look it up. Raises symbol_count to include the last of those;
 * before, it counts only symbols that lookups can find.
 */
const unsigned char *af_dynamic_relocated(struct af_dynamic *dynamic, struct af_arena *arena);

/* ---- Bounds-checked reading of the tables. Private to elf*.c. ---- */

#define AF_ELF_SYMBOLS_MAX 16000000u
#define AF_ELF_VERSION_MASK 0x7fffu
#define AF_ELF_VERSION_HIDDEN 0x8000u

static inline bool af_elf_contains(struct af_span span, uint64_t offset, uint64_t bytes)
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

/*
 * Fills in `versions`, in the arena, from the records of needed and defined versions; damaged
 * chains end at the damage.
 */
void af_elf_read_versions(struct af_arena *arena, struct af_dynamic *dynamic);

#endif
