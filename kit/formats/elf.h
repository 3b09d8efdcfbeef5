/*
 * elf.h: reads ELF files: headers, sections and segments; the tables of the
 * dynamic loader with symbols, versions and relocations.
 *
 * Two views of a file. `struct af_elf` holds its headers; sections and segments
 * are read one at a time, from memory or from a source, so that a file of
 * gigabytes or one inside another costs a few small reads. `struct af_dynamic`
 * is a file in memory as the dynamic loader sees it: what PT_DYNAMIC leads to,
 * found through the loaded segments; section headers do not matter.
 *
 * Every address, index, count and chain comes from outside and is checked; a
 * broken table reads as if it ended there. 32 and 64 bit, either byte order.
 * Texts and spans are borrowed from the bytes. Nothing is modified after it was
 * opened or read, so that threads may share it.
 *
 * Source: System V gABI chapters 4 and 5; LSB 5 chapter 10.7 (versions); lookups
 * follow glibc's elf/dl-lookup.c.
 */
#ifndef AF_KIT_FORMATS_ELF_H
#define AF_KIT_FORMATS_ELF_H

#include "engine/base/mem.h"
#include "kit/base/source.h"

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
    struct af_source *source; /* NULL: `bytes` */
    struct af_span bytes;
    uint64_t base; /* of the ELF file within the source */
    uint64_t len;  /* bytes that it may occupy */
    bool is_64;
    bool is_little_endian;
    bool is_shared;   /* ET_DYN: a library, or a program that can be loaded anywhere */
    unsigned machine; /* enum af_elf_machine, or another */
    uint64_t sections_at;
    uint32_t section_count; /* 0: there are no section headers */
    uint32_t names_index;
    uint64_t segments_at;
    uint32_t segment_count;
};

/* A section or a segment. */
struct af_elf_part {
    uint32_t name; /* sections: offset in the table of names */
    uint32_t type;
    uint32_t link;    /* sections */
    uint64_t address; /* where it is loaded */
    uint64_t offset;  /* of the source, or of the bytes */
    uint64_t len;     /* in the file, as its header says */
    bool is_inside;   /* it has bytes in the file, and all of them are there */
};

/*
 * Reads the header of the ELF file at `base` of the source. Fails with DATA when
 * there is none, and as the source does.
 */
enum anyflash_status af_elf_open(struct af_source *source, uint64_t base, uint64_t len,
                                 struct af_elf *elf_out, struct anyflash_error *err);

/* As af_elf_open() for bytes that outlive *elf_out; `name` is for errors. */
enum anyflash_status af_elf_open_bytes(struct af_span bytes, const char *name,
                                       struct af_elf *elf_out, struct anyflash_error *err);

/* "x86_64", "aarch64", "i686", "armv7l", "ppc64le", "s390x", "riscv64", or NULL. */
const char *af_elf_machine_name(const struct af_elf *elf);

/* Section or segment `index`; all zero beyond the last. Fails as the source does. */
enum anyflash_status af_elf_section(const struct af_elf *elf, uint32_t index,
                                    struct af_elf_part *part_out, struct anyflash_error *err);
enum anyflash_status af_elf_segment(const struct af_elf *elf, uint32_t index,
                                    struct af_elf_part *part_out, struct anyflash_error *err);

/* Whether the section's name is `name`, of at most 31 bytes. Fails as the source does. */
enum anyflash_status af_elf_section_is_named(const struct af_elf *elf,
                                             const struct af_elf_part *section,
                                             const char *name, bool *same_out,
                                             struct anyflash_error *err);

/*
 * Of a file in memory, the bytes of the section `name`; false when there is no
 * such section, it has no bytes in the file or they are beyond its end.
 */
bool af_elf_section_bytes(const struct af_elf *elf, const char *name,
                          struct af_span *bytes_out);

/* Of a file in memory, the text of PT_INTERP: the loader it names; NULL: none. */
const char *af_elf_interpreter(const struct af_elf *elf);

/* ---- Tables of the dynamic loader ---- */

#define AF_DYNAMIC_NEEDED_MAX 256u
#define AF_DYNAMIC_SEGMENTS_MAX 64u

/* A part of the file that is loaded at `address`. */
struct af_segment {
    uint64_t address;
    uint64_t offset;
    uint64_t bytes; /* in the file */
};

/* What a version index stands for. */
struct af_symbol_version {
    const char *name;    /* "GLIBC_2.34"; NULL: none */
    const char *library; /* whose version it is; NULL: this file's own */
};

struct af_symbol {
    const char *name; /* mangled; never NULL */
    uint64_t address;
    uint64_t size_bytes; /* st_size */
    bool is_defined;     /* by this file, and visible to others */
    bool is_undefined;   /* wanted from others */
    bool is_weak;
    struct af_symbol_version version;
};

/* All zero: a file without a dynamic section; it defines and needs nothing. */
struct af_dynamic {
    struct af_elf elf;
    const char *soname;  /* or NULL */
    const char *rpath;   /* DT_RPATH, or NULL */
    const char *runpath; /* DT_RUNPATH, or NULL */
    const char *needed[AF_DYNAMIC_NEEDED_MAX];
    size_t needed_count;
    struct af_segment segments[AF_DYNAMIC_SEGMENTS_MAX];
    size_t segment_count;
    /* Tables; empty where there is none. */
    struct af_span strings;         /* ends in a NUL */
    struct af_span symbols;         /* at least symbol_count of them */
    struct af_span version_indices; /* one u16 a symbol */
    struct af_span version_needs;   /* chain of verneed records */
    struct af_span version_defs;    /* chain of verdef records */
    struct af_span gnu_hash;
    struct af_span hash;
    struct af_span relocations[4]; /* rela, rel, and those of the PLT of either kind */
    size_t symbol_count;
    const struct af_symbol_version *versions; /* by index, in the arena */
    size_t version_count;
};

/*
 * Reads `bytes`, which must outlive *out; `name` is for errors. Fails with DATA
 * when it is no ELF file, with UNSUPPORTED when it has no dynamic section (a
 * static program), and with NO_MEMORY.
 */
enum anyflash_status af_dynamic_read(struct af_arena *arena, struct af_span bytes,
                                     const char *name, struct af_dynamic *out,
                                     struct anyflash_error *err);

/*
 * How many bytes of the file af_dynamic_read_start() needs, told by its first
 * 4096 bytes; 0: the start of such a file tells nothing.
 */
uint64_t af_dynamic_start_bytes(struct af_span start);

/*
 * As af_dynamic_read() from the first bytes of a 64-bit file that do not reach
 * its dynamic section: the tables are found by the order in which GNU ld writes
 * them, and checked by their hashes. `needed` are the names of libraries among
 * its texts, without `name`, its own. Fails with UNSUPPORTED when they are not
 * found.
 */
enum anyflash_status af_dynamic_read_start(struct af_arena *arena, struct af_span start,
                                           const char *name, struct af_dynamic *out,
                                           struct anyflash_error *err);

/* Symbol `index`, below symbol_count; false when the file has no such symbol. */
bool af_dynamic_symbol(const struct af_dynamic *dynamic, size_t index, struct af_symbol *out);

/*
 * The definition of `name` that the loader would use: the one at `version`, or
 * the default one when that is NULL. By DT_GNU_HASH, else DT_HASH, else all
 * symbols in turn.
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
 * Whether the file defines the version `version` of its own; a file without any
 * versions serves every one (the loader only warns about it).
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
 * One byte a symbol in the arena: 1 where a relocation names it, so that the
 * loader will look it up. Raises symbol_count to the last of those: until then
 * it counts what lookups can find. NULL only when the arena failed.
 */
const unsigned char *af_dynamic_relocated(struct af_dynamic *dynamic, struct af_arena *arena);

#endif
