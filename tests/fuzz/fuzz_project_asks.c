/*
 * fuzz_project_asks.c: any bytes as a manifest; the first byte chooses its kind. Places lie in
 * the text.
 */
#include "kit/project/project_asks.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const paths[] = {"pyproject.toml", "pixi.toml", "environment.yml",
                                        "setup.cfg", "requirements.txt"};
    struct af_arena arena;
    struct af_project_asks asks;
    if (size == 0)
        return 0;
    struct af_project_source source = {.path = paths[data[0] % 5],
                                       .text = {(const char *)data + 1, size - 1}};
    source.kind = af_project_kind_of(source.path);
    af_arena_init(&arena);
    af_project_asks_read(&arena, &source, 1, &asks);
    for (const struct af_project_ask *ask = asks.first; ask != NULL; ask = ask->next)
        if (ask->start > ask->end || ask->end > size - 1)
            abort();
    af_arena_release(&arena);
    return 0;
}
