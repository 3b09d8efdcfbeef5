/*
 * project.c: rules about the project's files, the environment's own state and
 * the network: what makes a right install refused, ignored or undone.
 */
#include "kit/base/path.h"
#include "kit/doctor/rules.h"

/* The project file called `name` in `folder` (NULL: anywhere), or NULL. */
static const struct af_project_file *project_file(struct af_examination *examination,
                                                  const char *name, const char *folder)
{
    const struct af_project_file_rows *files = &examination->machine->project_files;
    for (size_t i = 0; i < files->count; i++) {
        const char *path = af_fact_text_or(&files->rows[i].path, NULL);
        if (path != NULL && af_equal(af_path_name(path), name) &&
            (folder == NULL || af_equal(af_path_folder(examination->arena, path), folder)))
            return &files->rows[i];
    }
    return NULL;
}

/* uv 0.11.0 reads the sdist's Dynamic lines without case; 0.11.1 took that back. */
static void check_uv(struct af_examination *examination)
{
    const struct af_tool_rows *tools = &examination->machine->tools;
    for (size_t i = 0; i < tools->count; i++)
        if (af_fact_is(&tools->rows[i].name, "uv") &&
            af_fact_is(&tools->rows[i].version, "0.11.0"))
            af_examination_add(examination, AF_REASON_UV_STATIC, "uv 0.11.0 (%s)",
                               tools->rows[i].version.source);
}

void af_examine_project(struct af_examination *examination)
{
    check_uv(examination);
    const struct af_project_file *settings = project_file(examination, "uv.toml", NULL);
    if (settings != NULL) {
        const char *path = settings->path.value.text;
        if (project_file(examination, "pyproject.toml",
                         af_path_folder(examination->arena, path)) != NULL)
            af_examination_add(examination, AF_REASON_UV_TOML, "%s", path);
    }
    const struct af_project_file *lock = project_file(examination, "uv.lock", NULL);
    if (lock != NULL && af_fact_truth(&lock->names_flash_attn) == AF_NO &&
        af_machine_package(examination->machine, "flash-attn") != NULL)
        af_examination_add(examination, AF_REASON_UV_SYNC, "%s", lock->path.value.text);
    if (af_fact_truth(&examination->machine->network.releases_reachable) == AF_NO)
        af_examination_add(examination, AF_REASON_NETWORK, "%s",
                           examination->machine->network.releases_reachable.source);
}

void af_examine_environment(struct af_examination *examination)
{
    const struct af_python *python = &examination->machine->python;
    const char *prefix = af_fact_text_or(&python->prefix, "the environment");
    if (af_fact_truth(&python->externally_managed) == AF_YES)
        af_examination_add(examination, AF_REASON_MANAGED, "%s (%s)", prefix,
                           python->externally_managed.source);
    else if (af_fact_truth(&python->writable) == AF_NO)
        af_examination_add(examination, AF_REASON_READ_ONLY, "%s", prefix);
}
