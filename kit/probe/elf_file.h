/* elf_file.h: an ELF file of this machine: its tables, and the libraries that it needs. */
#ifndef AF_KIT_PROBE_ELF_FILE_H
#define AF_KIT_PROBE_ELF_FILE_H

#include "kit/formats/elf.h"
#include "kit/probe/probes.h"
#include "kit/system/file.h"

struct af_probe_elf {
    struct af_mapping mapping;
    struct af_dynamic dynamic; /* only `elf` is filled if the file has no dynamic section */
};

/*
 * Maps and reads `path`. Fails as af_file_map() does, with DATA when it is not an ELF file (the
 * message names the path), and with NO_MEMORY. Texts are borrowed from the file until
 * af_probe_elf_close().
 */
enum anyflash_status af_probe_elf_open(const struct af_probe *probe, const char *path,
                                       struct af_probe_elf *file_out,
                                       struct anyflash_error *err);

void af_probe_elf_close(struct af_probe_elf *file);

/* Texts are in the probe's arena. */
struct af_libc {
    const char *kind;    /* "glibc" or "musl", or NULL */
    const char *version; /* "2.36", "1.2.4", or NULL */
    const char *source;  /* the file it was read from; never NULL */
    const char *problem; /* why kind or version is NULL; NULL if both are known */
};

/* Follows PT_INTERP of `program` to its C library and reads its version. */
void af_libc_of_program(const struct af_probe *probe, const char *program,
                        struct af_libc *libc_out);

/*
 * The path of torch's library `name`: in torch/lib, else where conda and distributions install
 * it (possibly as NAME.2.6). If it is nowhere, the result is a path that does not exist; NULL
 * only if memory runs out.
 */
const char *af_probe_torch_library(const struct af_probe *probe, const char *torch_folder,
                                   const char *name);

#define AF_PROBE_MISSING_MAX 8u

/* Names of libraries that were not found, in the probe's arena. */
struct af_probe_missing {
    const char *names[AF_PROBE_MISSING_MAX];
    size_t count;
};

/*
 * The path of the library `name` that the file `elf` in folder `origin` needs, or NULL: as
 * ld.so searches, then in nvidia/.../lib of the package folders, as torch does.
 */
const char *af_probe_library_find(const struct af_probe *probe, const struct af_dynamic *elf,
                                  const char *origin, const char *name);

/*
 * Adds the libraries of torch and CUDA that the ELF file `path` needs and that are nowhere.
 * torch's facts must be known before. False if the file cannot be read as an ELF file.
 */
bool af_probe_library_check(const struct af_probe *probe, const char *path,
                            struct af_probe_missing *missing);

#endif
