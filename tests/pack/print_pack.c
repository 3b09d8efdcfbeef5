/*
 * print_pack.c: `print_pack FILE` prints every kernel of a pack as engine/gpu reads it: its
 * name, the bytes of its module, and the module. Exits 1 with the reason if it is refused.
 */
#include <stdio.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/gpu/pack.h"

/* Prints the kernels; false after a failure. */
static bool print_kernels(struct af_pack *pack, struct anyflash_error *err)
{
    char *ptx;
    for (size_t i = 0; i < af_pack_count(pack); i++) {
        const char *name = af_pack_name(pack, i);
        if (af_pack_module(pack, name, &ptx, err) != ANYFLASH_OK)
            return false;
        printf("%s\t%zu\n%s", name, strlen(ptx), ptx);
        af_mem_free(ptx);
    }
    return true;
}

int main(int count, char **words)
{
    struct anyflash_error err = {ANYFLASH_OK, ""};
    struct af_pack *pack;
    if (count != 2)
        return 2;
    bool printed = af_pack_open(words[1], &pack, &err) == ANYFLASH_OK;
    if (printed) {
        printed = print_kernels(pack, &err);
        af_pack_close(pack);
    }
    if (!printed)
        fprintf(stderr, "%s\n", err.message);
    return printed ? 0 : 1;
}
