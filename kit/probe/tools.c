/*
 * tools.c: the probe of installers and build tools: where they are, and their versions, which
 * are read from the files beside them; and the wheels in their caches. None of them is run.
 */
#include <string.h>

#include "kit/base/text.h"
#include "kit/formats/metadata.h"
#include "kit/probe/probes.h"
#include "kit/system/file.h"

#define FILES_MAX 16
#define SMALL_FILE_BYTES 65536u
#define CACHE_DEPTH_MAX 6
#define CACHE_FOLDERS_MAX 2000u
#define CACHE_NAMES_MAX 4096u
#define WHEELS_MAX 32u

struct files {
    struct af_probe *probe;
    const char *paths[FILES_MAX];
    size_t count;
};

/* Adds folder/name if it is a file. */
static bool add_file(struct files *files, const char *folder, const char *name)
{
    struct af_probe *probe = files->probe;
    const char *path = af_path_join(probe->arena, af_probe_path(probe, folder), name);
    if (path == NULL || !af_file_is_regular(path) || files->count == FILES_MAX)
        return false;
    files->paths[files->count++] = path;
    return true;
}

/*
 * Adds the file of the nearest folder, going upward, that has uv.toml, or pyproject.toml with
 * [tool.uv].
 */
static void add_uv_project(struct files *files)
{
    const char *folder = files->probe->options->folder;
    for (; folder != NULL; folder = af_probe_parent(files->probe, folder)) {
        const char *project = af_path_join(files->probe->arena, folder, "pyproject.toml");
        if (add_file(files, folder, "uv.toml"))
            return;
        if (af_file_is_regular(project) && af_probe_toml_has_table(project, "[tool.uv")) {
            add_file(files, folder, "pyproject.toml");
            return;
        }
    }
}

static void add_uv_files(struct files *files)
{
    const char *only = af_probe_variable(files->probe, "UV_CONFIG_FILE");
    if (af_probe_variable(files->probe, "UV_NO_CONFIG") != NULL)
        return;
    if (only != NULL) {
        files->paths[files->count++] = af_probe_path(files->probe, only);
        return;
    }
    add_uv_project(files);
    add_file(files, af_probe_home(files->probe, "XDG_CONFIG_HOME", ".config"), "uv/uv.toml");
    if (!add_file(files, "/etc/xdg", "uv/uv.toml"))
        add_file(files, "/etc/uv", "uv.toml");
}

/* The version in a name "NAME-VERSION.dist-info" within `folder`, or NULL. */
static const char *dist_info_version(struct af_probe *probe, const char *folder,
                                     const char *name, const char **path_out)
{
    const char *const *names;
    struct af_info_folder parts;
    size_t count = af_probe_list(probe, folder, &names);
    for (size_t i = 0; i < count; i++) {
        if (!af_info_folder_parse((struct af_span){names[i], strlen(names[i])}, &parts) ||
            parts.egg || parts.version.len == 0 || !af_text_span_equal(parts.name, name))
            continue;
        *path_out = af_path_join(probe->arena, folder, names[i]);
        return af_arena_text_n(probe->arena, parts.version.data, parts.version.len);
    }
    return NULL;
}

/* Searches the package folders that belong to a program's bin folder. */
static const char *version_beside(struct af_probe *probe, const char *program, const char *name,
                                  const char **path_out)
{
    static const char *const ends[] = {"site-packages", "dist-packages"};
    const char *real = af_file_real_path(probe->arena, program);
    const char *bin = real == NULL ? NULL : af_path_folder(probe->arena, real);
    const char *prefix = bin == NULL ? NULL : af_path_folder(probe->arena, bin);
    const char *lib = prefix == NULL ? NULL : af_path_join(probe->arena, prefix, "lib");
    const char *const *names;
    size_t count = af_probe_list(probe, lib, &names);
    for (size_t i = 0; i < 2 * count; i++) {
        if (!af_starts_with(names[i / 2], "python3"))
            continue;
        const char *folder =
            af_arena_format(probe->arena, "%s/%s/%s", lib, names[i / 2], ends[i % 2]);
        const char *version = dist_info_version(probe, folder, name, path_out);
        if (version != NULL)
            return version;
    }
    return NULL;
}

/* Reads {"version": "0.13.8"} in uv-receipt.json, which uv's own installer writes. */
static const char *uv_receipt_version(struct af_probe *probe, const char **path_out)
{
    json_t *json;
    const char *path = af_path_join(
        probe->arena, af_probe_home(probe, "XDG_CONFIG_HOME", ".config"), "uv/uv-receipt.json");
    if (path == NULL || !af_file_is_regular(path) ||
        af_file_read_json(path, SMALL_FILE_BYTES, &json, NULL) != ANYFLASH_OK)
        return NULL;
    const char *version =
        af_arena_text(probe->arena, json_string_value(json_object_get(json, "version")));
    json_decref(json);
    *path_out = path;
    return version;
}

/* The version in conda-meta/NAME-VERSION-BUILD.json of the installation that has `program`. */
static const char *conda_version(struct af_probe *probe, const char *program, const char *name,
                                 const char **path_out)
{
    const char *prefix = af_path_folder(probe->arena, af_path_folder(probe->arena, program));
    const char *folder = af_path_join(probe->arena, prefix, "conda-meta");
    const char *const *names;
    size_t len = strlen(name);
    size_t count = af_probe_list(probe, folder, &names);
    for (size_t i = 0; i < count; i++) {
        const char *rest = names[i] + len + 1;
        if (strncmp(names[i], name, len) != 0 || names[i][len] != '-' || rest[0] < '0' ||
            rest[0] > '9')
            continue;
        *path_out = af_path_join(probe->arena, folder, names[i]);
        return af_arena_text_n(probe->arena, rest, strcspn(rest, "-"));
    }
    return NULL;
}

static void add(struct af_probe *probe, const char *name, const char *path, const char *source,
                const char *version, const char *version_source)
{
    struct af_tool *tool = af_machine_row_add(
        probe->machine, offsetof(struct af_machine, tools), "only running it would show this");
    if (tool == NULL)
        return;
    af_fact_text(probe->arena, &tool->name, name, source);
    af_fact_text(probe->arena, &tool->path, path, source);
    af_fact_text(probe->arena, &tool->version, version, version_source);
    struct files files = {.probe = probe};
    if (!af_equal(name, "uv")) {
        af_fact_absent(probe->arena, &tool->config_files, "only uv's are looked for");
        return;
    }
    add_uv_files(&files);
    af_fact_list(probe->arena, &tool->config_files, files.paths, files.count,
                 "its search order, highest priority first");
}

/* The version of the environment's own package `name`, or NULL. */
static const char *package_version(struct af_probe *probe, const char *name,
                                   const char **path_out)
{
    const struct af_fact *sites = &probe->machine->python.site_packages;
    const char *version = NULL;
    for (size_t i = 0;
         sites->state == AF_FACT_KNOWN && version == NULL && i < sites->value.list.count; i++)
        version = dist_info_version(probe, sites->value.list.items[i], name, path_out);
    return version;
}

static void add_program(struct af_probe *probe, const char *name, const char *variable)
{
    const char *path = variable == NULL ? NULL : af_probe_variable(probe, variable);
    const char *source = "PATH";
    const char *version_source = NULL;
    if (path != NULL) {
        path = af_probe_path(probe, path);
        source = variable;
    }
    if (path == NULL || !af_file_is_executable(path)) {
        path = af_probe_on_path(probe, name);
        source = "PATH";
    }
    if (path == NULL)
        return;
    const char *version = NULL;
    if (strcmp(name, "uv") == 0)
        version = uv_receipt_version(probe, &version_source);
    if (version == NULL)
        version = conda_version(probe, path, name, &version_source);
    if (version == NULL)
        version = version_beside(probe, path, name, &version_source);
    if (version == NULL && strstr(path, "/shims/") != NULL)
        /* behind a pyenv shim there is a package */
        version = package_version(probe, name, &version_source);
    add(probe, name, path, source, version, version_source);
}

/* Adds a tool that is a package of the environment and needs no program on PATH. */
static void add_package(struct af_probe *probe, const char *name)
{
    const char *path = NULL;
    const char *version = package_version(probe, name, &path);
    if (version == NULL || path == NULL)
        return;
    const char *folder = af_path_folder(probe->arena, path);
    add(probe, name, af_path_join(probe->arena, folder, name), path, version, path);
}

void af_probe_tools(struct af_probe *probe)
{
    probe->machine->tools.state = AF_FACT_KNOWN;
    probe->machine->tools.source = "PATH and the environment's packages";
    add_program(probe, "uv", "UV");
    add_package(probe, "pip");
    if (!af_machine_has_tool(probe->machine, "pip") &&
        !af_fact_is(&probe->machine->python.kind, "venv"))
        add_program(probe, "pip", NULL);
    add_program(probe, "conda", "CONDA_EXE");
    add_program(probe, "mamba", "MAMBA_EXE");
    add_program(probe, "pixi", NULL);
    add_program(probe, "poetry", NULL);
    add_program(probe, "pdm", NULL);
    add_package(probe, "ninja");
    if (!af_machine_has_tool(probe->machine, "ninja"))
        add_program(probe, "ninja", NULL);
}

struct search {
    struct af_probe *probe;
    const char *tool;
    const char *source; /* where the cache's path comes from */
    size_t folders;     /* read so far */
};

static void add_wheel(const struct search *search, const char *path)
{
    struct af_machine *machine = search->probe->machine;
    if (machine->cached_wheels.count == WHEELS_MAX)
        return;
    struct af_cached_wheel *row =
        af_machine_row_add(machine, offsetof(struct af_machine, cached_wheels), search->source);
    if (row == NULL)
        return;
    af_fact_text(search->probe->arena, &row->tool, search->tool, search->source);
    af_fact_text(search->probe->arena, &row->path, path, search->source);
}

static void look_into(struct search *search, const char *folder, int depth)
{
    const char **names = NULL;
    size_t count = 0;
    struct af_arena *arena = search->probe->arena;
    if (folder == NULL || search->folders++ == CACHE_FOLDERS_MAX || depth > CACHE_DEPTH_MAX ||
        af_folder_list(arena, folder, CACHE_NAMES_MAX, &names, &count, NULL, NULL) !=
            ANYFLASH_OK)
        return;
    for (size_t i = 0; i < count && search->folders < CACHE_FOLDERS_MAX; i++) {
        const char *path = af_path_join(arena, folder, names[i]);
        if (af_starts_with(names[i], "flash_attn-") && af_ends_with(names[i], ".whl"))
            add_wheel(search, path);
        else if (!af_equal(names[i], "src") && !af_starts_with(names[i], "flash_attn-") &&
                 !af_file_is_link(path) && af_file_is_folder(path))
            look_into(search, path, depth + 1);
    }
}

/* $PIP_CACHE_DIR, or $XDG_CACHE_HOME/pip, or ~/.cache/pip; likewise for the others. */
static const char *cache_folder(struct search *search, const char *own)
{
    static const char *const roots[][2] = {{"XDG_CACHE_HOME", ""}, {"HOME", ".cache/"}};
    struct af_probe *probe = search->probe;
    const char *folder = af_probe_variable(probe, own);
    search->source = own;
    if (folder != NULL)
        return af_probe_path(probe, folder);
    for (size_t i = 0; i < AF_COUNT(roots); i++) {
        const char *root = af_probe_variable(probe, roots[i][0]);
        search->source = roots[i][0];
        if (root != NULL)
            return af_probe_path(probe, af_arena_format(probe->arena, "%s/%s%s", root,
                                                        roots[i][1], search->tool));
    }
    return NULL;
}

/* Only the folders with finished wheels: the others of a build are many. */
static void look_into_builds(struct search *search, const char *folder)
{
    const char *const *names;
    struct af_arena *arena = search->probe->arena;
    size_t count = af_probe_list(search->probe, folder, &names);
    for (size_t i = 0; i < count; i++) {
        const char *build = af_path_join(arena, folder, names[i]);
        look_into(search, af_path_join(arena, build, "wheels"), CACHE_DEPTH_MAX);
    }
}

/*
 * The probe of flash-attn wheels that were built from source and kept. pip has them in
 * CACHE/wheels/AB/CD/EF/HASH/, uv in CACHE/sdists-vN/KIND/.../HASH/ (seen with pip 26 and uv
 * 0.13), `anyflash build` in CACHE/build/HASH/wheels/. The number of folders that are read is
 * bounded; the list of a cache with more may be incomplete.
 */
void af_probe_cached_wheels(struct af_probe *probe)
{
    struct search pip = {.probe = probe, .tool = "pip"};
    struct search uv = {.probe = probe, .tool = "uv"};
    struct search own = {.probe = probe, .tool = "anyflash"};
    const char *const *names;
    const char *pip_folder = cache_folder(&pip, "PIP_CACHE_DIR");
    const char *uv_folder = cache_folder(&uv, "UV_CACHE_DIR");
    const char *own_folder = cache_folder(&own, "ANYFLASH_CACHE");
    probe->machine->cached_wheels.state = AF_FACT_KNOWN;
    probe->machine->cached_wheels.source = "caches of pip, uv and anyflash";
    if (pip_folder != NULL)
        look_into(&pip, af_path_join(probe->arena, pip_folder, "wheels"), 1);
    if (own_folder != NULL)
        look_into_builds(&own, af_path_join(probe->arena, own_folder, "build"));
    size_t count = af_probe_list(probe, uv_folder, &names);
    for (size_t i = 0; i < count; i++)
        if (af_starts_with(names[i], "sdists-v"))
            look_into(&uv, af_path_join(probe->arena, uv_folder, names[i]), 1);
}
