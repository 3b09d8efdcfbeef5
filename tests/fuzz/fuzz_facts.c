/*
 * fuzz_facts.c: facts as the state file returns them, with any bytes in them.
 * Facts that are accepted must be safe to use in a proof, and must be written
 * back unchanged.
 */
#include <stdlib.h>

#include "kit/proof/gpu_checks.h"
#include "kit/proof/wheel_facts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(struct af_arena *arena, const struct af_facts *facts)
{
    struct af_proof_gpu_coverage coverage;
    struct af_facts again;
    json_t *json = af_facts_to_json(facts);
    if (json != NULL && af_facts_from_json(arena, json, &again) == ANYFLASH_E_DATA)
        abort();
    json_decref(json);
    (void)af_binary_wants(&facts->binary, "puts");
    if (facts->gpu_code == NULL)
        return;
    for (int sm = 70; sm <= 120; sm += 10)
        af_proof_gpu_cover(facts->gpu_code, facts->kernels, sm, arena, &coverage);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct af_arena arena;
    struct af_facts facts;
    json_t *json;
    if (af_json_parse((struct af_span){(const char *)data, size}, 1u << 20, "kept", &json,
                      NULL) != ANYFLASH_OK)
        return 0;
    af_arena_init(&arena);
    if (af_facts_from_json(&arena, json, &facts) == ANYFLASH_OK)
        use(&arena, &facts);
    json_decref(json);
    af_arena_release(&arena);
    return 0;
}
