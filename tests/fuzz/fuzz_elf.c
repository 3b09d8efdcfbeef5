/*
 * fuzz_elf.c: any bytes as an ELF file; calls every function of elf.h.
 */
#include "kit/formats/elf.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t text_bytes; /* reads every string to its end */

static void read_text(const char *text)
{
    text_bytes += text == NULL ? 0 : strlen(text);
}

static void read_last(struct af_span span)
{
    text_bytes += span.len == 0 ? 0 : (unsigned char)span.data[span.len - 1];
}

/* Reads each section and segment. */
static void read_parts(const struct af_elf *elf)
{
    for (uint32_t i = 0; i <= elf->section_count; i++) {
        struct af_elf_part part = af_elf_section(elf, i);
        (void)af_elf_section_is_named(elf, &part, ".rodata");
    }
    for (uint32_t i = 0; i <= elf->segment_count; i++)
        (void)af_elf_segment(elf, i);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct af_elf elf;
    struct af_dynamic dynamic;
    struct af_symbol symbol;
    struct af_arena arena;
    struct af_span bytes = {(const char *)data, size};
    struct af_span section;
    if (af_elf_open(bytes, "fuzz", &elf, NULL) != ANYFLASH_OK)
        return 0;
    read_parts(&elf);
    read_text(af_elf_interpreter(&elf));
    read_text(af_elf_machine_name(&elf));
    if (af_elf_section_bytes(&elf, ".rodata", &section))
        read_last(section);
    af_arena_init(&arena);
    if (af_dynamic_read(&arena, bytes, "fuzz", &dynamic, NULL) == ANYFLASH_OK) {
        read_text(dynamic.soname);
        read_text(dynamic.rpath);
        read_text(dynamic.runpath);
        for (size_t i = 0; i < dynamic.needed_count; i++)
            read_text(dynamic.needed[i]);
        read_text(af_dynamic_version_max(&dynamic, "GLIBC_", false));
        read_text(af_dynamic_version_max(&dynamic, "TINY_", true));
        if (af_dynamic_find(&dynamic, "puts", NULL, &symbol))
            read_text(symbol.version.name);
        if (af_dynamic_data(&dynamic, "tiny_new", 4, &section))
            read_last(section);
        (void)af_dynamic_relocated(&dynamic, &arena);
    }
    af_arena_release(&arena);
    return 0;
}
