/*
 * fatbin_unpack.c: one image out of its compression: an LZ4 block (CUDA 12's
 * default for PTX), an LZ4 frame, or a zstd frame (CUDA 13's default). Called
 * by cubin.c for the names inside.
 */
#include "kit/formats/fatbin.h"

#include "kit/formats/little.h"

#include <limits.h>
#include <lz4.h>
#include <lz4frame.h>
#include <zstd.h>

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

/* Whether what the header says can be true and is not too much. */
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
        status = af_fail(err, ANYFLASH_E_DATA, "'%s' has a GPU image that does not unpack",
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
