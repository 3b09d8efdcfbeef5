/* elf_file.h: maps an ELF file of this machine and reads its tables. */
#ifndef AF_KIT_PROBE_ELF_FILE_H
#define AF_KIT_PROBE_ELF_FILE_H

#include "kit/formats/elf.h"
#include "kit/probe/environment.h"
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

#endif
