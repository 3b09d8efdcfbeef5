/*
 * plan_proof.c: what one types to prove a wheel whose name leaves open whether
 * it loads: `inspect` reads its bytes, `install` does so too before it changes
 * anything, and tries it afterwards.
 */
#include "kit/base/url.h"
#include "kit/plan/builder.h"

static const char *command(const char *const *words, size_t count, struct af_arena *arena)
{
    const struct af_step step = {.kind = AF_STEP_ADVICE, .argv = words, .argc = count};
    return af_step_command(&step, arena);
}

bool af_plan_proof_make(const struct af_rung *rung, const struct af_machine *machine,
                        struct af_arena *arena, struct af_plan_proof *proof_out)
{
    if (!rung->prove_first || rung->wheel == NULL || rung->wheel->url == NULL)
        return false;
    const char *url = af_url_encode_plus(arena, rung->wheel->url);
    const char *prefix = af_fact_text_or(&machine->python.prefix, NULL);
    const char *inspect[] = {"anyflash", "inspect", url, "--against", prefix};
    const char *install[] = {"anyflash", "install", url, "--python", prefix};
    size_t count = prefix == NULL ? 3 : 5;
    if (url == NULL)
        return false;
    *proof_out =
        (struct af_plan_proof){command(inspect, count, arena), command(install, count, arena)};
    return proof_out->inspect != NULL && proof_out->install != NULL;
}
