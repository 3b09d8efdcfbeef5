/*
 * elf_file.c: maps an ELF file and reads its headers and tables. Used by the
 * probes of interpreter, C library and torch.
 */
#include "kit/probe/elf_file.h"

enum anyflash_status af_probe_elf_open(const struct af_probe *probe, const char *path,
                                       struct af_probe_elf *file_out,
                                       struct anyflash_error *err)
{
    struct af_elf elf;
    struct af_probe_elf file = {0};
    enum anyflash_status status = af_file_map(path, &file.mapping, err);
    if (status != ANYFLASH_OK)
        return status;
    struct af_span bytes = {(const char *)file.mapping.data, file.mapping.len};
    status = af_elf_open_bytes(bytes, path, &elf, err);
    if (status == ANYFLASH_OK) {
        status = af_dynamic_read(probe->arena, bytes, path, &file.dynamic, NULL);
        if (status == ANYFLASH_E_DATA) { /* a static program */
            file.dynamic.elf = elf;
            status = ANYFLASH_OK;
        } else if (status != ANYFLASH_OK) {
            status = af_fail_memory(err);
        }
    }
    if (status == ANYFLASH_OK)
        *file_out = file;
    else
        af_file_unmap(&file.mapping);
    return status;
}

void af_probe_elf_close(struct af_probe_elf *file)
{
    af_file_unmap(&file->mapping);
    *file = (struct af_probe_elf){0};
}
