/*
 * fuzz_decide.c: any machine record through decision and plan.
 */
#include "kit/answer/plan.h"
#include "kit/base/json.h"
#include "kit/fit/fit.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void decide(const struct af_catalog *catalog, const struct af_machine *machine)
{
    struct anyflash_error err;
    struct af_decision decision;
    struct af_plan plan;
    const struct af_machine *machines[] = {machine};
    if (af_fit_decide(catalog, machines, 1, NULL, &decision, &err) != ANYFLASH_OK)
        return;
    for (int kind = 0; kind < AF_RUNG_COUNT; kind++) {
        decision.recommended = (enum af_rung_kind)kind;
        decision.possible = true;
        if (af_plan_make(&decision, machines, 1, &plan, &err) != ANYFLASH_OK)
            continue;
        for (size_t i = 0; i < plan.step_count; i++)
            af_step_command(&plan.steps[i], AF_SHELL_CMD, &plan.arena);
        af_plan_release(&plan);
    }
    af_decision_release(&decision);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct af_catalog catalog;
    struct anyflash_error err;
    struct af_machine machine;
    if (catalog.wheels == NULL) {
        af_json_start();
        if (af_catalog_load_embedded(&catalog, &err) != ANYFLASH_OK)
            abort();
    }
    af_machine_init(&machine, "fuzz", "not said");
    if (af_machine_parse(&machine, (struct af_span){(const char *)data, size}, "fuzz", &err) ==
        ANYFLASH_OK)
        decide(&catalog, &machine);
    af_machine_release(&machine);
    return 0;
}
