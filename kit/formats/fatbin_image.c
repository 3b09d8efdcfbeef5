/*
 * fatbin_image.c: the content of one image: decompresses it (an LZ4 block, CUDA 12's default
 * for PTX; an LZ4 frame; a zstd frame, CUDA 13's default), and reads the names of the kernels
 * in a cubin.
 */
#include "kit/formats/fatbin.h"

#include <limits.h>
#include <lz4.h>
#include <lz4frame.h>
#include <string.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "kit/formats/elf.h"
#include "kit/formats/little.h"

#define LZ4_FRAME_MAGIC 0x184D2204u
#define LZ4_RATIO_MAX 255u

#define SYMBOL_BYTES 24u
#define SYMBOL_FUNC 2u
#define OTHER_ENTRY 0x10u

static bool unpack_lz4_frame(const unsigned char *packed, size_t packed_len, unsigned char *to,
                             size_t len)
{
    LZ4F_dctx *context = NULL;
    size_t got = len;
    size_t used = packed_len;
    if (LZ4F_isError(LZ4F_createDecompressionContext(&context, LZ4F_VERSION)))
        af_memory_end();
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
    if (ZSTD_getErrorCode(got) == ZSTD_error_memory_allocation)
        af_memory_end();
    return !ZSTD_isError(got) && got == len;
}

/* Finds the stored bytes; the sizes in the header must be possible and within limits. */
static enum anyflash_status find_stored(struct af_span file, const char *name,
                                        const struct af_gpu_image *image, size_t max_bytes,
                                        struct af_span *stored_out, struct anyflash_error *err)
{
    if (image->raw_bytes > max_bytes || image->stored_bytes > max_bytes)
        return af_fail(err, ANYFLASH_E_LIMIT, "'%s' has a GPU image of more than %zu bytes",
                       name, max_bytes);
    if (image->stored_bytes == 0 || image->raw_bytes == 0 || image->offset > file.len ||
        image->stored_bytes > file.len - image->offset ||
        (image->packing == AF_GPU_LZ4 &&
         image->raw_bytes / LZ4_RATIO_MAX > image->stored_bytes))
        return af_fail(err, ANYFLASH_E_DATA, "'%s' has a GPU image of impossible size", name);
    *stored_out = (struct af_span){file.data + image->offset, (size_t)image->stored_bytes};
    return ANYFLASH_OK;
}

static bool unpack(enum af_gpu_packing packing, struct af_span stored, unsigned char *to,
                   size_t len)
{
    const unsigned char *packed = (const unsigned char *)stored.data;
    if (packing == AF_GPU_LZ4)
        return unpack_lz4(packed, stored.len, to, len);
    if (packing == AF_GPU_ZSTD)
        return unpack_zstd(packed, stored.len, to, len);
    if (stored.len == len)
        memcpy(to, packed, len);
    return stored.len == len;
}

enum anyflash_status af_gpu_image_unpack(struct af_span file, const char *name,
                                         const struct af_gpu_image *image, size_t max_bytes,
                                         unsigned char **bytes_out, size_t *len_out,
                                         struct anyflash_error *err)
{
    struct af_span stored = {NULL, 0};
    enum anyflash_status status = find_stored(file, name, image, max_bytes, &stored, err);
    if (status != ANYFLASH_OK)
        return status;
    size_t len = (size_t)image->raw_bytes;
    unsigned char *raw = af_memory_alloc(len);
    if (!unpack(image->packing, stored, raw, len)) {
        af_memory_free(raw);
        return af_fail(err, ANYFLASH_E_DATA, "'%s' has a GPU image that cannot be unpacked",
                       name);
    }
    *bytes_out = raw;
    *len_out = len;
    return ANYFLASH_OK;
}

static enum anyflash_status not_a_cubin(const char *name, struct anyflash_error *err)
{
    return af_fail(err, ANYFLASH_E_DATA, "'%s' has a GPU image that is not a cubin", name);
}

/* Finds the symbol table and its names; false if the cubin has none. */
static bool find_symbols(const struct af_elf *elf, struct af_span *symbols,
                         struct af_span *names)
{
    for (uint32_t i = 0; i < elf->section_count; i++) {
        struct af_elf_part part = af_elf_section(elf, i);
        if (!part.is_inside || part.type != AF_ELF_SECTION_SYMTAB)
            continue;
        *symbols = (struct af_span){elf->bytes.data + part.offset, (size_t)part.len};
        part = af_elf_section(elf, part.link);
        if (!part.is_inside)
            return false;
        *names = (struct af_span){elf->bytes.data + part.offset, (size_t)part.len};
        return true;
    }
    return false;
}

static void visit_kernels(struct af_span symbols, struct af_span names, af_cubin_visit *visit,
                          void *context)
{
    const unsigned char *at = (const unsigned char *)symbols.data;
    while (names.len > 0 && names.data[names.len - 1] != '\0')
        names.len--; /* the NUL of the last name is missing */
    for (size_t left = symbols.len; left >= SYMBOL_BYTES;
         left -= SYMBOL_BYTES, at += SYMBOL_BYTES) {
        uint32_t name = af_le32(at);
        bool is_kernel = (at[4] & 0xf) == SYMBOL_FUNC && (at[5] & OTHER_ENTRY) != 0;
        if (is_kernel && name < names.len && !visit(context, names.data + name))
            return;
    }
}

enum anyflash_status af_cubin_kernels(struct af_span bytes, const char *name,
                                      af_cubin_visit *visit, void *context,
                                      struct anyflash_error *err)
{
    struct af_elf elf;
    struct af_span symbols;
    struct af_span names;
    enum anyflash_status status = af_elf_open(bytes, name, &elf, err);
    if (status != ANYFLASH_OK)
        return status;
    if (!elf.is_64 || !elf.is_little_endian || elf.machine != AF_ELF_CUDA ||
        elf.section_count == 0)
        return not_a_cubin(name, err);
    if (find_symbols(&elf, &symbols, &names))
        visit_kernels(symbols, names, visit, context);
    return ANYFLASH_OK;
}

enum anyflash_status af_gpu_image_kernels(struct af_span file, const char *name,
                                          const struct af_gpu_image *image,
                                          af_cubin_visit *visit, void *context,
                                          struct anyflash_error *err)
{
    struct af_span stored = {NULL, 0};
    unsigned char *bytes;
    size_t len;
    if (image->kind != AF_GPU_SASS)
        return not_a_cubin(name, err);
    if (image->packing == AF_GPU_RAW) {
        enum anyflash_status status = find_stored(file, name, image, SIZE_MAX, &stored, err);
        return status == ANYFLASH_OK ? af_cubin_kernels(stored, name, visit, context, err)
                                     : status;
    }
    enum anyflash_status status =
        af_gpu_image_unpack(file, name, image, AF_CUBIN_BYTES_MAX, &bytes, &len, err);
    if (status != ANYFLASH_OK)
        return status;
    status =
        af_cubin_kernels((struct af_span){(const char *)bytes, len}, name, visit, context, err);
    af_memory_free(bytes);
    return status;
}
