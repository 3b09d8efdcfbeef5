/*
 * dynamic.h: a shared library as the dynamic loader sees it: what PT_DYNAMIC
 * leads to, found through the loaded segments; section headers do not matter.
 *
 * All texts and spans are borrowed from the bytes. Every address, index and
 * chain comes from outside and is checked; a broken table reads as if it ended
 * there. 32 and 64 bit, either byte order. Lookups follow ld.so: DT_GNU_HASH,
 * else DT_HASH, else all symbols in turn; symbol versions as in glibc's
 * elf/dl-lookup.c. After af_dynamic_read() everything is read-only.
 *
 * Source: System V gABI chapter 5; LSB 5 chapter 10.7 (versions).
 */
#ifndef AF_KIT_FORMATS_DYNAMIC_H
#define AF_KIT_FORMATS_DYNAMIC_H

#include "engine/base/base.h"
#include "engine/base/mem.h"

#define AF_DYNAMIC_NEEDED_MAX 256u
#define AF_DYNAMIC_SEGMENTS_MAX 64u

/* A part of the file that is loaded at `address`. */
struct af_segment {
    uint64_t address;
    uint64_t offset;
    uint64_t bytes; /* that lie in the file */
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
    bool is_defined;     /* by this file, and to be seen by others */
    bool is_undefined;   /* wanted from others */
    bool is_weak;
    struct af_symbol_version version;
};

struct af_dynamic {
    struct af_span bytes;
    bool is_64;
    bool is_little_endian;
    bool is_shared;   /* ET_DYN: a library, or a program that may lie anywhere */
    unsigned machine; /* e_machine */
    const char *soname;
    const char *rpath;
    const char *runpath;
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
 * when it is no ELF file or has no dynamic section, and with NO_MEMORY.
 */
enum anyflash_status af_dynamic_read(struct af_arena *arena, struct af_span bytes,
                                     const char *name, struct af_dynamic *out,
                                     struct anyflash_error *err);

/*
 * How many bytes of the file af_dynamic_read_start() wants, told by its first
 * 4096 bytes; 0: it can tell nothing from the start of such a file.
 */
uint64_t af_dynamic_start_bytes(struct af_span start);

/*
 * As af_dynamic_read() from the first bytes of a 64 bit file that do not reach
 * to its dynamic section: the tables are found by the order in which GNU ld
 * writes them, and checked by their hashes. `needed` are the names of libraries
 * among its texts, without `name`, its own. Fails with UNSUPPORTED when they are
 * not found.
 */
enum anyflash_status af_dynamic_read_start(struct af_arena *arena, struct af_span start,
                                           const char *name, struct af_dynamic *out,
                                           struct anyflash_error *err);

/* Symbol `index`, below symbol_count; false when the file has no such symbol. */
bool af_dynamic_symbol(const struct af_dynamic *dynamic, size_t index, struct af_symbol *out);

/*
 * The definition of `name` that the loader would take: at `version`, or the
 * default one when that is NULL.
 */
bool af_dynamic_find(const struct af_dynamic *dynamic, const char *name, const char *version,
                     struct af_symbol *out);

/*
 * Whether the file defines the version `version` of its own; a file without any
 * versions serves every one (the loader only remarks on it).
 */
bool af_dynamic_has_version(const struct af_dynamic *dynamic, const char *version);

/*
 * One byte a symbol in the arena: 1 where a relocation names it, so that the
 * loader will look it up. Raises symbol_count to the last of those: until then
 * it counts what lookups can find. NULL only when the arena failed.
 */
const unsigned char *af_dynamic_relocated(struct af_dynamic *dynamic, struct af_arena *arena);

#endif
