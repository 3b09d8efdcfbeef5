/*
 * tool_configs.c: the configuration files that each installer reads, in its
 * own order. Sources: uv's concepts/configuration-files (uv.toml hides the
 * [tool.uv] of a pyproject.toml beside it), pip's topics/configuration, and
 * the manuals of conda, pixi, Poetry and PDM.
 */
#include "kit/probe/tools.h"
#include "kit/system/file.h"

#include <string.h>

#define FILES_MAX 16
#define TOML_BYTES (1024u * 1024u)
#define FOLDERS_UP_MAX 64

struct files {
    struct af_probe *probe;
    const char *paths[FILES_MAX];
    size_t count;
};

bool af_probe_toml_has_table(const char *path, const char *table)
{
    struct af_arena arena;
    struct af_span rest;
    struct af_span line;
    bool found = false;
    size_t len = strlen(table);
    af_arena_init(&arena);
    if (af_file_read_start(&arena, path, TOML_BYTES, &rest, NULL) == ANYFLASH_OK) {
        while (!found && af_text_line(&rest, &line)) {
            line = af_text_trim(line);
            while (line.len > 1 && line.data[0] == '[' && line.data[1] == '[') {
                line.data++;
                line.len--;
            }
            found = line.len > len && strncmp(line.data, table, len) == 0 &&
                    (line.data[len] == ']' || line.data[len] == '.');
        }
    }
    af_arena_release(&arena);
    return found;
}

/* Adds folder/name when it is a file. */
static bool add(struct files *files, const char *folder, const char *name)
{
    struct af_probe *probe = files->probe;
    const char *path =
        folder == NULL ? NULL : af_path_join(probe->arena, af_probe_path(probe, folder), name);
    if (path == NULL || !af_file_is_regular(path) || files->count == FILES_MAX)
        return false;
    files->paths[files->count++] = path;
    return true;
}

/* $XDG_CONFIG_HOME or ~/.config. */
static const char *config_home(const struct af_probe *probe)
{
    const char *folder = af_probe_variable(probe, "XDG_CONFIG_HOME");
    const char *home = af_probe_variable(probe, "HOME");
    if (folder != NULL || home == NULL)
        return folder;
    return af_path_join(probe->arena, home, ".config");
}

/* The nearest folder upward decides: uv.toml, or pyproject.toml with [tool.uv]. */
static void add_uv_project(struct files *files)
{
    const char *folder = files->probe->options->folder;
    for (int i = 0; i < FOLDERS_UP_MAX && folder != NULL; i++) {
        const char *project = af_path_join(files->probe->arena, folder, "pyproject.toml");
        if (add(files, folder, "uv.toml"))
            return;
        if (project != NULL && af_file_is_regular(project) &&
            af_probe_toml_has_table(project, "[tool.uv")) {
            add(files, folder, "pyproject.toml");
            return;
        }
        if (folder[0] == '\0' || strcmp(folder, "/") == 0 || strcmp(folder, ".") == 0)
            return;
        folder = af_path_folder(files->probe->arena, folder);
    }
}

static void uv_files(struct files *files)
{
    const char *only = af_probe_variable(files->probe, "UV_CONFIG_FILE");
    if (af_probe_variable(files->probe, "UV_NO_CONFIG") != NULL)
        return;
    if (only != NULL) {
        files->paths[files->count++] = af_probe_path(files->probe, only);
        return;
    }
    add_uv_project(files);
    add(files, config_home(files->probe), "uv/uv.toml");
    if (!add(files, "/etc/xdg", "uv/uv.toml"))
        add(files, "/etc/uv", "uv.toml");
}

static void pip_files(struct files *files)
{
    const char *only = af_probe_variable(files->probe, "PIP_CONFIG_FILE");
    if (af_equal(only, "/dev/null")) /* pip's way to say: none at all */
        return;
    if (only != NULL)
        files->paths[files->count++] = af_probe_path(files->probe, only);
    add(files, af_fact_text_or(&files->probe->machine->python.prefix, NULL), "pip.conf");
    add(files, config_home(files->probe), "pip/pip.conf");
    add(files, af_probe_variable(files->probe, "HOME"), ".pip/pip.conf");
    add(files, "/etc", "pip.conf");
    add(files, "/etc/xdg", "pip/pip.conf");
}

static void conda_files(struct files *files)
{
    const char *home = af_probe_variable(files->probe, "HOME");
    const char *only = af_probe_variable(files->probe, "CONDARC");
    if (only != NULL)
        files->paths[files->count++] = af_probe_path(files->probe, only);
    add(files, af_probe_variable(files->probe, "CONDA_PREFIX"), ".condarc");
    add(files, home, ".condarc");
    add(files, config_home(files->probe), "conda/.condarc");
    add(files, "/etc/conda", ".condarc");
}

static void pixi_files(struct files *files)
{
    add(files, files->probe->options->folder, ".pixi/config.toml");
    add(files, af_probe_variable(files->probe, "HOME"), ".pixi/config.toml");
    add(files, config_home(files->probe), "pixi/config.toml");
    add(files, "/etc/pixi", "config.toml");
}

static void poetry_files(struct files *files)
{
    add(files, files->probe->options->folder, "poetry.toml");
    add(files, config_home(files->probe), "pypoetry/config.toml");
}

static void pdm_files(struct files *files)
{
    add(files, files->probe->options->folder, "pdm.toml");
    add(files, config_home(files->probe), "pdm/config.toml");
    add(files, "/etc/xdg/pdm", "config.toml");
}

void af_tool_config_files(struct af_probe *probe, const char *name,
                          struct af_fact *config_files)
{
    static const struct {
        const char *name;
        void (*collect)(struct files *files);
    } tools[] = {{"uv", uv_files},       {"pip", pip_files},   {"conda", conda_files},
                 {"mamba", conda_files}, {"pixi", pixi_files}, {"poetry", poetry_files},
                 {"pdm", pdm_files}};
    struct files files = {.probe = probe};
    for (size_t i = 0; i < AF_COUNT(tools); i++) {
        if (strcmp(name, tools[i].name) == 0) {
            tools[i].collect(&files);
            af_fact_list(probe->arena, config_files, files.paths, files.count,
                         "where it looks, strongest first");
            return;
        }
    }
    af_fact_absent(probe->arena, config_files, "it has none");
}
