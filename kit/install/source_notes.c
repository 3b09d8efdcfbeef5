/*
 * source_notes.c: what the user is told about where files come from: with what their hash was
 * compared, who published them, which index uv takes; and where to get those that are missing.
 */
#include "kit/install/source_notes.h"

#include <string.h>

#include "kit/base/text.h"
#include "kit/catalog/publisher.h"
#include "kit/system/file.h"
#include "kit/system/output.h"
#include "kit/system/progress.h"

#define UV_SETTINGS_BYTES_MAX (1u << 20)
#define FROM_NAMES_MAX 10000u

void af_install_tell_hash(const struct af_run *run, const struct af_step_wheel *wheel,
                          const char *sha256)
{
    const char *source = run->hash_source;
    if (wheel->sha256 == NULL)
        af_progress_message(&run->progress,
                            "sha256 %s  %s (no published hash is known to compare it with)",
                            sha256, wheel->filename);
    else
        af_progress_message(&run->progress, "sha256 %s  %s (as stated by %s)", sha256,
                            wheel->filename, source == NULL ? "the plan" : source);
}

const char *af_install_fetch_hint(const struct af_run *run, const struct af_step_wheel *wheel)
{
    struct af_arena *arena = run->arena;
    const char *from = run->from;
    const char **names;
    size_t count = 0;
    if (wheel->path != NULL || af_interrupted())
        return NULL;
    if (from == NULL)
        return af_arena_format(arena,
                               "where there is a network, `anyflash install --download-only "
                               "FOLDER` gets the files; `%s --from FOLDER` installs them here",
                               af_run_command(run, "install", NULL));
    if (af_folder_list(arena, from, FROM_NAMES_MAX, &names, &count, NULL, NULL) != ANYFLASH_OK)
        return NULL;
    size_t package_len = strcspn(wheel->filename, "-") + 1;
    for (size_t i = 0; i < count; i++) {
        if (strncmp(names[i], wheel->filename, package_len) != 0 ||
            !af_ends_with(names[i], ".whl"))
            continue;
        return af_arena_format(
            arena, "the folder has another wheel: `%s` installs it if it fits",
            af_run_command(run, "install", af_path_join(arena, from, names[i])));
    }
    return "the folder has no wheel of this package: `anyflash install --download-only FOLDER` "
           "fills one";
}

void af_install_tell_publisher(const struct af_run *run, const char *url)
{
    const char *publisher = af_publisher_of_url(run->arena, url);
    if (publisher != NULL)
        af_progress_message(&run->progress, "published by %s", publisher);
}

/* The file of this folder, or of one above it, whose settings uv reads first; or NULL. */
static const char *uv_project_settings(const struct af_run *run)
{
    const char *here = af_file_real_path(run->arena, ".");
    for (size_t i = 0; here != NULL && i < run->machine->tools.count; i++) {
        const struct af_tool *tool = &run->machine->tools.rows[i];
        const struct af_fact *files = &tool->config_files;
        if (!af_fact_is(&tool->name, "uv") || files->state != AF_FACT_KNOWN ||
            files->value.list.count == 0)
            continue;
        const char *file = af_file_real_path(run->arena, files->value.list.items[0]);
        const char *folder = file == NULL ? NULL : af_path_folder(run->arena, file);
        size_t len = folder == NULL ? 0 : strlen(folder);
        if (len > 0 && strncmp(here, folder, len) == 0 &&
            (here[len] == '/' || here[len] == '\0'))
            return file;
    }
    return NULL;
}

void af_install_tell_uv_index(const struct af_run *run)
{
    struct af_span text;
    const char *file = run->from == NULL ? uv_project_settings(run) : NULL;
    if (file != NULL &&
        af_file_read(run->arena, file, UV_SETTINGS_BYTES_MAX, &text, NULL) == ANYFLASH_OK &&
        (strstr(text.data, "index") != NULL || strstr(text.data, "find-links") != NULL))
        af_progress_message(&run->progress,
                            "uv takes the package index from '%s'; what comes from there is "
                            "not compared with anything",
                            af_text_scrub(run->arena, file, 300));
}
