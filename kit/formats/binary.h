/*
 * binary.h: the facts of one extension or shared library that decide whether
 * it loads somewhere, read once from its bytes, as plain data.
 *
 * A proof needs nothing else of the file, so these facts can be kept (as JSON,
 * by the file's sha256 and AF_BINARY_SCHEMA) in place of it. All texts are
 * copies in the arena, scrubbed, of at most some 65000 bytes each. Lists keep
 * the order of the file. GPU code is read apart: formats/fatbin.h.
 *
 * Source: System V gABI chapters 4 and 5; LSB 5 chapter 10.7 (versions).
 */
#ifndef AF_KIT_FORMATS_BINARY_H
#define AF_KIT_FORMATS_BINARY_H

#include "engine/base/base.h"
#include "engine/base/mem.h"
#include "kit/base/json.h"

/* Raised whenever a kept record would be read wrongly or lack a fact. */
#define AF_BINARY_SCHEMA 2

/*
 * A symbol that the file wants from others and that a relocation names. One
 * that no relocation names is never looked up by the loader and is left out.
 */
struct af_undefined {
    const char *name;    /* mangled */
    const char *version; /* "GLIBC_2.34"; NULL: any */
    const char *library; /* SONAME the version is of; NULL without version */
    bool weak;           /* may stay undefined */
};

/* A version of another library that must be there: "libc.so.6", "GLIBC_2.34". */
struct af_version_need {
    const char *library;
    const char *version;
};

struct af_texts {
    const char *const *items;
    size_t count;
};

struct af_binary {
    const char *name;    /* file name without folders, as given */
    const char *machine; /* "x86_64" as af_elf_machine_name(); NULL: another */
    bool is_64;
    const char *soname;  /* or NULL */
    const char *rpath;   /* DT_RPATH, or NULL */
    const char *runpath; /* DT_RUNPATH, or NULL */
    struct af_texts needed;
    const struct af_undefined *undefined;
    size_t undefined_count;
    const struct af_version_need *version_needs;
    size_t version_need_count;
    const char *init_name; /* "flash_attn_2_cuda" of PyInit_flash_attn_2_cuda; or NULL */
    struct af_texts pybind_internals; /* texts "__pybind11_internals_v4_..." it holds */
    /* "c10/core/TensorImpl.h:1332": assertions of torch's headers in it, where they stand */
    struct af_texts assertions;
    const char *pybind_python; /* "3.11": all that pybind11 lets it be imported by; or NULL */
    bool has_gpu_code;         /* a fatbin section is there */
    /*
     * False: read from the file's start only, where sections are found by the
     * linkers' usual order. What is listed is there; what is not listed may be.
     */
    bool is_complete;
};

/*
 * Reads the facts of the ELF file `bytes`; `name` is its name (folders are cut
 * off) and what errors call it. Fails with DATA when it is no ELF shared
 * object or its dynamic section cannot be read, and with NO_MEMORY.
 */
enum anyflash_status af_binary_read(struct af_arena *arena, struct af_span bytes,
                                    const char *name, struct af_binary *out,
                                    struct anyflash_error *err);

/*
 * How many bytes from the start of a file af_binary_read_start() wants, told by
 * its first 4096; 0: the whole file must be read.
 */
uint64_t af_binary_start_bytes(struct af_span start);

/*
 * As af_binary_read() from the start of a file alone, without its dynamic
 * section, which lies behind the code. Enough to see that it does not load:
 * what is listed is there, but run paths, texts of pybind11 and GPU code are
 * not known, and its own SONAME may stand among `needed`. is_complete is false.
 * Fails with UNSUPPORTED when the tables are not where linkers put them.
 */
enum anyflash_status af_binary_read_start(struct af_arena *arena, struct af_span start,
                                          const char *name, struct af_binary *out,
                                          struct anyflash_error *err);

/* A copy that can be printed; names of symbols stay as they are. NULL for NULL. */
const char *af_binary_text(struct af_arena *arena, const char *text);

/* A new object with all facts, or NULL without memory. */
json_t *af_binary_to_json(const struct af_binary *binary);

/*
 * Reads what af_binary_to_json() wrote; texts are copied into the arena. Fails
 * with DATA for anything else, also another schema.
 */
enum anyflash_status af_binary_from_json(struct af_arena *arena, const json_t *json,
                                         struct af_binary *out, struct anyflash_error *err);

/* Whether the file wants the symbol `name` (a relocation names it). */
bool af_binary_wants(const struct af_binary *binary, const char *name);

#endif
