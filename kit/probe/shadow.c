/*
 * shadow.c: finds a flash_attn folder where Python is started, for example in a clone of
 * flash-attn. Python imports it instead of the installed package, and without the compiled
 * module beside it that import fails.
 */
#include "kit/base/text.h"
#include "kit/probe/probes.h"
#include "kit/system/file.h"

#define NAMES_MAX 4096

static bool has_extension(const struct af_probe *probe, const char *folder)
{
    const char **names = NULL;
    size_t count = 0;
    if (af_folder_list(probe->arena, folder, NAMES_MAX, &names, &count, NULL, NULL) !=
        ANYFLASH_OK)
        return false;
    for (size_t i = 0; i < count; i++)
        if (af_starts_with(names[i], "flash_attn_2_cuda."))
            return true;
    return false;
}

void af_probe_shadow(struct af_probe *probe)
{
    struct af_fact *fact = &probe->machine->python.shadowed_by;
    const char *folder = probe->options->folder;
    const char *package = af_path_join(probe->arena, folder, "flash_attn");
    const char *module =
        package != NULL ? af_path_join(probe->arena, package, "__init__.py") : NULL;
    if (module == NULL)
        return;
    if (af_probe_variable(probe, "PYTHONSAFEPATH") != NULL)
        af_fact_absent(probe->arena, fact, "PYTHONSAFEPATH is set");
    else if (af_file_exists(module) && !has_extension(probe, folder))
        af_fact_text(probe->arena, fact, package, module);
    else
        af_fact_absent(probe->arena, fact, folder);
}
