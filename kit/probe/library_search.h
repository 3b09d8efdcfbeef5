/* library_search.h: where the loader would find a library. Private to kit/probe. */
#ifndef AF_KIT_PROBE_LIBRARY_SEARCH_H
#define AF_KIT_PROBE_LIBRARY_SEARCH_H

#include "kit/probe/elf_file.h"

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
