/*
 * fuzz_fatbin.c: any bytes as an ELF file with GPU code (first byte even) or as
 * such a section alone; every image is unpacked within a small limit.
 */
#include "kit/formats/fatbin.h"

#include "kit/base/memory.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define UNPACK_BYTES_MAX 65536u
#define UNPACKED_IMAGES_MAX 64u

static void unpack(const struct af_gpu_code *code, struct af_span bytes)
{
    for (size_t i = 0; i < code->image_count && i < UNPACKED_IMAGES_MAX; i++) {
        unsigned char *raw;
        size_t len;
        if (af_gpu_image_unpack(bytes, "fuzz", &code->images[i], UNPACK_BYTES_MAX, &raw, &len,
                                NULL) == ANYFLASH_OK)
            af_memory_free(raw);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct af_arena arena;
    struct af_gpu_code code;
    if (size == 0)
        return 0;
    struct af_span bytes = {(const char *)data + 1, size - 1};
    af_arena_init(&arena);
    if (af_gpu_code_read(&arena, bytes, "fuzz", (data[0] & 1) != 0, &code, NULL) ==
        ANYFLASH_OK) {
        for (size_t i = 0; i < code.target_count; i++) {
            char text[AF_GPU_TARGET_TEXT];
            af_gpu_target_text(&code.targets[i], text);
        }
        unpack(&code, bytes);
    }
    af_arena_release(&arena);
    return 0;
}
