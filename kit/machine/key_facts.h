/*
 * key_facts.h: the facts that a person names when describing a machine: GPU, system,
 * Python, torch, driver, C library.
 */
#ifndef AF_KIT_MACHINE_KEY_FACTS_H
#define AF_KIT_MACHINE_KEY_FACTS_H

#include "kit/machine/machine.h"

#define AF_MACHINE_KEY_FACT_COUNT 8

struct af_machine_key_fact {
    const char *key;    /* of --given: "gpu" */
    const char *label;  /* "GPU" */
    const char *value;  /* as --given reads it: "8x A100", "none"; NULL: unknown */
    const char *source; /* where it was read, or why it is unknown */
};

/*
 * Fills `facts`, the most important first. Texts are in `arena`, the machine's, or static.
 * When memory runs out, arena->failed is set.
 */
void af_machine_key_facts(const struct af_machine *machine, struct af_arena *arena,
                          struct af_machine_key_fact facts[AF_MACHINE_KEY_FACT_COUNT]);

#endif
