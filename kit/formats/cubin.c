/*
 * cubin.c: decompresses an image (an LZ4 block, CUDA 12's default for PTX; an
 * LZ4 frame; a zstd frame, CUDA 13's default) and reads the kernel names from a
 * cubin's symbol table. Of an uncompressed cubin, only headers, symbols and
 * names are read.
 */
#include "kit/formats/cubin.h"

#include <limits.h>
#include <string.h>

#include <lz4.h>
#include <lz4frame.h>
#include <zstd.h>

#include "kit/formats/elf.h"
#include "kit/formats/little.h"

#define LZ4_FRAME_MAGIC 0x184D2204u
#define LZ4_RATIO_MAX 255u

static bool unpack_lz4_frame(const unsigned char *packed, size_t packed_len, unsigned char *to,
                             size_t len)
{
    LZ4F_dctx *context = NULL;
    size_t got = len;
    size_t used = packed_len;
    if (LZ4F_isError(LZ4F_createDecompressionContext(&context, LZ4F_VERSION)))
        return false;
    size_t left = LZ4F_decompress(context, to, &got, packed, &used, NULL);
    LZ4F_freeDecompressionContext(context);
    return left == 0 && got == len;
}

static bool unpack_lz4(const unsigned char *packed, size_t packed_len, unsigned char *to,
                       size_t len)
{
    if (packed_len > INT_MAX || len > INT_MAX)
        return false;
    if (LZ4_decompress_safe((const char *)packed, (char *)to, (int)packed_len, (int)len) ==
        (int)len)
        return true;
    return packed_len >= 4 && af_le32(packed) == LZ4_FRAME_MAGIC &&
           unpack_lz4_frame(packed, packed_len, to, len);
}

static bool unpack_zstd(const unsigned char *packed, size_t packed_len, unsigned char *to,
                        size_t len)
{
    size_t got = ZSTD_decompress(to, len, packed, packed_len);
    return !ZSTD_isError(got) && got == len;
}

/* Checks that the sizes in the header are possible and within limits. */
static enum anyflash_status check_sizes(const struct af_source *file,
                                        const struct af_gpu_image *image, size_t max_bytes,
                                        struct anyflash_error *err)
{
    if (image->raw_bytes > max_bytes || image->stored_bytes > max_bytes)
        return af_fail(err, ANYFLASH_E_LIMIT, "'%s' has a GPU image of more than %zu bytes",
                       file->name, max_bytes);
    if (image->stored_bytes == 0 || image->raw_bytes == 0 ||
        (image->packing == AF_GPU_LZ4 &&
         image->raw_bytes / LZ4_RATIO_MAX > image->stored_bytes))
        return af_fail(err, ANYFLASH_E_DATA, "'%s' has a GPU image of impossible size",
                       file->name);
    return ANYFLASH_OK;
}

enum anyflash_status af_gpu_image_unpack(struct af_source *file,
                                         const struct af_gpu_image *image, size_t max_bytes,
                                         unsigned char **bytes_out, size_t *len_out,
                                         struct anyflash_error *err)
{
    enum anyflash_status status = check_sizes(file, image, max_bytes, err);
    if (status != ANYFLASH_OK)
        return status;
    size_t stored_len = (size_t)image->stored_bytes;
    size_t len = (size_t)image->raw_bytes;
    unsigned char *stored = af_mem_alloc(stored_len);
    unsigned char *raw = image->packing == AF_GPU_RAW ? NULL : af_mem_alloc(len);
    if (stored == NULL || (raw == NULL && image->packing != AF_GPU_RAW))
        status = af_fail_memory(err);
    else
        status = af_source_read(file, image->offset, stored, stored_len, err);
    bool good = status == ANYFLASH_OK &&
                (image->packing == AF_GPU_RAW ||
                 (image->packing == AF_GPU_LZ4 ? unpack_lz4(stored, stored_len, raw, len)
                                               : unpack_zstd(stored, stored_len, raw, len)));
    if (status == ANYFLASH_OK && !good)
        status = af_fail(err, ANYFLASH_E_DATA, "'%s' has a GPU image that cannot be unpacked",
                         file->name);
    unsigned char *result = raw == NULL ? stored : raw;
    if (raw != NULL)
        af_mem_free(stored);
    if (status != ANYFLASH_OK) {
        af_mem_free(result);
        return status;
    }
    *bytes_out = result;
    *len_out = len;
    return ANYFLASH_OK;
}

#define SYMBOL_BYTES 24u
#define SYMBOL_FUNC 2u
#define OTHER_ENTRY 0x10u
#define TABLE_BYTES_MAX (64u * 1024u * 1024u)

static enum anyflash_status not_a_cubin(const struct af_source *source,
                                        struct anyflash_error *err)
{
    return af_fail(err, ANYFLASH_E_DATA, "'%s' has a GPU image that is not a cubin",
                   source->name);
}

/* Finds the symbol table and its names; *found_out is false if the cubin has none. */
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

/* Reads the bytes of a section into the heap. */
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
    bytes[part->len] = '\0'; /* terminates the last name if its NUL is missing */
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
