/*
 * cached_wheels.c: the probe of flash-attn wheels that were built from source and kept. pip has
 * them in CACHE/wheels/AB/CD/EF/HASH/, uv in CACHE/sdists-vN/KIND/.../HASH/ (seen with pip 26
 * and uv 0.13), `anyflash build` in CACHE/build/HASH/wheels/. The number of folders that are
 * read is bounded; the list of a cache with more may be incomplete.
 */
#include "kit/probe/probes.h"
#include "kit/system/file.h"

#define DEPTH_MAX 6
#define FOLDERS_MAX 2000u
#define NAMES_MAX 4096u
#define WHEELS_MAX 32u

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
    if (folder == NULL || search->folders++ == FOLDERS_MAX || depth > DEPTH_MAX ||
        af_folder_list(arena, folder, NAMES_MAX, &names, &count, NULL, NULL) != ANYFLASH_OK)
        return;
    for (size_t i = 0; i < count && search->folders < FOLDERS_MAX; i++) {
        const char *path = af_path_join(arena, folder, names[i]);
        if (path == NULL)
            return;
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
        look_into(search, build == NULL ? NULL : af_path_join(arena, build, "wheels"),
                  DEPTH_MAX);
    }
}

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
