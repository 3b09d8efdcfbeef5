/*
 * cubin.c: kernels by name, from a cubin's symbol table. Of a cubin that lies in
 * the file as it is, only headers, symbols and names are read; a packed one is
 * unpacked first. Called by fatbin.c and flash_families.c.
 */
#include "kit/formats/cubin.h"

#include "kit/formats/elf.h"
#include "kit/formats/little.h"

#include <string.h>

#define SYMBOL_BYTES 24u
#define SYMBOL_FUNC 2u
#define OTHER_ENTRY 0x10u
#define TABLE_BYTES_MAX (64u * 1024u * 1024u)

static enum anyflash_status not_a_cubin(const struct af_source *source,
                                        struct anyflash_error *err)
{
    return af_fail(err, ANYFLASH_E_DATA, "'%s' holds a GPU image that is no cubin",
                   source->name);
}

/* The symbol table and its names; *found_out false when the cubin has none. */
static enum anyflash_status find_symbols(const struct af_elf *elf, struct af_elf_part *symbols,
                                         struct af_elf_part *names, bool *found_out,
                                         struct anyflash_error *err)
{
    enum anyflash_status status = ANYFLASH_OK;
    bool found = false;
    for (uint32_t i = 0; status == ANYFLASH_OK && !found && i < elf->section_count; i++) {
        status = af_elf_section(elf, i, symbols, err);
        found = symbols->is_inside && symbols->type == AF_ELF_SECTION_SYMTAB;
    }
    if (status == ANYFLASH_OK && found)
        status = af_elf_section(elf, symbols->link, names, err);
    *found_out = status == ANYFLASH_OK && found && names->is_inside;
    return status;
}

/* The bytes of a section on the heap. */
static enum anyflash_status load(struct af_source *source, const struct af_elf_part *part,
                                 unsigned char **bytes_out, struct anyflash_error *err)
{
    if (part->len > TABLE_BYTES_MAX)
        return af_fail(err, ANYFLASH_E_LIMIT, "'%s' holds a cubin with too many symbols",
                       source->name);
    unsigned char *bytes = af_mem_alloc((size_t)part->len + 1);
    if (bytes == NULL)
        return af_fail_memory(err);
    enum anyflash_status status =
        af_source_read(source, part->offset, bytes, (size_t)part->len, err);
    if (status != ANYFLASH_OK) {
        af_mem_free(bytes);
        return status;
    }
    bytes[part->len] = '\0'; /* ends the last name, should it lack its end */
    *bytes_out = bytes;
    return ANYFLASH_OK;
}

static void visit_kernels(const unsigned char *symbols, uint64_t symbols_len, const char *names,
                          uint64_t names_len, af_cubin_visit *visit, void *context)
{
    for (uint64_t at = 0; symbols_len - at >= SYMBOL_BYTES; at += SYMBOL_BYTES) {
        uint32_t name = af_le32(symbols + at);
        bool is_kernel =
            (symbols[at + 4] & 0xf) == SYMBOL_FUNC && (symbols[at + 5] & OTHER_ENTRY) != 0;
        if (is_kernel && name < names_len && !visit(context, names + name))
            return;
    }
}

enum anyflash_status af_cubin_kernels(struct af_source *source, uint64_t offset, uint64_t len,
                                      af_cubin_visit *visit, void *context,
                                      struct anyflash_error *err)
{
    struct af_elf elf;
    struct af_elf_part symbols;
    struct af_elf_part names;
    unsigned char *symbol_bytes = NULL;
    unsigned char *name_bytes = NULL;
    bool found = false;
    enum anyflash_status status = af_elf_open(source, offset, len, &elf, err);
    if (status == ANYFLASH_OK && (!elf.is_64 || !elf.is_little_endian ||
                                  elf.machine != AF_ELF_CUDA || elf.section_count == 0))
        status = not_a_cubin(source, err);
    if (status == ANYFLASH_OK)
        status = find_symbols(&elf, &symbols, &names, &found, err);
    if (status == ANYFLASH_OK && found)
        status = load(source, &symbols, &symbol_bytes, err);
    if (status == ANYFLASH_OK && found)
        status = load(source, &names, &name_bytes, err);
    if (status == ANYFLASH_OK && found)
        visit_kernels(symbol_bytes, symbols.len, (const char *)name_bytes, names.len, visit,
                      context);
    af_mem_free(symbol_bytes);
    af_mem_free(name_bytes);
    return status;
}

enum anyflash_status af_gpu_image_kernels(struct af_source *file,
                                          const struct af_gpu_image *image,
                                          af_cubin_visit *visit, void *context,
                                          struct anyflash_error *err)
{
    struct af_source source;
    unsigned char *bytes;
    size_t len;
    if (image->kind != AF_GPU_SASS)
        return not_a_cubin(file, err);
    if (image->packing == AF_GPU_RAW)
        return af_cubin_kernels(file, image->offset, image->stored_bytes, visit, context, err);
    enum anyflash_status status =
        af_gpu_image_unpack(file, image, AF_CUBIN_BYTES_MAX, &bytes, &len, err);
    if (status != ANYFLASH_OK)
        return status;
    af_source_of_bytes((struct af_span){(const char *)bytes, len}, file->name, &source);
    status = af_cubin_kernels(&source, 0, len, visit, context, err);
    af_source_close(&source);
    af_mem_free(bytes);
    return status;
}
