/*
 * fit_assume.c: what the table of torch's builds adds to kit/machine/assume.c.
 */
#include "kit/fit/fit_assume.h"

#include <string.h>

#include "kit/formats/version.h"

/* The build of a release of torch from PyPI; NULL: unknown, or without CUDA. */
static const char *usual_cuda(const struct af_machine *machine)
{
    struct af_version version;
    const char *text = af_fact_text_or(&machine->torch.version, NULL);
    const char *platform = af_tables_platform(af_fact_text_or(&machine->platform.os, NULL),
                                              af_fact_text_or(&machine->platform.arch, NULL));
    if (text == NULL || !af_version_parse(text, strlen(text), &version) ||
        version.local[0] != '\0' || !af_fact_is(&machine->torch.build, "release"))
        return NULL;
    const struct af_catalog_torch_release *release = af_tables_torch(
        (int)version.release[0], version.release_count > 1 ? (int)version.release[1] : 0);
    const struct af_catalog_torch_variant *variant =
        release == NULL ? NULL : af_tables_default(release, platform);
    return variant != NULL && variant->cuda_major > 0 ? variant->cuda : NULL;
}

/* Assumes the build of a torch that is known but for that. */
static enum anyflash_status assume_build(struct af_machine *machine, const char **what,
                                         struct anyflash_error *err)
{
    if (machine->gpus.count == 0 || machine->torch.version.state != AF_FACT_KNOWN ||
        machine->torch.cuda.state != AF_FACT_UNKNOWN)
        return ANYFLASH_OK;
    const char *cuda = usual_cuda(machine);
    const char *word =
        cuda == NULL ? NULL : af_arena_format(&machine->arena, "torch_cuda=%s", cuda);
    return word == NULL
               ? ANYFLASH_OK
               : af_machine_assume_fact(machine, &machine->torch.cuda, word, what, err);
}

enum anyflash_status af_fit_assume(struct af_machine *machine, struct anyflash_error *err)
{
    const char *what;
    enum anyflash_status status = af_machine_assume(machine, &what, err);
    if (status == ANYFLASH_OK)
        status = assume_build(machine, &what, err);
    if (status != ANYFLASH_OK)
        return status;
    if (what != NULL)
        machine->name =
            af_arena_format(&machine->arena, "%s, assuming %s", machine->name, what);
    return machine->arena.failed ? af_fail_memory(err) : ANYFLASH_OK;
}
