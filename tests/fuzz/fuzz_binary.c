/*
 * fuzz_binary.c: any bytes as an extension: reads its facts, and looks up symbols
 * in it as in a library.
 */
#include "kit/formats/binary.h"
#include "kit/formats/elf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct af_span bytes = {(const char *)data, size};
    struct af_arena arena;
    struct af_binary binary;
    struct af_dynamic dynamic;
    struct af_symbol symbol;
    af_arena_init(&arena);
    (void)af_binary_read(&arena, bytes, "fuzz.so", &binary, NULL);
    if (af_dynamic_read(&arena, bytes, "fuzz.so", &dynamic, NULL) == ANYFLASH_OK) {
        (void)af_dynamic_find(&dynamic, "tiny_new", NULL, &symbol);
        (void)af_dynamic_find(&dynamic, "puts", "GLIBC_2.2.5", &symbol);
        (void)af_dynamic_has_version(&dynamic, "GLIBC_2.2.5");
    }
    af_arena_release(&arena);
    return 0;
}
