/*
 * print_pack.c: `print_pack FILE` prints every kernel of a pack as engine/gpu reads it: its
 * name, the bytes of its module, and the module. Exits 1 with the reason if it is refused.
 */
#include <stdio.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/gpu/pack.h"

static int fail(const struct anyflash_error *err)
{
    fprintf(stderr, "%s\n", err->message);
    return 1;
}

int main(int count, char **words)
{
    struct anyflash_error err = {ANYFLASH_OK, ""};
    struct af_pack *pack;
    char *ptx;
    if (count != 2)
        return 2;
    if (af_pack_open(words[1], &pack, &err) != ANYFLASH_OK)
        return fail(&err);
    for (size_t i = 0; i < af_pack_count(pack); i++) {
        const char *name = af_pack_name(pack, i);
        if (af_pack_module(pack, name, &ptx, &err) != ANYFLASH_OK)
            return fail(&err);
        printf("%s\t%zu\n%s", name, strlen(ptx), ptx);
        af_mem_free(ptx);
    }
    af_pack_close(pack);
    return 0;
}
