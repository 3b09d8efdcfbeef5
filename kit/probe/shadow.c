/*
 * shadow.c: finds a folder or file called flash_attn or torch where Python is started, for
 * example in a clone of flash-attn. Python imports it instead of the installed package, and
 * without the compiled module that import fails.
 */
#include "kit/base/text.h"
#include "kit/probe/probes.h"
#include "kit/system/file.h"

static bool has_file(const struct af_probe *probe, const char *folder, const char *start)
{
    const char *const *names;
    size_t count = af_probe_list(probe, folder, &names);
    for (size_t i = 0; i < count; i++)
        if (af_starts_with(names[i], start))
            return true;
    return false;
}

/* What `import NAME` takes in `folder`, if it lacks its compiled module; else NULL. */
static const char *shadow_of(const struct af_probe *probe, const char *folder, const char *name,
                             const char *extension, bool is_inside)
{
    const char *package = af_path_join(probe->arena, folder, name);
    const char *module = af_path_join(probe->arena, package, "__init__.py");
    const char *file = af_arena_format(probe->arena, "%s.py", package);
    if (module == NULL || file == NULL)
        return NULL;
    if (af_file_exists(module)) /* a folder comes before a file of the same name */
        return has_file(probe, is_inside ? package : folder, extension) ? NULL : package;
    return af_file_exists(file) ? file : NULL;
}

void af_probe_shadow(struct af_probe *probe)
{
    struct af_fact *fact = &probe->machine->python.shadowed_by;
    const char *folder = probe->options->folder;
    const char *found = shadow_of(probe, folder, "flash_attn", "flash_attn_2_cuda.", false);
    if (found == NULL)
        found = shadow_of(probe, folder, "torch", "_C.", true);
    if (af_probe_variable(probe, "PYTHONSAFEPATH") != NULL)
        af_fact_absent(probe->arena, fact, "PYTHONSAFEPATH is set");
    else if (found != NULL)
        af_fact_text(probe->arena, fact, found, folder);
    else
        af_fact_absent(probe->arena, fact, folder);
}
