/*
 * fuzz_cubin.c: any bytes as a cubin; its names, and the input itself as text,
 * are parsed as kernels of FlashAttention.
 */
#include "kit/formats/flash_kernel.h"

#include "kit/base/memory.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t parsed_count;

static bool parse(void *context, const char *name)
{
    struct af_flash_family family = {0};
    char text[AF_FLASH_FAMILY_TEXT];
    (void)context;
    if (af_flash_kernel_parse(name, &family.kernel))
        parsed_count += strlen(af_flash_family_text(&family, text));
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct af_arena arena;
    af_cubin_kernels((struct af_span){(const char *)data, size}, "fuzz", parse, NULL, NULL);
    af_arena_init(&arena);
    const char *text = af_arena_text_n(&arena, (const char *)data, size);
    if (text != NULL)
        parse(NULL, text);
    af_arena_release(&arena);
    return 0;
}
