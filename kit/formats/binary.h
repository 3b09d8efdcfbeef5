/*
 * binary.h: the facts of an extension or shared library that decide whether it
 * loads on a given machine, read once from its bytes, as plain data.
 *
 * The load check needs nothing else of the file. All texts are scrubbed copies in
 * the arena, each at most about 65000 bytes. Lists keep the order of the file. GPU
 * code is read separately: formats/fatbin.h.
 *
 * Source: System V gABI chapters 4 and 5; LSB 5 chapter 10.7 (versions).
 */
#ifndef AF_KIT_FORMATS_BINARY_H
#define AF_KIT_FORMATS_BINARY_H

#include "engine/base/base.h"
#include "kit/base/memory.h"

/*
 * An undefined symbol that a relocation names. The loader never looks up a
 * symbol that no relocation names, so such symbols are left out.
 */
struct af_undefined {
    const char *name;    /* mangled */
    const char *version; /* "GLIBC_2.34"; NULL: any version */
    const char *library; /* SONAME of the library with that version; NULL if version is */
    bool weak;           /* may stay undefined */
};

/* A version that another library must define: "libc.so.6", "GLIBC_2.34". */
struct af_version_need {
    const char *library;
    const char *version;
};

struct af_texts {
    const char *const *items;
    size_t count;
};

struct af_binary {
    const char *name;       /* file name without folders, as given */
    const char *machine;    /* "x86_64" as af_elf_machine_name(); NULL: unknown */
    const char *soname;     /* or NULL */
    const char *rpath;      /* DT_RPATH, or NULL */
    const char *runpath;    /* DT_RUNPATH, or NULL */
    struct af_texts needed; /* as struct af_dynamic */
    const struct af_undefined *undefined;
    size_t undefined_count;
    const struct af_version_need *version_needs;
    size_t version_need_count;
    const char *init_name; /* "flash_attn_2_cuda" of PyInit_flash_attn_2_cuda; or NULL */
    struct af_texts pybind_internals; /* strings "__pybind11_internals_v4_..." in the file */
    /*
     * "c10/core/TensorImpl.h:1332": positions of torch header assertions
     * compiled into it
     */
    struct af_texts assertions;
    const char
        *pybind_python; /* "3.11": the only Python that pybind11 lets import it; or NULL */
    bool has_gpu_code;  /* it has a fatbin section */
};

/*
 * Reads the facts of the ELF file `bytes`; `name` is its name for errors
 * (folders are cut off). Fails with DATA when it is not an ELF shared object or
 * its dynamic section cannot be read.
 */
enum anyflash_status af_binary_read(struct af_arena *arena, struct af_span bytes,
                                    const char *name, struct af_binary *out,
                                    struct anyflash_error *err);

/* Whether the file needs the undefined symbol `name` (a relocation names it). */
bool af_binary_wants(const struct af_binary *binary, const char *name);

#endif
