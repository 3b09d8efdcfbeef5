/*
 * elf.h: what a program or shared library says about itself.
 *
 * A thin, bounded layer over libelf: the file is mapped, tables are read as
 * they are asked for. All texts are borrowed from the file and valid until
 * af_elf_close(). Every index, offset and chain comes from outside and is
 * checked; a broken table reads as if it ended there. 32 and 64 bit, either
 * byte order.
 *
 * Source: System V gABI chapters 4 and 5; the GNU symbol versioning sections
 * as in the Linux Standard Base 5, chapter 10.7.
 *
 * Not thread-safe per file; different files may be read at the same time.
 */
#ifndef AF_KIT_FORMATS_ELF_H
#define AF_KIT_FORMATS_ELF_H

#include "engine/base/base.h"
#include "kit/system/file.h"

#define AF_ELF_NEEDED_MAX 256u

struct af_elf {
    struct af_mapping mapping; /* empty when the bytes are the caller's */
    void *handle;              /* Elf * */
    bool is_64;
    bool is_little_endian;
    unsigned machine;        /* e_machine: EM_X86_64, EM_AARCH64, ... */
    const char *interpreter; /* PT_INTERP, or NULL */
    const char *soname;      /* or NULL */
    const char *rpath;       /* DT_RPATH, or NULL */
    const char *runpath;     /* DT_RUNPATH, or NULL */
    const char *needed[AF_ELF_NEEDED_MAX];
    size_t needed_count;
};

/*
 * Maps and opens `path`. Fails as af_file_map() does, or with DATA when it is
 * no ELF file; the sentence names the path. Release with af_elf_close().
 */
enum anyflash_status af_elf_open(const char *path, struct af_elf *elf_out,
                                 struct anyflash_error *err);

/* As af_elf_open() for bytes that stay with the caller; `name` is for errors. */
enum anyflash_status af_elf_open_bytes(struct af_span bytes, const char *name,
                                       struct af_elf *elf_out, struct anyflash_error *err);

void af_elf_close(struct af_elf *elf);

/* "x86_64", "aarch64", "i686", "armv7l", "ppc64le", "s390x", "riscv64", or NULL. */
const char *af_elf_machine_name(const struct af_elf *elf);

/*
 * The bytes of the section `name`; false when it is not there, has none in the
 * file or lies outside the file.
 */
bool af_elf_section(const struct af_elf *elf, const char *name, struct af_span *bytes_out);

/*
 * For each of `count` names: whether the dynamic symbol table defines it
 * (global or weak, not undefined). found_out has `count` elements. Returns
 * false when there is no dynamic symbol table.
 */
bool af_elf_defines(const struct af_elf *elf, const char *const *names, size_t count,
                    bool *found_out);

/*
 * The bytes of the defined data symbol `name`, from its value to the end of
 * its section in the file; false when there is none. At least `len_min` bytes.
 */
bool af_elf_symbol_data(const struct af_elf *elf, const char *name, size_t len_min,
                        struct af_span *bytes_out);

/*
 * Calls visit(context, library, version) for every version this file needs of
 * another ("libc.so.6", "GLIBC_2.34"), in file order, until it returns false.
 */
typedef bool af_elf_version_visit(void *context, const char *library, const char *version);
void af_elf_version_needs(const struct af_elf *elf, af_elf_version_visit *visit, void *context);

/* As af_elf_version_needs() for the versions this file defines; library is NULL. */
void af_elf_version_defs(const struct af_elf *elf, af_elf_version_visit *visit, void *context);

/*
 * The highest dotted number after `prefix` ("GLIBC_", "GLIBCXX_") among the
 * versions needed, or defined with `defined`, as "2.36"; false when there is
 * none. Names such as GLIBC_PRIVATE do not count. *text_out is borrowed.
 */
bool af_elf_version_max(const struct af_elf *elf, const char *prefix, bool defined,
                        const char **text_out);

#endif
