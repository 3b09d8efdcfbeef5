/*
 * fuzz_elf.c: any bytes as an ELF file; every question of elf.h is asked.
 */
#include "kit/formats/elf.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t text_bytes; /* reads every text to its end */

static bool read_version(void *context, const char *library, const char *version)
{
    (void)context;
    text_bytes += strlen(version) + (library == NULL ? 0 : strlen(library));
    return true;
}

static void read_text(const char *text)
{
    text_bytes += text == NULL ? 0 : strlen(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"tiny_new", "puts", ""};
    struct af_elf elf;
    struct af_span bytes = {(const char *)data, size};
    struct af_span section;
    const char *text = NULL;
    bool found[3];
    if (af_elf_open_bytes(bytes, "fuzz", &elf, NULL) != ANYFLASH_OK)
        return 0;
    read_text(elf.interpreter);
    read_text(elf.soname);
    read_text(elf.rpath);
    read_text(elf.runpath);
    for (size_t i = 0; i < elf.needed_count; i++)
        read_text(elf.needed[i]);
    read_text(af_elf_machine_name(&elf));
    af_elf_defines(&elf, names, 3, found);
    af_elf_version_needs(&elf, read_version, NULL);
    af_elf_version_defs(&elf, read_version, NULL);
    if (af_elf_version_max(&elf, "GLIBC_", false, &text))
        read_text(text);
    if (af_elf_section(&elf, ".rodata", &section) && section.len > 0)
        text_bytes += (unsigned char)section.data[section.len - 1];
    if (af_elf_symbol_data(&elf, "tiny_new", 4, &section))
        text_bytes += (unsigned char)section.data[section.len - 1];
    af_elf_close(&elf);
    return 0;
}
