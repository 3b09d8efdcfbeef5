/*
 * assume.c: assumes the usual system, processor and Python of a described machine.
 */
#include "kit/machine/assume.h"

#include <string.h>

#include "kit/base/text.h"
#include "kit/formats/version.h"

/* Whether torch is older than 2.2. */
static bool is_old(const struct af_machine *machine)
{
    static const char first[] = "2.2";
    struct af_version have, need;
    const char *text = af_fact_text_or(&machine->torch.version, NULL);
    return text != NULL && af_version_parse(text, strlen(text), &have) &&
           af_version_parse(first, strlen(first), &need) &&
           af_version_compare(&have, &need) < 0;
}

enum anyflash_status af_machine_assume_fact(struct af_machine *machine, struct af_fact *fact,
                                            const char *word, const char **what,
                                            struct anyflash_error *err)
{
    const char *unused;
    if (fact->state != AF_FACT_UNKNOWN)
        return ANYFLASH_OK;
    enum anyflash_status status = af_machine_given(machine, word, &unused, err);
    if (status != ANYFLASH_OK)
        return status;
    fact->source = "assumed";
    fact->origin = (struct af_origin){.kind = AF_ORIGIN_ASSUMED};
    *what = *what == NULL ? word : af_arena_format(&machine->arena, "%s, %s", *what, word);
    return *what == NULL ? af_fail_memory(err) : ANYFLASH_OK;
}

bool af_machine_is_described(const struct af_machine *machine)
{
    bool torch = machine->torch.version.state == AF_FACT_KNOWN &&
                 (machine->platform.os.state == AF_FACT_KNOWN ||
                  machine->python.version.state == AF_FACT_KNOWN);
    return machine->gpus.count > 0 || (machine->gpus.state == AF_FACT_UNKNOWN && torch);
}

enum anyflash_status af_machine_assume(struct af_machine *machine, const char **what_out,
                                       struct anyflash_error *err)
{
    const char *what = NULL;
    enum anyflash_status status = ANYFLASH_OK;
    *what_out = NULL;
    if (!af_machine_is_described(machine))
        return ANYFLASH_OK;
    status = af_machine_assume_fact(machine, &machine->platform.os, "os=linux", &what, err);
    const char *arch =
        af_fact_is(&machine->platform.os, "macos") ? "arch=aarch64" : "arch=x86_64";
    if (status == ANYFLASH_OK)
        status = af_machine_assume_fact(machine, &machine->platform.arch, arch, &what, err);
    const char *python = is_old(machine) ? "python=3.11" : "python=3.12";
    if (status == ANYFLASH_OK)
        status = af_machine_assume_fact(machine, &machine->python.version, python, &what, err);
    if (status == ANYFLASH_OK)
        *what_out = what;
    return status;
}
